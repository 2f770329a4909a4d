//! Walking through every state: each is looked at once, whatever way leads to it.

use std::{
    collections::{HashSet, VecDeque},
    hash::{BuildHasherDefault, Hash, Hasher},
    rc::Rc,
    time::{Duration, Instant},
};

use super::{step::Action, world::World};

/// When to stop looking.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub states: u64,
    pub time: Duration,
    /// In order of distance, so that a broken promise is found by a shortest way. Needs memory.
    pub is_breadth_first: bool,
}

#[derive(Clone, Debug)]
pub struct Explored {
    pub states: u64,
    pub steps: u64,
    /// States that were left alone, to see that they become whole.
    pub calmed: u64,
    /// Nothing was left out.
    pub is_complete: bool,
    pub broken: Option<Trace>,
}

/// A way to a broken promise.
#[derive(Clone, Debug)]
pub struct Trace {
    pub words: String,
    pub steps: Vec<String>,
}

struct Way {
    before: Option<Rc<Way>>,
    action: Action,
}

type Seen = HashSet<u64, BuildHasherDefault<Folded>>;

/// How many states are looked at between two looks at the clock.
const CLOCK_EVERY: u64 = 1_024;

/// Of how many states one is left alone until it rests: that takes a hundred steps and more.
const CALM_EVERY: u64 = 256;

pub fn explore(start: &World, limits: Limits) -> Explored {
    let began = Instant::now();
    let mut seen = Seen::default();
    seen.insert(hash(start));
    let mut ahead: VecDeque<(World, Option<Rc<Way>>)> = VecDeque::from([(start.clone(), None)]);
    let (mut states, mut steps, mut calmed) = (1, 0, 0);
    loop {
        let next = if limits.is_breadth_first { ahead.pop_front() } else { ahead.pop_back() };
        let Some((world, way)) = next else {
            return Explored { states, steps, calmed, is_complete: true, broken: None };
        };
        for action in world.actions() {
            let mut next = world.clone();
            next.apply(action);
            next.check();
            steps += 1;
            let way = Some(Rc::new(Way { before: way.clone(), action }));
            if next.broken.is_some() {
                let broken = Some(trace(start, &next, way.as_ref()));
                return Explored { states, steps, calmed, is_complete: false, broken };
            }
            let hash = hash(&next);
            if seen.insert(hash) {
                states += 1;
                // By its hash, so that the same states are left alone in every run.
                if hash.is_multiple_of(CALM_EVERY) {
                    next.broken = next.missing_at_rest();
                    calmed += 1;
                }
                if next.broken.is_some() {
                    let broken = Some(trace(start, &next, way.as_ref()));
                    return Explored { states, steps, calmed, is_complete: false, broken };
                }
                ahead.push_back((next, way));
            }
        }
        let is_late = steps % CLOCK_EVERY < 8 && began.elapsed() > limits.time;
        if is_late || states >= limits.states {
            return Explored { states, steps, calmed, is_complete: false, broken: None };
        }
    }
}

fn hash(world: &World) -> u64 {
    let mut hasher = Folded::default();
    world.hash(&mut hasher);
    hasher.finish()
}

fn trace(start: &World, end: &World, way: Option<&Rc<Way>>) -> Trace {
    let mut actions = Vec::new();
    let mut at = way;
    while let Some(way) = at {
        actions.push(way.action);
        at = way.before.as_ref();
    }
    actions.reverse();
    retell(start, &actions, end.broken.clone().unwrap_or_default())
}

/// The same steps again, in words.
pub(super) fn retell(start: &World, actions: &[Action], words: String) -> Trace {
    let mut world = start.clone();
    let mut steps = Vec::new();
    for action in actions {
        steps.push(world.describe(*action));
        world.apply(*action);
    }
    Trace { words, steps }
}

/// A fast hash with well-mixed bits: one multiplication to twice the width per word.
#[derive(Default)]
pub(super) struct Folded(u64);

impl Folded {
    fn add(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word ^ 0x9E37_79B9_7F4A_7C15)
            * u128::from(0xD6E8_FEB8_6659_FD93_u64);
        let low = u64::try_from(wide & u128::from(u64::MAX)).unwrap_or(0);
        let high = u64::try_from(wide >> 64).unwrap_or(0);
        self.0 = low ^ high.rotate_left(23);
    }
}

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        let mut last = Self(self.0);
        last.add(0x1234_5678_9ABC_DEF1);
        last.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.add(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.add(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.add(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.add(u64::try_from(word).unwrap_or(0));
    }
}
