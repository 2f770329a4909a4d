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
    let mood = Mood { slow: random.draw() & random.draw(), haste: random.between(100, 400) };
    let mut world = start.clone();
    let mut actions: Vec<Action> = Vec::new();
    for step in 0..steps {
        let choices = world.actions();
        if choices.is_empty() {
            return (u64::try_from(step).unwrap_or(0), None);
        }
        let action = mood.choose(&world, &choices, &mut random);
        actions.push(action);
        world.apply(action);
        world.check();
        if let Some(words) = &world.broken {
            let words = words.clone();
            return (u64::try_from(step).unwrap_or(0), Some(retell(start, &actions, words)));
        }
    }
    let trace = world.missing_at_rest().map(|words| retell(start, &actions, words));
    (u64::try_from(steps).unwrap_or(0), trace)
}

/// What one walk is like.
struct Mood {
    /// Targets and replicas that hardly hear from each other: a bit for each pair.
    slow: u64,
    /// Of a thousand steps, those that are not simply what goes on by itself.
    haste: u64,
}

impl Mood {
    /// Mostly what goes on by itself: faults are few, and must not all happen at the start.
    fn choose(&self, world: &World, choices: &[Action], random: &mut Random) -> Action {
        let mut progress = Vec::new();
        world.progress(&mut progress);
        if !random.chance(50) {
            progress.retain(|action| !self.is_slow(world, *action));
        }
        let is_calm = !progress.is_empty() && !random.chance(self.haste);
        let among = if is_calm { &progress } else { choices };
        random.pick(among).copied().unwrap_or(choices[0])
    }

    fn is_slow(&self, world: &World, action: Action) -> bool {
        let (Action::ToReplica { wire, .. } | Action::ToTarget(wire)) = action else {
            return false;
        };
        let (target, site) = world.ends(wire);
        self.slow & (1 << ((target * 8 + site) % 64)) != 0
    }
}
