//! The limits of this machine, and how near the reactor comes to them: bare sockets and a bare
//! file, each beside the same work without us. Rows of JSON on standard output, one per line.
//!
//! Arguments: a folder for the file, then the parts to run (`loopback`, `file`), all if none.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "rows on standard output are what this is for")]

mod client;
mod disk;
mod measure;
mod net;

use std::{error::Error, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let only: Vec<String> = args.collect();
    let is_wanted = |part: &str| only.is_empty() || only.iter().any(|name| name == part);
    if is_wanted("loopback") {
        net::run()?;
    }
    if is_wanted("file") {
        disk::run(&folder)?;
    }
    Ok(())
}
