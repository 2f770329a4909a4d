//! `holdfast-e2e`: engines or whole clusters as processes, struck under a verifying workload.
//!
//! Exit code 1: a block was lost or wrong, a command failed, or something never healed.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the command line")]

mod bench;
mod cluster;
mod fleet;
mod gaps;
mod report;
mod rounds;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "holdfast-e2e", about = "The data plane on real processes and files")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Strikes each engine in turn while a host verifies every block that it reads.
    Engine(rounds::Options),
    /// Strikes at random at a whole cluster, each process with a machine of its own.
    Cluster(cluster::Options),
    /// Measures replicated volumes, rebuilds, and an engine that idles.
    Bench(bench::Options),
    /// Measures the pauses of an application on a cluster, and what many volumes cost.
    BenchCluster(gaps::Options),
}

fn main() -> ExitCode {
    let ended = match Cli::parse().task {
        Task::Engine(options) => rounds::main(&options),
        Task::Cluster(options) => cluster::main(&options),
        Task::Bench(options) => bench::main(&options),
        Task::BenchCluster(options) => gaps::main(&options),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("holdfast-e2e: {error:#}");
            ExitCode::FAILURE
        }
    }
}
