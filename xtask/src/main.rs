//! The front door for people and CI: `cargo xtask <what>`.
//!
//! It knows how the project is checked and what is generated. It decides nothing about Holdfast.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what a front door does")]

mod cli;
mod repo;
mod shell;

mod bench;
mod fresh;
mod fuzz;
mod generated;
mod mission;
mod needs;
mod tidy;

mod suite;
mod tiers;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
