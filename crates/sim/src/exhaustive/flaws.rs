//! Data planes with one rule left out: each must be noticed.

use std::time::Duration;

use mirror::Flaw;

use super::{
    explore::{Explored, Limits, Trace, explore, retell},
    hunt::walk,
    scenes::{deep_scenes, scenes},
    script::{ANY, KEPT, play},
    world::World,
};

/// Rules whose removal alone breaks nothing, because another one covers it. It is shown by
/// exploring whole worlds, in which the rule matters, without the rule.
const COVERED: &[(Flaw, &str, &[&str])] = &[
    // A replica marks a region before it writes there, and refuses to call it clean before its own
    // flush. So what the target forgot is still dirty there, and a returner's dirty regions are
    // copied.
    (
        Flaw::FlushForgetsInFlight,
        "a returner's own dirty regions hold what a flush forgot",
        &[
            "a write and a flush pass each other, a replica loses power",
            "a write and a flush pass each other, and time passes",
        ],
    ),
    // A copy that the store calls healthy and that has an older roster is only used by targets that
    // fence it, and they tell it the new one before they serve. Excluded before that, its roster
    // does not match what the survivors remember, and it is copied whole.
    (
        Flaw::JoinUnrostered,
        "a roster that does not match leads to a full copy",
        &["two replicas lose power", "a replica is admitted while the target dies"],
    ),
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
    if let Some((_, why, names)) = COVERED.iter().find(|(covered, ..)| *covered == flaw) {
        return cover(flaw, why, names, time);
    }
    let outcome = recall(flaw).unwrap_or_else(|| stumble(flaw, time));
    let Some(trace) = &outcome.trace else { return outcome };
    let limits = Limits { states: STATES, time, is_breadth_first: true };
    let shorter = scenes().into_iter().find_map(|scene| {
        let found = explore(&World::new(&scene.shape, Some(flaw)), limits).broken?;
        (found.steps.len() < trace.steps.len()).then(|| (scene.name.into(), found))
    });
    match shorter {
        Some((place, trace)) => Outcome { flaw, covered: None, place, trace: Some(trace) },
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
        Some(Outcome { flaw, covered: None, place: (*name).into(), trace })
    })
}

fn stumble(flaw: Flaw, time: Duration) -> Outcome {
    let began = std::time::Instant::now();
    for seed in 1.. {
        for scene in deep_scenes() {
            let (_, found) = walk(&World::new(&scene.shape, Some(flaw)), seed, 400);
            if let Some(trace) = found {
                let place = format!("{}, seed {seed}", scene.name);
                return Outcome { flaw, covered: None, place, trace: Some(trace) };
            }
        }
        if began.elapsed() > time {
            break;
        }
    }
    Outcome { flaw, covered: None, place: "nowhere".into(), trace: None }
}

fn explored(flaw: Flaw, name: &str, time: Duration) -> Option<Explored> {
    let scene = scenes().into_iter().find(|scene| scene.name == name)?;
    let limits = Limits { states: u64::MAX, time, is_breadth_first: false };
    Some(explore(&World::new(&scene.shape, Some(flaw)), limits))
}

/// Whole and kept, a world shows that the other rule is enough. The larger ones are explored as far
/// as the time allows.
fn cover(flaw: Flaw, why: &'static str, names: &[&str], time: Duration) -> Outcome {
    let each = time / u32::try_from(names.len()).unwrap_or(1);
    let (mut covered, mut places) = (None, Vec::new());
    for name in names {
        let Some(found) = explored(flaw, name, each) else { continue };
        let whole = if found.is_complete { "whole" } else { "cut short" };
        places.push(format!("{name}: {} states, {whole}", found.states));
        if found.is_complete {
            covered = Some(why);
        }
        if found.broken.is_some() {
            let place = (*name).into();
            return Outcome { flaw, covered: None, place, trace: found.broken };
        }
    }
    Outcome { flaw, covered, place: places.join("; "), trace: None }
}
