//! What can be asked of the front door, and who answers.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{bench, fuzz, generated, needs, repo, shell, suite, tidy, tiers};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "The front door of Holdfast for people and CI")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check what a machine can check of the style: directions, names, budgets, mission ids.
    Tidy {
        /// Lower the ratchet to today's sizes; it never goes up.
        #[arg(long)]
        ratchet: bool,
    },
    /// Run every tier, or those that are named, and sum up.
    Test {
        /// Tiers by name; all of them if none is given.
        tiers: Vec<String>,
        /// Install what is missing, also what takes a while to build. Implied by `CI=true`.
        #[arg(long)]
        install: bool,
        /// Say which tiers there are and what they need, and run nothing.
        #[arg(long)]
        list: bool,
    },
    /// Run the simulator: arguments are passed on, and so is its exit code.
    Sim {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run real processes and strike them: `e2e engine [--rounds N] [--replicas N]`,
    /// `e2e cluster [--minutes N] [--seed N] [--store embedded|etcd]`.
    E2e {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run a benchmark by name; without a name, list them.
    Bench {
        name: Option<String>,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run the fuzz targets, all or those that are named.
    Fuzz {
        names: Vec<String>,
        /// For how long, each.
        #[arg(long, default_value_t = 120)]
        seconds: u32,
    },
    /// Write the generated files again.
    Gen {
        /// Only say which are stale.
        #[arg(long)]
        check: bool,
    },
    /// Install everything that the tiers need.
    Install,
}

pub(crate) fn run() -> Result<ExitCode> {
    let root = repo::root();
    match Cli::parse().task {
        Task::Tidy { ratchet: true } => tidy::lower_ratchet(&root),
        Task::Tidy { ratchet: false } => Ok(exit(tidy::run(&root)?)),
        Task::Test { list: true, .. } => {
            suite::list();
            Ok(ExitCode::SUCCESS)
        }
        Task::Test { tiers, install, list: false } => {
            Ok(exit(suite::run(&root, &tiers, suite::Mode::from_env(install))?))
        }
        Task::Sim { args } => shell::cargo_exit(&root, tiers::SIM, &args),
        Task::E2e { args } => shell::cargo_exit(&root, tiers::E2E, &args),
        Task::Bench { name, args } => bench::run(&root, name.as_deref(), &args),
        Task::Fuzz { names, seconds } => Ok(exit(fuzz::run(&root, &names, seconds)?)),
        Task::Gen { check: true } => Ok(exit(generated::check(&root)?)),
        Task::Gen { check: false } => generated::write(&root),
        Task::Install => Ok(needs::install_all()),
    }
}

/// What a task found, as an answer to the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Bad,
}

fn exit(verdict: Verdict) -> ExitCode {
    match verdict {
        Verdict::Good => ExitCode::SUCCESS,
        Verdict::Bad => ExitCode::FAILURE,
    }
}
