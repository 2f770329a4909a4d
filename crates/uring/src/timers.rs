//! Timers of one reactor. They need nothing from the kernel but that a wait ends in time.

use std::{collections::BTreeMap, time::Instant};

/// By time, then in the order in which they were set.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeMap<(Instant, u64), u64>,
    count: u64,
}

impl Timers {
    pub fn set(&mut self, at: Instant, token: u64) {
        self.set.insert((at, self.count), token);
        self.count += 1;
    }

    pub fn first(&self) -> Option<Instant> {
        self.set.first_key_value().map(|((at, _), _)| *at)
    }

    /// The token of one whose time has come.
    pub fn take_due(&mut self, now: Instant) -> Option<u64> {
        let entry = self.set.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// How many with this token were taken out.
    pub fn cancel(&mut self, token: u64) -> usize {
        let before = self.set.len();
        self.set.retain(|_, set| *set != token);
        before - self.set.len()
    }

    pub fn len(&self) -> usize {
        self.set.len()
    }
}
