//! Pools with one rule left out: the invariants that hold for whole ones notice, by a seed.

use storage_node::NodeMutation;

use super::{
    Failure, Fault, PlannedFault, Rules, Scene, run,
    world::{COPIES_MOST, NODES},
};
use crate::Random;

/// How a flaw was noticed.
#[derive(Clone, Debug)]
pub struct Caught {
    pub seed: u64,
    pub failure: Failure,
}

/// The first seed of so many that shows the flaw.
pub fn catch_pool(flaw: pool::Flaw, seeds: u64) -> Option<Caught> {
    let rules = Rules { pool: Some(flaw), ..Rules::default() };
    (1..=seeds).find_map(|seed| {
        let failure = run(seed, &Scene::rough(seed), rules, false).failure?;
        Some(Caught { seed, failure })
    })
}

/// The same for a rule of the node around its machines.
pub fn catch_node(rule: NodeMutation, seeds: u64) -> Option<Caught> {
    let rules = Rules { node: Some(rule), ..Rules::default() };
    (1..=seeds).find_map(|seed| {
        let failure = run(seed, &Scene::of(seed), rules, false).failure?;
        Some(Caught { seed, failure })
    })
}

impl Scene {
    /// Much is freed and written again, tables are written, and power fails in the middle of it.
    pub fn rough(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x726f_7567);
        let time = 14_000;
        let mut faults = Vec::new();
        let mut at = 1_000;
        while at < time {
            at += random.between(200, 1_200);
            let node = usize::try_from(random.below(NODES as u64)).unwrap_or(0);
            let down = random.between(0, 100);
            let fault = match random.below(8) {
                0 => Fault::Snapshot,
                1 => Fault::DeleteSnapshot,
                2 => Fault::Power { node, down },
                3 => Fault::PowerAll { down },
                _ => Fault::Checkpoint { node },
            };
            faults.push(PlannedFault { at, fault });
            if let Fault::Checkpoint { .. } = fault {
                let at = at + random.between(1, 3);
                let fault = match random.below(3) {
                    0 => Fault::PowerAll { down },
                    _ => Fault::Power { node, down },
                };
                faults.push(PlannedFault { at, fault });
            }
        }
        let copies = if random.chance(300) { COPIES_MOST } else { 2 };
        Self { copies, time, faults }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few, because each is a whole life: the broken ones are a tier of their own.
    #[test]
    fn rough_lives_of_whole_pools_break_no_promise() {
        for seed in 1..=4 {
            let failure = run(seed, &Scene::rough(seed), Rules::default(), false).failure;
            assert_eq!(failure, None, "seed {seed}");
        }
    }
}
