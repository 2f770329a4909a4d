//! Looking for a seed on which a broken brain fails and the real one does not.

use std::{collections::BTreeMap, sync::Mutex};

use super::BrokenBrain;
use crate::{Failure, Options, Script, generate, real_brain, run};

/// How a broken brain was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    pub seed: u64,
    pub script: Script,
    pub failure: Failure,
}

/// Seeds on which the real brain is known to pass or to fail. Where it fails itself, the failure of
/// another one shows nothing.
#[derive(Debug, Default)]
pub struct Sound {
    known: Mutex<BTreeMap<u64, bool>>,
}

impl Sound {
    pub const fn new() -> Self {
        Self { known: Mutex::new(BTreeMap::new()) }
    }

    pub(super) fn is_sound(&self, seed: u64, script: &Script) -> bool {
        let known = self.known.lock().ok().and_then(|known| known.get(&seed).copied());
        known.unwrap_or_else(|| {
            let passes = run(seed, script, real_brain(), Options::default()).failure.is_none();
            if let Ok(mut known) = self.known.lock() {
                known.insert(seed, passes);
            }
            passes
        })
    }
}

/// The first of the seeds on which only the broken brain fails.
pub fn catch(
    broken: &BrokenBrain,
    seeds: impl IntoIterator<Item = u64>,
    sound: &Sound,
) -> Option<Caught> {
    seeds.into_iter().find_map(|seed| {
        let script = generate(seed);
        let failure = run(seed, &script, broken.brain(), Options::default()).failure?;
        sound.is_sound(seed, &script).then_some(Caught { seed, script, failure })
    })
}
