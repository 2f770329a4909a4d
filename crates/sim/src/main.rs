//! `holdfast-sim`: seeds, cases and broken brains, from the command line.
//!
//! Exit codes tell kinds of failure apart: 10 a panic, 11 a broken promise, 12 no progress, 2 a
//! request that cannot be understood.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the command line")]

mod summary;

use std::{
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use clap::Parser;
use reconcile::{Config, Reconciler};
use sim::{Failure, Kind, NewBrain, Options, Report, Script, generate, run};

use crate::summary::Summary;

#[derive(Debug, Parser)]
#[command(name = "holdfast-sim", about = "Runs whole clusters from seeds, and judges every event")]
struct Arguments {
    /// Run one seed, and print what happened
    #[arg(long)]
    seed: Option<u64>,
    /// Run this many seeds
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    start: u64,
    /// Go on after a failure, and count them
    #[arg(long)]
    keep_going: bool,
}

/// With this many seeds every kind of fault and step must have happened.
const SEEDS_FOR_COVERAGE: u64 = 500;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        return one(seed);
    }
    many(arguments.start, arguments.seeds.unwrap_or(100), arguments.keep_going)
}

fn real_brain() -> NewBrain {
    Box::new(|_, instance, seed| {
        Box::new(Reconciler::<plan::Rules>::new(Config::new(instance, seed)))
    })
}

fn one(seed: u64) -> ExitCode {
    let script = generate(seed);
    let report = run(seed, &script, real_brain(), Options { trace: true });
    print!("{script}");
    for line in &report.trace {
        println!("{line}");
    }
    let mut summary = Summary::default();
    summary.add(&report);
    summary.print();
    match &report.failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            tell(seed, failure);
            exit(failure.kind)
        }
    }
}

fn tell(seed: u64, failure: &Failure) {
    println!(
        "seed {seed} failed after {} and {} events: {:?}, {}\n  {}",
        failure.at, failure.event, failure.kind, failure.promise, failure.words
    );
}

fn exit(kind: Kind) -> ExitCode {
    ExitCode::from(match kind {
        Kind::Crash => 10,
        Kind::BrokenPromise => 11,
        Kind::NoProgress => 12,
    })
}

fn many(start: u64, count: u64, keep_going: bool) -> ExitCode {
    let next = AtomicU64::new(start);
    let stopped = AtomicBool::new(false);
    let results: Mutex<(Summary, Vec<(u64, Failure)>)> = Mutex::default();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= start + count || stopped.load(Ordering::Relaxed) {
                return;
            }
            let script: Script = generate(seed);
            let report: Report = run(seed, &script, real_brain(), Options::default());
            let mut results = match results.lock() {
                Ok(results) => results,
                Err(poisoned) => poisoned.into_inner(),
            };
            results.0.add(&report);
            if let Some(failure) = report.failure {
                tell(seed, &failure);
                results.1.push((seed, failure));
                stopped.store(!keep_going, Ordering::Relaxed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let (summary, failures) = match results.into_inner() {
        Ok(results) => results,
        Err(poisoned) => poisoned.into_inner(),
    };
    summary.print();
    let missing = if count >= SEEDS_FOR_COVERAGE { summary.missing() } else { Vec::new() };
    for kind in &missing {
        println!("never happened: {kind}");
    }
    println!("{} failures", failures.len());
    match failures.first() {
        Some((seed, failure)) => {
            println!("again with: cargo xtask sim --seed {seed}");
            exit(failure.kind)
        }
        None if missing.is_empty() => ExitCode::SUCCESS,
        None => exit(Kind::NoProgress),
    }
}
