//! The one binary.
//!
//! It holds the controller, the engine, the host, the commands for volumes, nodes and pools, and
//! what a person needs at disks, pools and the store: looking, checking, measuring, backing up, and
//! judging records by the promises.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the command line")]

#[macro_use]
mod say;

mod attach_command;
mod config_file;
mod controller_command;
mod disk_command;
mod doctor;
mod drill_command;
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

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "holdfast", version = rpc::VERSION)]
#[command(about = "Replicated block volumes on ordinary machines")]
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
    /// End a volume's target on purpose; measure the pause, compare the data, record it
    Drill(drill_command::DrillCommand),
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
    Completions {
        /// For example: `source <(holdfast completions bash)`
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of every command
    Man {
        /// The folder to write them to, such as /usr/local/share/man/man1
        #[arg(long)]
        dir: PathBuf,
    },
    #[command(flatten)]
    User(cli::Command),
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        if !is_unread(&error) {
            eprintln!("holdfast: {error:#}");
        }
        ExitCode::FAILURE
    })
}

/// Who read the beginning and went, as `head` does, misses nothing.
fn is_unread(error: &anyhow::Error) -> bool {
    let io = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.map(std::io::Error::kind).any(|kind| kind == std::io::ErrorKind::BrokenPipe)
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
        Command::Drill(command) => command.run(),
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
        Command::Man { dir } => manual(&dir),
        Command::User(command) => user_command::run(command),
    }
}

fn manual(folder: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let command = Arguments::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("writing to {}", folder.display()))?;
    println!("{} has the pages: `man {}/holdfast.1`", folder.display(), folder.display());
    Ok(ExitCode::SUCCESS)
}
