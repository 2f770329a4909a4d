//! What a decision of the machine does, once it is made.
//!
//! Applying the same records in the same order to the same machine gives the same machine: that is
//! what the embedded store writes to its file and replays.

use core::time::Duration;
use std::sync::Arc;

use ports::{Change, Entry, Kept, Key, LeaseId, Revision};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// A transaction that changed something.
    Changed {
        revision: Revision,
        changes: Vec<Changed>,
    },
    Granted {
        lease: LeaseId,
        ttl: Duration,
    },
    /// Its keys go with it at one revision. Which keys those are follows from the machine.
    Ended {
        lease: LeaseId,
    },
    Compacted {
        before: Revision,
    },
}

/// One key's change. Entries are shared, because history, machine and log hold the same ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Put(Arc<Entry>),
    Deleted(Key),
}

impl Changed {
    pub(crate) fn key(&self) -> &Key {
        match self {
            Self::Put(entry) => &entry.key,
            Self::Deleted(key) => key,
        }
    }

    /// The same in the words of the port.
    pub(crate) fn told(&self, modified: Revision) -> Change {
        match self {
            Self::Put(entry) => Change::Put(Entry::clone(entry)),
            Self::Deleted(key) => Change::Deleted { key: key.clone(), modified },
        }
    }
}

/// A machine as it was just before its oldest history, and its leases as they are now. With the
/// history applied it is the machine again.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) revision: Revision,
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) leases: Vec<Kept>,
    pub(crate) last_lease: u64,
}
