//! The one binary.
//!
//! For now it holds the controller, the commands for volumes, nodes and pools, and what a person
//! needs at the store: checking, reading, backing up and restoring it, and judging its records by
//! the promises. Engine and node join it as they are built.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the command line")]

mod controller_command;
mod doctor;
mod listen;
mod store_command;
mod user_command;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "holdfast", version, about = "Replicated block volumes on ordinary machines")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a controller: it decides what engines and hosts do
    Controller(controller_command::ControllerCommand),
    /// Check, read, back up and restore an embedded store that no controller has open
    #[command(subcommand)]
    Store(store_command::StoreCommand),
    /// Judge the records of a cluster, or of an embedded store, by Holdfast's promises
    Doctor(doctor::Doctor),
    /// Print what a shell needs to complete commands
    Completions { shell: clap_complete::Shell },
    #[command(flatten)]
    User(cli::Command),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Controller(command) => command.run(),
        Command::Store(command) => command.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Completions { shell } => {
            let out = &mut std::io::stdout();
            clap_complete::generate(shell, &mut Arguments::command(), "holdfast", out);
            Ok(ExitCode::SUCCESS)
        }
        Command::User(command) => user_command::run(command),
    };
    done.unwrap_or_else(|error| {
        eprintln!("holdfast: {error:#}");
        ExitCode::FAILURE
    })
}
