//! The data plane from the command line: small worlds explored, deeper ones walked, rules left out.
#![allow(clippy::print_stdout, reason = "this is the command line")]

use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use sim::data_plane::{Caught, Failure, catch_node, catch_pool};
use sim::exhaustive::{
    Explored, Limits, Scene, Trace, World, deep_scenes, explore, hunt_all, scenes, walk,
};
use storage_node::NodeMutation;

/// States of each world in the short form.
const SHORT: u64 = 60_000;

/// Seeds for each broken pool. Most show within the first ten; a torn page that is trusted, which
/// needs a power cut in the middle of a checkpoint, within some hundred.
const SEEDS: u64 = 1_000;

/// Every small world, whole if the time allows: one after the other on each core.
pub fn explore_all(time: Duration, is_short: bool, only: &str) -> ExitCode {
    let began = Instant::now();
    let chosen: Vec<_> = scenes().into_iter().filter(|s| s.name.contains(only)).collect();
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let next = AtomicUsize::new(0);
    let (total, calmed) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_broken = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scene) = chosen.get(index) else { return };
                    let states = if is_short { SHORT } else { u64::MAX };
                    // What is left, shared by those that are left.
                    let rest = (chosen.len() - index).div_ceil(cores);
                    let rest = u32::try_from(rest).unwrap_or(1);
                    let time = time.saturating_sub(began.elapsed()) / rest;
                    let found =
                        explore_one(scene, Limits { states, time, is_breadth_first: false });
                    total.fetch_add(found.states, Ordering::Relaxed);
                    calmed.fetch_add(found.calmed, Ordering::Relaxed);
                    is_broken.fetch_or(found.broken.is_some(), Ordering::Relaxed);
                }
            });
        }
    });
    let (total, took) = (total.into_inner(), began.elapsed().as_secs());
    if is_broken.into_inner() {
        println!("{total} states, a promise is broken, {took} s");
        return ExitCode::from(11);
    }
    let calmed = calmed.into_inner();
    println!("{total} states, 0 violations, {took} s; {calmed} left alone, and all became whole");
    ExitCode::SUCCESS
}

fn explore_one(scene: &Scene, limits: Limits) -> Explored {
    let began = Instant::now();
    let start = World::new(&scene.shape, None);
    let mut found = explore(&start, limits);
    let whole = if found.is_complete { "whole" } else { "cut short" };
    let (states, steps, took) = (found.states, found.steps, began.elapsed().as_secs());
    println!("{:<44} {states:>10} states {steps:>11} steps, {whole}, {took} s", scene.name);
    if let Some(trace) = found.broken.take() {
        // Again, in order of distance: a shorter way is easier to read.
        let limits = Limits { states: 400_000, is_breadth_first: true, ..limits };
        let trace = explore(&start, limits).broken.unwrap_or(trace);
        tell(&trace);
        found.broken = Some(trace);
    }
    found
}

pub fn walk_all(start: u64, walks: u64, only: &str) -> ExitCode {
    let mut steps = 0;
    for seed in start..start + walks {
        for scene in deep_scenes().iter().filter(|scene| scene.name.contains(only)) {
            let (walked, trace) = walk(&World::new(&scene.shape, None), seed, 600);
            steps += walked;
            if let Some(trace) = trace {
                println!("{}, seed {seed}:", scene.name);
                tell(&trace);
                return ExitCode::from(11);
            }
        }
    }
    println!("{walks} walks, {steps} steps, 0 violations");
    ExitCode::SUCCESS
}

/// Each rule left out must be noticed.
pub fn break_all(only: &str) -> ExitCode {
    let missed = hunt_all(Duration::from_mins(3), only, &mut |outcome| {
        let flaw = outcome.flaw;
        if let Some(trace) = &outcome.trace {
            println!("{flaw:?}: noticed in {}", outcome.place);
            tell(trace);
        } else {
            let why = outcome.covered.unwrap_or("and it must be");
            println!("{flaw:?}: not noticed in {}: {why}", outcome.place);
        }
    });
    let missed = missed + break_pools(only) + break_nodes(only);
    println!("{missed} not noticed");
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::from(13) }
}

/// Pools are broken under whole targets: the invariants of the data plane must notice.
fn break_pools(only: &str) -> usize {
    break_each(pool::Flaw::ALL, only, catch_pool)
}

/// And so is what lies between the machines of a node.
fn break_nodes(only: &str) -> usize {
    break_each(NodeMutation::ALL, only, catch_node)
}

fn break_each<T: Copy + std::fmt::Debug>(
    rules: &[T],
    only: &str,
    catch: impl Fn(T, u64) -> Option<Caught>,
) -> usize {
    let mut missed = 0;
    for rule in rules.iter().filter(|rule| format!("{rule:?}").contains(only)) {
        if let Some(Caught { seed, failure }) = catch(*rule, SEEDS) {
            let Failure { promise, words, .. } = failure;
            println!("{rule:?}: noticed by seed {seed}, invariant {promise}: {words}");
        } else {
            println!("{rule:?}: not noticed by {SEEDS} seeds, and it must be");
            missed += 1;
        }
    }
    missed
}

fn tell(trace: &Trace) {
    for (number, step) in trace.steps.iter().enumerate() {
        println!("  {number:>3} {step}");
    }
    println!("  broken: {}", trace.words);
}
