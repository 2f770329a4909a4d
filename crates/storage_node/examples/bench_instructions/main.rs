//! How many instructions a storage node runs for one operation of 4 KiB.
//!
//! Time on a shared machine says little about a commit; a count of instructions says the same on
//! every run. The benchmark runs itself under callgrind, which counts only inside
//! `measured_operations`, and there not inside `uncounted_work`: what the kernel, the disk and the
//! host do.
//!
//! ```text
//!   host bytes ─▶ node with the target ─┬─▶ its replica ─▶ pool ─▶ disk in memory
//!                                       └─▶ bytes ─▶ node with the other replica ─▶ pool ─▶ disk
//! ```
#![allow(clippy::print_stdout, reason = "a benchmark prints what it found")]
#![allow(clippy::unwrap_used, reason = "a benchmark stops where its world is not as it should be")]

mod callgrind;
mod host;
mod nodes;

use std::{
    env,
    hint::black_box,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use host::{Host, Kind};
use nodes::Nodes;

/// What is measured.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    is_mirrored: bool,
    kind: Kind,
    /// Commands that the host sends at once.
    depth: u16,
}

const fn case(name: &'static str, is_mirrored: bool, kind: Kind, depth: u16) -> Case {
    Case { name, is_mirrored, kind, depth }
}

const CASES: [Case; 8] = [
    case("mirrored write, depth 32", true, Kind::Write, 32),
    case("mirrored write, depth 1", true, Kind::Write, 1),
    case("mirrored read, depth 32", true, Kind::Read, 32),
    case("mirrored read, depth 1", true, Kind::Read, 1),
    case("device in memory, write, depth 32", false, Kind::Write, 32),
    case("device in memory, write, depth 1", false, Kind::Write, 1),
    case("device in memory, read, depth 32", false, Kind::Read, 32),
    case("device in memory, read, depth 1", false, Kind::Read, 1),
];

/// Operations that are counted, after as many that are not.
const OPERATIONS: u32 = 1024;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--run", name] => {
            let case = CASES.iter().find(|case| case.name == name).unwrap();
            run(case);
            ExitCode::SUCCESS
        }
        [] => report(0, ""),
        ["--functions"] => report(40, ""),
        ["--functions", only] => report(40, only),
        _ => {
            println!("arguments: none, or --functions [part of a case's name]");
            ExitCode::FAILURE
        }
    }
}

/// Runs every case under callgrind and prints what it counted.
fn report(functions: usize, only: &str) -> ExitCode {
    println!("{:<30} {:>12}  by crate", "operation of 4 KiB", "instructions");
    for case in CASES.iter().filter(|case| case.name.contains(only)) {
        let Some(profile) = callgrind::profile(case.name) else {
            println!("valgrind is needed, and could not be run");
            return ExitCode::FAILURE;
        };
        let each = |count: u64| count.div_ceil(OPERATIONS.into());
        let crates: Vec<_> = profile
            .by_crate()
            .into_iter()
            .filter(|(_, count)| each(*count) > 9)
            .map(|(name, count)| format!("{name} {}", each(count)))
            .collect();
        println!("{:<30} {:>12}  {}", case.name, each(profile.total()), crates.join(", "));
        for (name, count) in profile.by_function().into_iter().take(functions) {
            println!("{:>43}  {name}", each(count));
        }
    }
    ExitCode::SUCCESS
}

fn run(case: &Case) {
    let mut host = Host::new();
    let mut nodes = if case.is_mirrored { Nodes::mirrored() } else { Nodes::device() };
    host.attach(&mut nodes);
    if case.is_mirrored {
        host.fill(&mut nodes);
    }
    run_on(&mut host, &mut nodes, case);
}

fn run_on(host: &mut Host, target: &mut Nodes, case: &Case) {
    host.operations(target, case.kind, case.depth, OPERATIONS);
    measured_operations(host, target, case);
    assert_eq!(host.answered, u64::from(OPERATIONS) * 2);
}

/// True while callgrind counts.
static IS_COUNTING: AtomicBool = AtomicBool::new(false);

/// Callgrind counts while this runs.
#[inline(never)]
fn measured_operations(host: &mut Host, target: &mut Nodes, case: &Case) {
    IS_COUNTING.store(true, Ordering::Relaxed);
    host.operations(target, case.kind, case.depth, OPERATIONS);
    IS_COUNTING.store(false, Ordering::Relaxed);
}

/// What is not the machines' work, and not counted.
fn outside_the_machines<T>(work: impl FnOnce() -> T) -> T {
    // Callgrind begins to count where it enters a function that it was told of, if it did not count
    // before.
    if IS_COUNTING.load(Ordering::Relaxed) { uncounted_work(work) } else { work() }
}

/// Callgrind stops counting while this runs.
#[inline(never)]
fn uncounted_work<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}
