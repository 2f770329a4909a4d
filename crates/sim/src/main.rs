//! `holdfast-sim`: seeds, cases and broken brains, from the command line.
//!
//! Exit codes tell kinds of failure apart: 10 a panic, 11 a broken promise, 12 no progress, 2 a
//! request that cannot be understood, 13 a broken brain that nothing caught.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the command line")]

mod data;
mod data_command;
mod hunt;
mod summary;

use std::{
    hash::{BuildHasher, RandomState},
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Parser;
use sim::{Failure, Kind, Options, Report, Script, cases, generate, real_brain, run, shrink};

use crate::{hunt::Hunt, summary::Summary};

/// A quarter of a seed's time went to the C library's allocator: worlds are made of small things
/// that come and go.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "holdfast-sim", about = "Runs whole clusters from seeds, and judges every event")]
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line")]
struct Arguments {
    /// Run one seed, and print what happened
    #[arg(long)]
    seed: Option<u64>,
    /// Run a kept script, or one from a file, instead of one made from the seed
    #[arg(long, value_name = "NAME|FILE")]
    case: Option<String>,
    /// Run every script that is kept
    #[arg(long)]
    cases: bool,
    /// Run this many seeds
    #[arg(long)]
    seeds: Option<u64>,
    /// The first of them; `random` for ones that nobody has run
    #[arg(long, value_name = "SEED|random", default_value_t = FIRST_SEED)]
    #[arg(value_parser = read_start)]
    start: u64,
    /// Go on after a failure, and count them
    #[arg(long)]
    keep_going: bool,
    /// Leave the script of a failure as long as it is
    #[arg(long)]
    no_shrink: bool,
    /// Run this broken brain (or `all`, or `omissions`) until a seed catches it
    #[arg(long, value_name = "NAME")]
    broken: Option<String>,
    /// Run storage nodes that lack this rule (or `all`) until a seed catches them
    #[arg(long, value_name = "NAME")]
    broken_nodes: Option<String>,
    /// Explore small worlds of the data plane whole
    #[arg(long)]
    exhaustive: bool,
    /// Stop exploring after so many minutes
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Explore less: for every push
    #[arg(long)]
    short: bool,
    /// Only the world, or the flaw, whose name contains this
    #[arg(long, value_name = "WORDS")]
    only: Option<String>,
    /// Leave out one rule of the data plane after the other, until each is noticed
    #[arg(long)]
    broken_data: bool,
    /// Walk through deeper worlds of the data plane at random, so many times
    #[arg(long, value_name = "WALKS")]
    walks: Option<u64>,
    /// Run the data plane: targets, replicas and pools on disks that forget
    #[arg(long)]
    data: bool,
}

/// Of a run that names no other.
const FIRST_SEED: u64 = 1;
/// Seeds of a run that names no number.
const SEEDS: u64 = 100;
/// Nobody waits longer than this for a shorter script.
const SHRINK_FOR: Duration = Duration::from_mins(1);
/// With this many seeds every kind of fault and step must have happened.
const SEEDS_FOR_COVERAGE: u64 = 500;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.start != FIRST_SEED {
        println!("again with: --start {}", arguments.start);
    }
    if arguments.data {
        return data_command::run(&arguments);
    }
    let only = arguments.only.as_deref().unwrap_or_default();
    if arguments.exhaustive {
        return data::explore_all(Duration::from_mins(arguments.minutes), arguments.short, only);
    }
    if arguments.broken_data {
        return data::break_all(only);
    }
    if let Some(walks) = arguments.walks {
        return data::walk_all(arguments.start, walks, only);
    }
    if let Some(name) = &arguments.broken {
        let Arguments { start, seeds, no_shrink, .. } = arguments;
        return Hunt { start, seeds, is_shrinking: !no_shrink }.run(name);
    }
    if let Some(name) = &arguments.broken_nodes {
        let Arguments { start, seeds, no_shrink, .. } = arguments;
        return Hunt { start, seeds, is_shrinking: !no_shrink }.run_nodes(name);
    }
    if arguments.cases {
        return every_case(arguments.seed);
    }
    if let Some(case) = &arguments.case {
        return match read(case) {
            Ok(script) => {
                let seed = arguments.seed.unwrap_or(script.case_seed());
                one(seed, &script, &arguments)
            }
            Err(words) => {
                eprintln!("{case}: {words}");
                ExitCode::from(2)
            }
        };
    }
    match arguments.seed {
        Some(seed) => one(seed, &generate(seed), &arguments),
        None => many(&arguments),
    }
}

/// The seed to start from. What `random` chose is printed, or nobody could run it again.
fn read_start(words: &str) -> Result<u64, String> {
    if words == "random" {
        // Each of these states has keys of its own. 48 bits, so that a count can be added.
        return Ok(RandomState::new().hash_one(()) >> 16);
    }
    words.parse().map_err(|_| "neither a number nor `random`".to_owned())
}

/// A kept script by its name, any other by its path.
fn read(case: &str) -> Result<Script, String> {
    if let Some(kept) = cases().iter().find(|kept| kept.name == case) {
        return kept.script().map_err(|error| error.to_string());
    }
    let text = std::fs::read_to_string(case).map_err(|error| error.to_string())?;
    Script::parse(&text).map_err(|error| error.to_string())
}

/// One line each; the exit code is that of the first failure.
fn every_case(seed: Option<u64>) -> ExitCode {
    let mut code = None;
    for case in cases() {
        let began = Instant::now();
        match case.run(seed, Options::default()) {
            Ok(Report { failure: None, events, simulated, .. }) => {
                let took = began.elapsed().as_millis();
                println!("kept    {:<40} {simulated}, {events} events, {took} ms", case.name);
            }
            Ok(Report { failure: Some(failure), .. }) => {
                println!("failed  {:<40} {}: {}", case.name, failure.promise, failure.words);
                code = code.or(Some(exit(failure.kind)));
            }
            Err(error) => {
                println!("failed  {:<40} {error}", case.name);
                code = code.or(Some(ExitCode::from(2)));
            }
        }
    }
    code.unwrap_or(ExitCode::SUCCESS)
}

fn one(seed: u64, script: &Script, arguments: &Arguments) -> ExitCode {
    let options = Options { trace: true, ..Options::default() };
    let report = run(seed, script, real_brain(), options);
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
            if !arguments.no_shrink {
                tell_shrunk(seed, script, failure);
            }
            exit(failure.kind)
        }
    }
}

/// Prints a shorter script that fails in the same way, to be read and kept as a case.
fn tell_shrunk(seed: u64, script: &Script, failure: &Failure) {
    let began = Instant::now();
    // A panic that is looked for again and again need not be printed each time.
    std::panic::set_hook(Box::new(|_| {}));
    let is_over = || began.elapsed() > SHRINK_FOR;
    let shrunk = shrink(seed, script, failure, Options::default(), &real_brain, &is_over);
    drop(std::panic::take_hook());
    let (from, to) = (script.lines.len(), shrunk.script.lines.len());
    println!("\nshrunk in {} tries from {from} lines to {to}:\n", shrunk.tries);
    print!("{}", shrunk.script);
    println!();
    tell(seed, &shrunk.failure);
    println!("again with: holdfast-sim --case FILE --seed {seed}");
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

fn many(arguments: &Arguments) -> ExitCode {
    let (start, count) = (arguments.start, arguments.seeds.unwrap_or(SEEDS));
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
                stopped.store(!arguments.keep_going, Ordering::Relaxed);
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
            if !arguments.no_shrink {
                tell_shrunk(*seed, &generate(*seed), failure);
            }
            println!("again with: cargo xtask sim --seed {seed}");
            exit(failure.kind)
        }
        None if missing.is_empty() => ExitCode::SUCCESS,
        None => exit(Kind::NoProgress),
    }
}
