//! I/O of a phase: a list of it, some of it under way at a time.

use alloc::collections::{BTreeMap, VecDeque};

use crate::{Io, IoId};

/// Under way at a time: enough to keep a disk busy with reads of a megabyte, little memory.
const DEPTH: usize = 8;

#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    queue: VecDeque<(u64, Io)>,
    in_flight: BTreeMap<u64, u64>,
    next: u64,
    done: u64,
}

impl Window {
    /// `tag` comes back with the completion.
    pub fn push(&mut self, tag: u64, io: Io) {
        self.queue.push_back((tag, io));
    }

    pub fn poll(&mut self) -> Option<(IoId, Io)> {
        if self.in_flight.len() >= DEPTH {
            return None;
        }
        let (tag, io) = self.queue.pop_front()?;
        self.next += 1;
        self.in_flight.insert(self.next, tag);
        Some((IoId(self.next), io))
    }

    /// The tag of one that was under way.
    pub fn done(&mut self, id: IoId) -> Option<u64> {
        let tag = self.in_flight.remove(&id.0)?;
        self.done += 1;
        Some(tag)
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_empty()
    }

    /// I/Os done, and all that are known of so far.
    pub fn progress(&self) -> (u64, u64) {
        let left = self.queue.len() + self.in_flight.len();
        (self.done, self.done + u64::try_from(left).unwrap_or(u64::MAX))
    }
}
