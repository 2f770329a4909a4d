//! Finding out what became of a commit whose answer did not come.
//!
//! ```text
//! Sent ─▶ answered: concluded
//!   └──▶ no answer: looking ─▶ written as asked, or seen in the watch: committed
//!                     ▲  ├───▶ a compare cannot hold any more: refused
//!                     └──┴───▶ the compares still hold: sent again; of two copies one is refused
//! ```

use std::{collections::BTreeMap, sync::Arc};

use model::{Revision, Txn};
use ports::{Change, Entry, Expect, LeaseId, StoreError, TxnOutcome, WatchEvent, Write};
use reconcile::{CommitId, Outcome};

use crate::limits::LOOKS_MAX;

#[derive(Debug, Default)]
pub(crate) struct Commits {
    pending: BTreeMap<CommitId, Pending>,
}

#[derive(Debug)]
struct Pending {
    txn: Arc<ports::Txn>,
    is_unknown: bool,
    /// A watch showed it: the revision at which it happened.
    seen: Option<Revision>,
    looks: u32,
}

/// What the driver does next about a commit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Conclude(Outcome),
    /// The brain hears that it is unknown, and the keys are read.
    Unknown(Vec<String>),
    /// The keys are read at once, or after a while.
    Look(Vec<String>),
    LookLater(Vec<String>),
    Send(Arc<ports::Txn>),
    /// It is known already.
    Nothing,
}

impl Commits {
    pub(crate) fn begin(
        &mut self,
        id: CommitId,
        txn: &Txn,
        lease: Option<LeaseId>,
    ) -> Arc<ports::Txn> {
        let txn = Arc::new(encode(txn, lease));
        let pending = Pending { txn: Arc::clone(&txn), is_unknown: false, seen: None, looks: 0 };
        self.pending.insert(id, pending);
        txn
    }

    pub(crate) fn answered(
        &mut self,
        id: CommitId,
        result: &Result<TxnOutcome, StoreError>,
    ) -> Next {
        let Some(pending) = self.pending.get_mut(&id) else { return Next::Nothing };
        let outcome = match result {
            Ok(TxnOutcome::Committed { revision }) => Outcome::Committed { revision: *revision },
            // A copy that was sent again is refused because the first one happened.
            Ok(TxnOutcome::Refused { .. }) if pending.is_unknown => {
                return Next::Look(keys(&pending.txn));
            }
            Ok(TxnOutcome::Refused { .. }) | Err(StoreError::LeaseEnded { .. }) => Outcome::Refused,
            Err(StoreError::Unknown { .. }) if !pending.is_unknown => {
                pending.is_unknown = true;
                return Next::Unknown(keys(&pending.txn));
            }
            // "Nothing was written" cannot be said of a commit of which an earlier copy may be.
            Err(_) if pending.is_unknown => return Next::LookLater(keys(&pending.txn)),
            Err(_) => Outcome::Unavailable,
        };
        self.pending.remove(&id);
        Next::Conclude(outcome)
    }

    /// `caught_up`: whether the watch has shown everything up to a revision.
    pub(crate) fn looked(
        &mut self,
        id: CommitId,
        result: &Result<(Vec<Entry>, Revision), StoreError>,
        caught_up: impl FnOnce(Revision) -> bool,
    ) -> Next {
        let Some(pending) = self.pending.get_mut(&id) else { return Next::Nothing };
        let Ok((entries, revision)) = result else { return Next::LookLater(keys(&pending.txn)) };
        if let Some(revision) = pending.seen.or_else(|| written_at(&pending.txn, entries)) {
            self.pending.remove(&id);
            return Next::Conclude(Outcome::Committed { revision });
        }
        if holds(&pending.txn, entries) {
            return Next::Send(Arc::clone(&pending.txn));
        }
        pending.looks += 1;
        // It may have happened and been overwritten since: the watch tells, once it is there.
        if caught_up(*revision) || pending.looks >= LOOKS_MAX {
            self.pending.remove(&id);
            return Next::Conclude(Outcome::Refused);
        }
        Next::LookLater(keys(&pending.txn))
    }

    /// Recognises commits in what the watch shows.
    pub(crate) fn look_in(&mut self, event: &WatchEvent) {
        for pending in self.pending.values_mut() {
            let shown = |write: &Write| event.changes.iter().any(|change| is_shown(write, change));
            if !pending.txn.writes.is_empty() && pending.txn.writes.iter().all(shown) {
                pending.seen = Some(event.revision);
            }
        }
    }
}

fn is_shown(write: &Write, change: &Change) -> bool {
    match (write, change) {
        (Write::Put { key, value, .. }, Change::Put(entry)) => {
            entry.key == *key && entry.value == *value
        }
        (Write::Delete { key }, Change::Deleted { key: gone, .. }) => key == gone,
        _ => false,
    }
}

fn keys(txn: &ports::Txn) -> Vec<String> {
    let compared = txn.compares.iter().map(|compare| compare.key.clone());
    let mut keys: Vec<_> =
        compared.chain(txn.writes.iter().map(|write| key_of(write).to_owned())).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn holds(txn: &ports::Txn, entries: &[Entry]) -> bool {
    txn.compares.iter().all(|compare| {
        let found = entries.iter().find(|entry| entry.key == compare.key);
        match compare.expect {
            Expect::Absent => found.is_none(),
            Expect::ModifiedAt(at) => found.is_some_and(|entry| entry.modified == at),
            Expect::CreatedAt(at) => found.is_some_and(|entry| entry.created == at),
        }
    })
}

/// The revision at which every write happened, if the entries show it.
fn written_at(txn: &ports::Txn, entries: &[Entry]) -> Option<Revision> {
    let mut at = None;
    for write in &txn.writes {
        let found = entries.iter().find(|entry| entry.key == key_of(write));
        match (write, found) {
            (Write::Put { value, .. }, Some(entry)) if entry.value == *value => {
                if at.is_some_and(|at| at != entry.modified) {
                    return None;
                }
                at = Some(entry.modified);
            }
            (Write::Delete { .. }, None) => {}
            _ => return None,
        }
    }
    // The bytes may have been there before: only a revision past the compared ones proves it.
    let compared = txn.compares.iter().filter_map(|compare| match compare.expect {
        Expect::ModifiedAt(at) => Some(at),
        Expect::Absent | Expect::CreatedAt(_) => None,
    });
    at.filter(|at| compared.max().is_none_or(|newest| newest < *at))
}

fn key_of(write: &Write) -> &str {
    match write {
        Write::Put { key, .. } | Write::Delete { key } => key,
    }
}

/// The same transaction in the words of the store. The lease is the leader's key's alone.
fn encode(txn: &Txn, lease: Option<LeaseId>) -> ports::Txn {
    let compares = txn.compares.iter().map(|compare| ports::Compare {
        key: compare.key.to_string(),
        expect: match compare.expect {
            model::Expect::Absent => Expect::Absent,
            model::Expect::ModifiedAt(at) => Expect::ModifiedAt(at),
            model::Expect::CreatedAt(at) => Expect::CreatedAt(at),
        },
    });
    let writes = txn.writes.iter().map(|write| match write {
        model::Write::Put(key, record) => Write::Put {
            key: key.to_string(),
            value: record.encode(),
            lease: lease.filter(|_| *key == model::Key::Leader),
        },
        model::Write::Delete(key) => Write::Delete { key: key.to_string() },
    });
    ports::Txn { compares: compares.collect(), writes: writes.collect() }
}

#[cfg(test)]
mod tests;
