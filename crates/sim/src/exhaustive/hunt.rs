//! Deeper worlds, walked at random: too large to be explored whole.

use super::{
    explore::{Trace, retell},
    step::Action,
    world::World,
};
use crate::Random;

/// Walks until a promise breaks or the steps are used up. Same seed, same walk.
pub fn walk(start: &World, seed: u64, steps: usize) -> (u64, Option<Trace>) {
    let mut random = Random::new(seed);
    let mut world = start.clone();
    let mut actions: Vec<Action> = Vec::new();
    for step in 0..steps {
        let choices = world.actions();
        if choices.is_empty() {
            return (u64::try_from(step).unwrap_or(0), None);
        }
        let action = choose(&world, &choices, &mut random);
        actions.push(action);
        world.apply(action);
        world.check();
        if let Some(words) = &world.broken {
            let words = words.clone();
            return (u64::try_from(step).unwrap_or(0), Some(retell(start, &actions, words)));
        }
    }
    (u64::try_from(steps).unwrap_or(0), None)
}

/// Mostly what goes on by itself: faults are few, and must not all happen at the start.
fn choose(world: &World, choices: &[Action], random: &mut Random) -> Action {
    let mut progress = Vec::new();
    world.progress(&mut progress);
    let among = if !progress.is_empty() && !random.chance(170) { &progress } else { choices };
    random.pick(among).copied().unwrap_or(Action::Tick)
}
