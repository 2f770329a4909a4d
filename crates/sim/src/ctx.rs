//! What a machine has at hand while it handles one event, and what it leaves behind.

use model::{Millis, Time, VolumeId};
use reconcile::CommitId;

use crate::{Message, Oracle, Party, Random};

#[derive(Debug)]
pub struct Ctx<'a> {
    pub now: Time,
    pub random: &'a mut Random,
    pub oracle: &'a mut Oracle,
    pub out: &'a mut Outbox,
}

/// What must happen next: the cluster empties it after each event.
#[derive(Debug, Default)]
pub struct Outbox {
    pub sent: Vec<(Party, Message)>,
    pub timers: Vec<(Millis, Timer)>,
    /// The process has something new to report.
    pub changed: bool,
    /// For the trace of a failed run.
    pub notes: Vec<String>,
    pub tracing: bool,
}

/// An alarm that a process set for itself; a later life of the process does not hear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Every half second: heartbeat, timeouts, retries.
    Beat,
    Inventory,
    Work(VolumeId),
    Commit(CommitId),
    Tick(u64),
    /// A deadline of a machine without I/O.
    Deadline,
    /// The disk of this number may have done something.
    Disk(usize),
}

impl Ctx<'_> {
    pub fn send(&mut self, to: Party, message: Message) {
        self.out.sent.push((to, message));
    }

    pub fn wake_in(&mut self, span: Millis, timer: Timer) {
        self.out.timers.push((span, timer));
    }

    /// Words are made only when somebody reads them.
    pub fn note(&mut self, words: impl FnOnce() -> String) {
        if self.out.tracing {
            self.out.notes.push(words());
        }
    }
}
