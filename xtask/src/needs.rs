//! What a tier needs from the machine, and how the machine gets it.

use std::{collections::BTreeSet, path::Path, process::Command, process::ExitCode};

use anyhow::{Context, Result};

use crate::{shell, tiers::TIERS};

/// A program that must be on the search path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub program: &'static str,
    pub installer: Installer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installer {
    /// A system package: quick, but only root may.
    Apt(&'static str),
    /// A Python package, into an environment of its own in the target folder.
    Pip { package: &'static str, version: &'static str },
    /// Built from source: anybody may, but it takes minutes.
    Cargo { package: &'static str, version: &'static str },
}

/// How far to go for a need that is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Quick installs only.
    Quick,
    /// Whatever it takes.
    Full,
}

/// Meets the need, or says why it is not met.
pub(crate) fn meet(need: &Need, effort: Effort) -> Result<(), String> {
    if shell::on_path(need.program) || shell::python_tools().join(need.program).is_file() {
        return Ok(());
    }
    let installed = match need.installer {
        Installer::Apt(package) if !may_use_apt() => {
            return Err(format!("`{package}` is missing and apt may not be used"));
        }
        Installer::Apt(package) => apt_install(package),
        Installer::Pip { package, version } => pip_install(package, version),
        Installer::Cargo { package, .. } if effort == Effort::Quick => {
            return Err(format!("`{package}` is missing; `--install` builds it"));
        }
        Installer::Cargo { package, version } => cargo_install(package, version),
    };
    match installed {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("installing `{}` failed", need.program)),
        Err(error) => Err(format!("installing `{}` failed: {error:#}", need.program)),
    }
}

/// Installs everything that any tier needs and that is not there yet.
pub(crate) fn install_all() -> ExitCode {
    let mut seen = BTreeSet::new();
    let mut code = ExitCode::SUCCESS;
    for need in TIERS.iter().flat_map(|tier| tier.needs) {
        if !seen.insert(need.program) {
            continue;
        }
        match meet(need, Effort::Full) {
            Ok(()) => println!("{}: there", need.program),
            Err(reason) => {
                println!("{}: {reason}", need.program);
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}

fn may_use_apt() -> bool {
    let user = Command::new("id").arg("-u").output();
    shell::on_path("apt-get") && user.is_ok_and(|out| out.stdout.trim_ascii() == b"0")
}

fn apt_install(package: &str) -> Result<bool> {
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        shell::succeeds(command.args(args).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    let install = ["install", "--yes", "--no-install-recommends", package];
    // A new machine has no package lists, an old one has stale ones: both show as a failure.
    Ok(apt(&install)? || (apt(&["update"])? && apt(&install)?))
}

/// Debian's Python comes without what makes environments: then apt has it.
fn pip_install(package: &str, version: &str) -> Result<bool> {
    let tools = shell::python_tools();
    let folder = tools.parent().context("the tools have a folder")?;
    let build = || {
        let mut command = Command::new("python3");
        shell::succeeds(command.args(["-m", "venv"]).arg(folder))
    };
    let made = build().unwrap_or(false)
        || (may_use_apt() && apt_install("python3-venv")? && build().unwrap_or(false));
    let wanted = format!("{package}=={version}");
    let mut command = Command::new(tools.join("pip"));
    Ok(made && shell::succeeds(command.args(["install", "--quiet", &wanted]))?)
}

/// Built without optimisation for speed: these tools run for a second, and build for minutes.
fn cargo_install(package: &str, version: &str) -> Result<bool> {
    let mut command = shell::cargo(Path::new("."));
    command
        .args(["install", "--locked", package, "--version", version])
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    shell::succeeds(&mut command)
}
