//! Finding out what became of a commit whose answer did not come.
//!
//! The keys are read until the outcome is certain: written as asked (it happened), or a compare
//! that did not hold at some time since (it did not). Else it is sent again, which is harmless: of
//! two copies one is refused.

use std::rc::Rc;

use model::{Millis, Revision, Txn};
use ports::{StoreError, TxnOutcome, WatchEvent};
use reconcile::{CommitId, Event, Outcome};

use super::{CALL_TIMEOUT, Controller, Waiting, Watch};
use crate::{Ctx, StoreOp, Timer};

pub(super) struct Pending {
    txn: Rc<ports::Txn>,
    is_unknown: bool,
    /// A watch showed it: the revision at which it happened.
    seen: Option<Revision>,
    /// A watch showed a change of what it compares, by somebody else.
    is_overtaken: bool,
}

const LOOK_AGAIN: Millis = Millis(700);

impl Controller {
    pub(super) fn commit(&mut self, ctx: &mut Ctx<'_>, id: CommitId, txn: &Txn) {
        let txn = Rc::new(txn.encode());
        let pending =
            Pending { txn: txn.clone(), is_unknown: false, seen: None, is_overtaken: false };
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
        let keys = pending.txn.keys();
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
        if let Some(revision) = pending.seen.or_else(|| pending.txn.written_at(entries)) {
            self.conclude(ctx, id, Outcome::Committed { revision });
            return;
        }
        if pending.txn.holds(entries) && !pending.is_overtaken {
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
            if pending.txn.is_shown(&event.changes) {
                pending.seen = Some(event.revision);
            }
            pending.is_overtaken |= pending.txn.is_overtaken_by(&event.changes);
        }
    }
}
