//! Data planes with one rule left out: each must be noticed.

use std::time::Duration;

use mirror::Flaw;

use super::{
    explore::{Limits, Trace, explore},
    hunt::walk,
    scenes::{deep_scenes, scenes},
    world::World,
};

/// How a flaw was noticed, if it was.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub flaw: Flaw,
    pub place: String,
    pub trace: Option<Trace>,
}

/// Looks for each flaw in every scene, then at random in deeper ones.
pub fn hunt_all(time: Duration, only: &str, tell: &mut dyn FnMut(&Outcome)) -> usize {
    let mut missed = 0;
    let chosen = Flaw::ALL.iter().filter(|flaw| format!("{flaw:?}").contains(only));
    for flaw in chosen {
        let outcome = hunt(*flaw, time);
        missed += usize::from(outcome.trace.is_none());
        tell(&outcome);
    }
    missed
}

/// Walks at random until a promise breaks, then looks for a shorter way in the small worlds.
pub(super) fn hunt(flaw: Flaw, time: Duration) -> Outcome {
    let mut outcome = stumble(flaw, time);
    let longest = outcome.trace.as_ref().map_or(usize::MAX, |trace| trace.steps.len());
    for scene in scenes() {
        let limits = Limits { states: STATES, time, is_breadth_first: true };
        let found = explore(&World::new(&scene.shape, Some(flaw)), limits);
        if let Some(trace) = found.broken.filter(|trace| trace.steps.len() < longest) {
            outcome = Outcome { flaw, place: scene.name.into(), trace: Some(trace) };
            break;
        }
    }
    outcome
}

/// States of each small world: a flaw that shows at all shows soon, or by walking.
const STATES: u64 = 20_000;

fn stumble(flaw: Flaw, time: Duration) -> Outcome {
    let began = std::time::Instant::now();
    for seed in 1.. {
        for scene in deep_scenes() {
            let (_, found) = walk(&World::new(&scene.shape, Some(flaw)), seed, 400);
            if let Some(trace) = found {
                let place = format!("{}, seed {seed}", scene.name);
                return Outcome { flaw, place, trace: Some(trace) };
            }
        }
        if began.elapsed() > time {
            break;
        }
    }
    Outcome { flaw, place: "nowhere".into(), trace: None }
}
