//! The one binary.
//!
//! It holds the controller, the engine, the host, the commands for volumes, nodes and pools, and
//! what a person needs at disks, pools and the store: looking, checking, measuring, backing up, and
//! judging records by the promises.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the command line")]

mod attach_command;
mod config_file;
mod controller_command;
mod disk_command;
mod doctor;
mod ending;
mod engine_command;
mod host_command;
mod listen;
mod pki_command;
mod pool_command;
mod run_folder;
mod store_command;
mod up_command;
mod user_command;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "holdfast", version, about = "Replicated block volumes on ordinary machines")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a whole cluster on this machine: a controller, engines and a host
    Up(up_command::UpCommand),
    /// Stop the cluster that `up` runs
    Down(up_command::DownCommand),
    /// Run a controller: it decides what engines and hosts do
    Controller(controller_command::ControllerCommand),
    /// Run an engine: a node's pools, replicas and targets
    Engine(engine_command::EngineCommand),
    /// Run a host: it gives this machine the volumes that are published to it
    Host(host_command::HostCommand),
    /// Have a volume on this machine, and print its device
    Attach(attach_command::AttachCommand),
    /// Take a volume from this machine
    Detach(attach_command::DetachCommand),
    /// Use a volume over NVMe/TCP: look, fill, verify, measure, serve as NBD
    #[command(subcommand)]
    Disk(disk_command::DiskCommand),
    /// Make, check and read a pool that no engine has open
    #[command(subcommand)]
    Pool(pool_command::PoolCommand),
    /// Make and show the certificates of a cluster on several machines
    #[command(subcommand)]
    Pki(pki_command::PkiCommand),
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
    run().unwrap_or_else(|error| {
        eprintln!("holdfast: {error:#}");
        ExitCode::FAILURE
    })
}

fn run() -> anyhow::Result<ExitCode> {
    let given = config_file::parse(&Arguments::command(), std::env::args_os().collect())?;
    match Arguments::from_arg_matches(&given)?.command {
        Command::Up(command) => command.run(),
        Command::Down(command) => command.run(),
        Command::Controller(command) => command.run(),
        Command::Engine(command) => command.run(),
        Command::Host(command) => command.run(),
        Command::Attach(command) => command.run(),
        Command::Detach(command) => command.run(),
        Command::Disk(command) => command.run(),
        Command::Pool(command) => command.run(),
        Command::Pki(command) => command.run(),
        Command::Store(command) => command.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Completions { shell } => {
            let out = &mut std::io::stdout();
            clap_complete::generate(shell, &mut Arguments::command(), "holdfast", out);
            Ok(ExitCode::SUCCESS)
        }
        Command::User(command) => user_command::run(command),
    }
}
