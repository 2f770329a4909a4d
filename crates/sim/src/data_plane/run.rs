//! One run: a while with faults, a while without, and a look at everything at rest.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{
    PlannedFault, Rules, generate,
    world::{Broken, Counts, Event, World},
};
use crate::{Kind, Random};

/// What a run does.
#[derive(Clone, Debug)]
pub struct Scene {
    pub copies: usize,
    /// Milliseconds in which things may go wrong.
    pub time: u64,
    pub faults: Vec<PlannedFault>,
}

impl Scene {
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6461_7461);
        let copies = if random.chance(300) { 3 } else { 2 };
        let time = random.between(4_000, 25_000);
        let faults = generate(&mut random, time);
        Self { copies, time, faults }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: Kind,
    pub promise: &'static str,
    pub words: String,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub failure: Option<Failure>,
    pub counts: Counts,
    pub writes: u64,
    pub reads: u64,
    pub flushes: u64,
    pub trace: Vec<String>,
}

/// After the last fault everything must be whole within this, in milliseconds.
const WHOLE_WITHIN: u64 = 120_000;

/// And stay so for this long: more than a target waits for the store.
const WHOLE_FOR: u64 = 2_500;

pub fn run(seed: u64, scene: &Scene, rules: Rules, is_traced: bool) -> Report {
    let run = || live(seed, scene, rules, is_traced);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let words = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()))
            .unwrap_or_default();
        let failure = Failure { kind: Kind::Crash, promise: "no panic", words };
        Report { failure: Some(failure), ..Report::default() }
    })
}

fn live(seed: u64, scene: &Scene, rules: Rules, is_traced: bool) -> Report {
    let mut world = World::new(seed, scene.copies, rules, is_traced);
    for planned in &scene.faults {
        world.after(planned.at * 1_000, Event::Fault(planned.fault));
    }
    world.run_until(scene.time * 1_000);
    world.calm();
    let mut is_whole = false;
    // The host goes on for a while, then rests.
    let end = world.now + WHOLE_WITHIN * 1_000;
    world.run_until(world.now + 1_500_000);
    world.host.is_resting = true;
    while world.now < end && world.broken.is_none() && !is_whole {
        world.run_until(world.now + 250_000);
        if world.is_whole() {
            // What was begun ends, also a question to the store that had no answer.
            let revision = world.store.record.revision;
            world.run_until(world.now + WHOLE_FOR * 1_000);
            is_whole = world.is_whole() && world.store.record.revision == revision;
        }
    }
    let mut failure = None;
    if world.broken.is_none() && !is_whole {
        let (kind, promise) = (Kind::NoProgress, "10");
        failure = Some(Failure { kind, promise, words: "it does not become whole".into() });
    } else if world.broken.is_none() {
        world.judge_rest();
        world.judge_pools();
    }
    if let Some(Broken { promise, words }) = world.broken.take() {
        failure = Some(Failure { kind: Kind::BrokenPromise, promise, words });
    }
    Report {
        failure,
        writes: world.host.writes,
        reads: world.host.reads,
        flushes: world.host.flushes,
        counts: world.counts,
        trace: world.trace.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let trace = |seed| run(seed, &Scene::of(7), Rules::default(), true).trace;
        assert_eq!(trace(7), trace(7));
        assert_ne!(trace(7), trace(8));
    }
}
