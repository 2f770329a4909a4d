//! The bounded journal of events in the store, written by the transactions it tells of.

use alloc::{collections::BTreeSet, string::String};

use model::{
    Event, EventKind, Extra, Key, Record, Severity, Subject, Time, Txn, Write, limits::EVENTS_MAX,
};

#[derive(Debug, Default)]
pub(crate) struct Journal {
    next: u64,
    oldest: u64,
    /// Numbers of events that tell of lost data: they stay.
    losses: BTreeSet<u64>,
}

impl Journal {
    pub(crate) fn seen(&mut self, number: u64, severity: Severity) {
        if self.next == 0 {
            self.oldest = number;
        }
        self.next = self.next.max(number + 1);
        self.oldest = self.oldest.min(number);
        if severity == Severity::Loss {
            self.losses.insert(number);
        }
    }

    /// Adds an event to a transaction, and takes away the oldest one beyond the limit.
    pub(crate) fn add(
        &mut self,
        mut txn: Txn,
        at: Time,
        (subject, name): (Subject, String),
        (kind, severity): (EventKind, Severity),
        words: String,
    ) -> Txn {
        let number = self.next;
        self.next += 1;
        let event = Event { at, subject, name, kind, words, severity, extra: Extra::new() };
        txn.writes.push(Write::put(Key::Event(number), Record::Event(event.into())));
        while self.losses.contains(&self.oldest) {
            self.oldest += 1;
        }
        if number.saturating_sub(self.oldest) >= EVENTS_MAX {
            txn.writes.push(Write::delete(Key::Event(self.oldest)));
            self.oldest += 1;
        }
        txn
    }
}
