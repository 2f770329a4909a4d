//! Prints the OpenAPI document, for `cargo xtask gen`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string_pretty(&rest::document())?);
    Ok(())
}
