//! Finding out what became of a commit whose answer did not come.
//!
//! The keys are read until the outcome is certain: written as asked (it happened), or a compare
//! that can never hold again (it did not, and a late copy of it cannot either). Else it is sent
//! again, which is harmless: of two copies one is refused.

use std::rc::Rc;

use model::{Millis, Revision, Txn};
use ports::{Change, LeaseId, StoreError, TxnOutcome, WatchEvent};
use reconcile::{CommitId, Event, Outcome};

use super::{CALL_TIMEOUT, Controller, Waiting, Watch};
use crate::{Ctx, StoreOp, Timer};

pub(super) struct Pending {
    txn: Rc<ports::Txn>,
    is_unknown: bool,
    /// A watch showed it: the revision at which it happened.
    seen: Option<Revision>,
}

const LOOK_AGAIN: Millis = Millis(700);

impl Controller {
    pub(super) fn commit(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: CommitId,
        txn: &Txn,
        lease: Option<u64>,
    ) {
        let txn = Rc::new(encode(txn, lease.map(LeaseId)));
        let pending = Pending { txn: txn.clone(), is_unknown: false, seen: None };
        self.commits.insert(id, pending);
        self.ask(ctx, StoreOp::Commit(txn), Waiting::Commit(id));
        ctx.wake_in(CALL_TIMEOUT, Timer::Commit(id));
    }

    pub(super) fn on_committed(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: CommitId,
        result: &Result<TxnOutcome, StoreError>,
    ) {
        let Some(pending) = self.commits.get(&id) else { return };
        match result {
            Ok(TxnOutcome::Committed { revision }) => {
                self.conclude(ctx, id, Outcome::Committed { revision: *revision });
            }
            // A copy that was sent again is refused because the first one happened.
            Ok(TxnOutcome::Refused { .. }) if pending.is_unknown => self.look(ctx, id),
            Ok(TxnOutcome::Refused { .. }) | Err(StoreError::LeaseEnded { .. }) => {
                self.conclude(ctx, id, Outcome::Refused);
            }
            Err(_) => self.conclude(ctx, id, Outcome::Unavailable),
        }
    }

    pub(super) fn conclude(&mut self, ctx: &mut Ctx<'_>, id: CommitId, outcome: Outcome) {
        let unknown = self.commits.get(&id).is_some_and(|pending| pending.is_unknown);
        // "Nothing was written" cannot be said of a commit of which an earlier copy is on its way.
        if outcome == Outcome::Unavailable && unknown {
            return;
        }
        if self.commits.remove(&id).is_some() {
            self.tell(ctx, Event::Committed { id, outcome });
        }
    }

    pub(super) fn commit_is_late(&mut self, ctx: &mut Ctx<'_>, id: CommitId) {
        let Some(pending) = self.commits.get_mut(&id) else { return };
        if !core::mem::replace(&mut pending.is_unknown, true) {
            self.tell(ctx, Event::Committed { id, outcome: Outcome::Unknown });
        }
        self.look(ctx, id);
        ctx.wake_in(LOOK_AGAIN, Timer::Commit(id));
    }

    fn look(&mut self, ctx: &mut Ctx<'_>, id: CommitId) {
        let Some(pending) = self.commits.get(&id) else { return };
        let compared = pending.txn.compares.iter().map(|compare| compare.key.clone());
        let mut keys: Vec<_> =
            compared.chain(pending.txn.writes.iter().map(|w| key_of(w).to_owned())).collect();
        keys.sort();
        keys.dedup();
        self.ask(ctx, StoreOp::Read(keys), Waiting::Look(id));
    }

    pub(super) fn on_look(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: CommitId,
        entries: &[ports::Entry],
        revision: Revision,
    ) {
        let Some(pending) = self.commits.get(&id) else { return };
        if let Some(revision) = pending.seen.or_else(|| written_at(&pending.txn, entries)) {
            self.conclude(ctx, id, Outcome::Committed { revision });
            return;
        }
        let find = |key: &str| entries.iter().find(|entry| entry.key == key);
        let holds = pending.txn.compares.iter().all(|compare| {
            let found = find(&compare.key);
            match compare.expect {
                ports::Expect::Absent => found.is_none(),
                ports::Expect::ModifiedAt(at) => found.is_some_and(|entry| entry.modified == at),
                ports::Expect::CreatedAt(at) => found.is_some_and(|entry| entry.created == at),
            }
        });
        if holds {
            let txn = pending.txn.clone();
            self.ask(ctx, StoreOp::Commit(txn), Waiting::Commit(id));
            return;
        }
        // It may have happened and been overwritten since: the watch tells, once it is there.
        let caught_up = match self.watch {
            Watch::Running { next, .. } => next > revision,
            Watch::None | Watch::Loading { .. } => true,
        };
        if caught_up {
            self.conclude(ctx, id, Outcome::Refused);
        }
    }

    /// Recognises a commit of unknown outcome in what the watch shows.
    pub(super) fn look_in(&mut self, _ctx: &mut Ctx<'_>, event: &WatchEvent) {
        for pending in self.commits.values_mut() {
            let written = pending.txn.writes.iter().all(|write| {
                event.changes.iter().any(|change| match (write, change) {
                    (ports::Write::Put { key, value, .. }, Change::Put(entry)) => {
                        entry.key == *key && entry.value == *value
                    }
                    (ports::Write::Delete { key }, Change::Deleted { key: gone, .. }) => {
                        key == gone
                    }
                    _ => false,
                })
            });
            if written && !pending.txn.writes.is_empty() {
                pending.seen = Some(event.revision);
            }
        }
    }
}

/// The revision at which every write happened, if the entries show it.
fn written_at(txn: &ports::Txn, entries: &[ports::Entry]) -> Option<Revision> {
    let mut at = None;
    for write in &txn.writes {
        let found = entries.iter().find(|entry| entry.key == key_of(write));
        match (write, found) {
            (ports::Write::Put { value, .. }, Some(entry)) if entry.value == *value => {
                if at.is_some_and(|at| at != entry.modified) {
                    return None;
                }
                at = Some(entry.modified);
            }
            (ports::Write::Delete { .. }, None) => {}
            _ => return None,
        }
    }
    // The bytes may have been there before: only a revision past the compared ones proves it.
    let compared = txn.compares.iter().filter_map(|compare| match compare.expect {
        ports::Expect::ModifiedAt(at) => Some(at),
        ports::Expect::Absent | ports::Expect::CreatedAt(_) => None,
    });
    at.filter(|at| compared.max().is_none_or(|newest| newest < *at))
}

fn key_of(write: &ports::Write) -> &str {
    match write {
        ports::Write::Put { key, .. } | ports::Write::Delete { key } => key,
    }
}

/// The same transaction in the words of the store. The lease is the leader's key's alone.
fn encode(txn: &Txn, lease: Option<LeaseId>) -> ports::Txn {
    let compares = txn.compares.iter().map(|compare| ports::Compare {
        key: compare.key.to_string(),
        expect: match compare.expect {
            model::Expect::Absent => ports::Expect::Absent,
            model::Expect::ModifiedAt(at) => ports::Expect::ModifiedAt(at),
            model::Expect::CreatedAt(at) => ports::Expect::CreatedAt(at),
        },
    });
    let writes = txn.writes.iter().map(|write| match write {
        model::Write::Put(key, record) => ports::Write::Put {
            key: key.to_string(),
            value: record.encode(),
            lease: lease.filter(|_| *key == model::Key::Leader),
        },
        model::Write::Delete(key) => ports::Write::Delete { key: key.to_string() },
    });
    ports::Txn { compares: compares.collect(), writes: writes.collect() }
}
