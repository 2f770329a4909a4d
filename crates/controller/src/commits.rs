//! Finding out what became of a commit whose answer did not come.
//!
//! ```text
//! Sent ─▶ answered: concluded
//!   └──▶ no answer: looking ─▶ written as asked, or seen in the watch: committed
//!                     ▲  ├───▶ a compare does not hold, or did not for a while: refused
//!                     └──┴───▶ the compares hold as ever: sent again; of two copies one is refused
//! ```
//! A record that was made and deleted meanwhile is absent as before. To send a commit again that
//! expects it to be absent would bring it back: what the watch shows of the keys decides.

use std::{collections::BTreeMap, sync::Arc};

use model::Revision;
use ports::{Entry, StoreError, Txn, TxnOutcome, WatchEvent};
use reconcile::{CommitId, Outcome};

use crate::limits::LOOKS_MAX;

#[derive(Debug, Default)]
pub(crate) struct Commits {
    pending: BTreeMap<CommitId, Pending>,
}

#[derive(Debug)]
struct Pending {
    txn: Arc<Txn>,
    is_unknown: bool,
    /// A watch showed it: the revision at which it happened.
    seen: Option<Revision>,
    /// A watch showed a change of what it compares, by somebody else.
    is_overtaken: bool,
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
    Send(Arc<Txn>),
    /// It is known already.
    Nothing,
}

impl Commits {
    pub(crate) fn begin(&mut self, id: CommitId, txn: &model::Txn) -> Arc<Txn> {
        let txn = Arc::new(txn.encode());
        let pending = Pending {
            txn: Arc::clone(&txn),
            is_unknown: false,
            seen: None,
            is_overtaken: false,
            looks: 0,
        };
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
                return Next::Look(pending.txn.keys());
            }
            Ok(TxnOutcome::Refused { .. }) | Err(StoreError::LeaseEnded { .. }) => Outcome::Refused,
            Err(StoreError::Unknown { .. }) if !pending.is_unknown => {
                pending.is_unknown = true;
                return Next::Unknown(pending.txn.keys());
            }
            // "Nothing was written" cannot be said of a commit of which an earlier copy may be.
            Err(_) if pending.is_unknown => return Next::LookLater(pending.txn.keys()),
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
        let Ok((entries, revision)) = result else { return Next::LookLater(pending.txn.keys()) };
        if let Some(revision) = pending.seen.or_else(|| pending.txn.written_at(entries)) {
            self.pending.remove(&id);
            return Next::Conclude(Outcome::Committed { revision });
        }
        if pending.txn.holds(entries) && !pending.is_overtaken {
            return Next::Send(Arc::clone(&pending.txn));
        }
        pending.looks += 1;
        // It may have happened and been overwritten since: the watch tells, once it is there.
        if caught_up(*revision) || pending.looks >= LOOKS_MAX {
            self.pending.remove(&id);
            return Next::Conclude(Outcome::Refused);
        }
        Next::LookLater(pending.txn.keys())
    }

    /// Recognises commits in what the watch shows.
    pub(crate) fn look_in(&mut self, event: &WatchEvent) {
        for pending in self.pending.values_mut() {
            if pending.txn.is_shown(&event.changes) {
                pending.seen = Some(event.revision);
            }
            pending.is_overtaken |= pending.txn.is_overtaken_by(&event.changes);
        }
    }
}

#[cfg(test)]
mod tests;
