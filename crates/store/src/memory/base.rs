//! A machine taken apart into what a file holds, and put together again.

use core::time::Duration;
use std::sync::Arc;

use ports::{Entry, Revision};

use super::{
    history::Bounds,
    machine::Core,
    record::{Base, Record},
};

impl Core {
    pub(crate) fn base(&self) -> Base {
        let revision = Revision(self.oldest().0 - 1);
        let undone = self
            .history
            .undone_to(revision, "")
            .expect("history reaches back to its oldest revision");
        let unchanged = self.entries.iter().filter(|(key, _)| !undone.contains_key(key.as_str()));
        let entries = unchanged.map(|(_, entry)| entry).chain(undone.values().copied().flatten());
        Base {
            revision,
            entries: entries.cloned().collect(),
            leases: self.leases.granted().collect(),
            last_lease: self.leases.last(),
        }
    }

    /// What happened since the base, in order.
    pub(crate) fn history(&self) -> impl Iterator<Item = Record> {
        let steps = self.history.since(self.oldest()).into_iter().flatten();
        steps.map(|(revision, step)| Record::Changed {
            revision,
            changes: step.changes.iter().map(|(change, _)| change.clone()).collect(),
        })
    }

    /// The machine at its base. Leases count their whole time from zero.
    pub(crate) fn from_base(base: Base, bounds: Bounds) -> Self {
        let mut core = Self::founded_at(base.revision, bounds);
        for kept in base.leases {
            core.leases.grant(Duration::ZERO, kept.lease, kept.ttl);
        }
        core.leases.reserve(base.last_lease);
        for entry in base.entries {
            core.leases.bind(&entry);
            core.entries.insert(entry.key.clone(), entry);
        }
        core
    }

    /// Gives every lease its whole time again, from `now` on.
    pub(crate) fn restart_leases(&mut self, now: Duration) {
        self.leases.restart(now);
    }

    /// About how many bytes a file of this machine takes.
    pub(crate) fn bytes(&self) -> u64 {
        let sizes = self.entries.values().map(bytes);
        sizes.sum::<u64>() + self.history.bytes()
    }
}

fn bytes(entry: &Arc<Entry>) -> u64 {
    // 50 bytes of numbers and lengths stand around key and value.
    (entry.key.len() + entry.value.len() + 50) as u64
}
