//! Who changes which blocks, one after the other where they meet.

use std::collections::BTreeMap;

use block::Extent;

/// Whoever came first goes first, so that a large change is not passed by for ever.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// By number, which grows: also the order of arrival.
    begun: BTreeMap<u64, Extent>,
    waiting: BTreeMap<u64, Extent>,
}

impl Turns {
    /// True if it may begin now; else `leave` names it when it may.
    pub(super) fn enter(&mut self, number: u64, extent: Extent) -> bool {
        let mut ahead = self.begun.values().chain(self.waiting.values());
        let is_free = !ahead.any(|other| other.overlaps(&extent));
        let queue = if is_free { &mut self.begun } else { &mut self.waiting };
        queue.insert(number, extent);
        is_free
    }

    /// It is over. Gives those that may begin now.
    pub(super) fn leave(&mut self, number: u64) -> Vec<u64> {
        if self.begun.remove(&number).is_none() || self.waiting.is_empty() {
            return Vec::new();
        }
        let mut next = Vec::new();
        let waiting = std::mem::take(&mut self.waiting);
        for (number, extent) in waiting {
            if self.enter(number, extent) {
                next.push(number);
            }
        }
        next
    }
}
