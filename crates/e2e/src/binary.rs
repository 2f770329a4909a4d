//! The binary that every process is.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};

/// The product's own binary, built as this program is and put beside it.
pub fn built() -> Result<PathBuf> {
    build("holdfast", &[])
}

/// The build that plays the next release.
pub fn next() -> Result<PathBuf> {
    build("holdfast-next", &["--features", "next-build"])
}

fn build(name: &str, words: &[&str]) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "holdfast", "--bin", name]).args(words);
    // Tests lie one deeper.
    let folder = own.parent().context("this program lies nowhere")?;
    let folder = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    if folder.ends_with("release") {
        build.arg("--release");
    }
    ensure!(build.status().context("running cargo")?.success(), "it does not build");
    Ok(folder.join(name))
}
