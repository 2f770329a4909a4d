//! Data planes with one rule left out: each must be noticed.

use std::time::Duration;

use mirror::Flaw;

use super::{
    explore::{Limits, Trace, explore, retell},
    hunt::walk,
    scenes::{deep_scenes, scenes},
    script::{ANY, KEPT, play},
    world::World,
};

/// Rules whose removal alone shows nothing here, because another one covers it.
const COVERED: &[(Flaw, &str)] = &[
    (Flaw::FlushForgetsInFlight, "a returner's own dirty regions contain what a flush forgot"),
    (Flaw::JoinUnrostered, "a roster that does not match leads to a full copy"),
];

/// How a flaw was noticed, if it was.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub flaw: Flaw,
    /// Why it need not be noticed, if so.
    pub covered: Option<&'static str>,
    pub place: String,
    pub trace: Option<Trace>,
}

/// Looks for each flaw; says how many were missed that must not be.
pub fn hunt_all(time: Duration, only: &str, tell: &mut dyn FnMut(&Outcome)) -> usize {
    let mut missed = 0;
    let chosen = Flaw::ALL.iter().filter(|flaw| format!("{flaw:?}").contains(only));
    for flaw in chosen {
        let outcome = hunt(*flaw, time);
        missed += usize::from(outcome.trace.is_none() && outcome.covered.is_none());
        tell(&outcome);
    }
    missed
}

/// Plays what is kept, then walks at random until a promise breaks, and looks for a shorter way to
/// it in the small worlds.
pub(super) fn hunt(flaw: Flaw, time: Duration) -> Outcome {
    let covered = covered(flaw);
    // What another rule covers is looked for only a little.
    let time = if covered.is_some() { time / 10 } else { time };
    let outcome = recall(flaw).unwrap_or_else(|| stumble(flaw, time));
    let Some(trace) = &outcome.trace else { return outcome };
    let limits = Limits { states: STATES, time, is_breadth_first: true };
    let shorter = scenes().into_iter().find_map(|scene| {
        let found = explore(&World::new(&scene.shape, Some(flaw)), limits).broken?;
        (found.steps.len() < trace.steps.len()).then(|| (scene.name.into(), found))
    });
    match shorter {
        Some((place, trace)) => Outcome { flaw, covered, place, trace: Some(trace) },
        None => outcome,
    }
}

/// States of each small world: what shows in them at all shows soon.
const STATES: u64 = 5_000;

/// Whether a kept script shows it.
fn recall(flaw: Flaw) -> Option<Outcome> {
    KEPT.iter().find_map(|(name, script)| {
        let (world, actions) = play(&ANY, Some(flaw), script);
        let words = world.broken.filter(|words| !words.ends_with("cannot happen now"))?;
        let trace = Some(retell(&World::new(&ANY, Some(flaw)), &actions, words));
        Some(Outcome { flaw, covered: covered(flaw), place: (*name).into(), trace })
    })
}

fn stumble(flaw: Flaw, time: Duration) -> Outcome {
    let began = std::time::Instant::now();
    for seed in 1.. {
        for scene in deep_scenes() {
            let (_, found) = walk(&World::new(&scene.shape, Some(flaw)), seed, 400);
            if let Some(trace) = found {
                let place = format!("{}, seed {seed}", scene.name);
                return Outcome { flaw, covered: covered(flaw), place, trace: Some(trace) };
            }
        }
        if began.elapsed() > time {
            break;
        }
    }
    Outcome { flaw, covered: covered(flaw), place: "nowhere".into(), trace: None }
}

fn covered(flaw: Flaw) -> Option<&'static str> {
    COVERED.iter().find(|(covered, _)| *covered == flaw).map(|(_, why)| *why)
}
