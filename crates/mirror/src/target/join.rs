//! A peer that returns: greeted, copied to, admitted.
//!
//! ```text
//! greeted ─▶ (images) ─▶ copied to ─▶ Drain ─▶ Flush ─▶ Welcome ─▶ (commit) ─▶ (rosters) ─▶ read
//!                                     acks and flushes wait for it from here on
//! ```

use alloc::vec::Vec;

use super::{
    Target, Turn,
    change::{Asked, Cause, Change},
    child::{Purpose, Stand, Wish},
    flush::Waiter,
    images::Late,
    seen::Notice,
};
use crate::{
    Fault, Flaw, Request,
    slots::{Slot, Slots},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Join {
    /// Writes that were begun before acknowledgements waited for it.
    Drain,
    Flush,
    /// Its own roster is made durable.
    Welcome,
}

impl<D: Clone> Target<D> {
    /// One that is fenced and may be copied to is told who else is absent.
    pub(super) fn greet_absent(&mut self, turn: &mut Turn<'_, D>) {
        let busy = self.lost.or(self.leaving);
        let ready = self.slots_where(|child| {
            let may = child.wish == Wish::Rebuild && child.is_open();
            may && child.stand == Stand::Absent && child.state.is_some()
        });
        let Some(slot) = ready.into_iter().find(|slot| !busy.contains(*slot)) else { return };
        let count = self.geometry.count(self.blocks());
        let Some(child) = self.children.get_mut(slot) else { return };
        let Some(state) = &child.state else { return };
        child.stand = Stand::Greeting;
        // Flaw::ReturnerTrusted: it may hold writes that nobody else has.
        if !self.flawed.leaves_out(Flaw::ReturnerTrusted) {
            child.lacks.merge(&state.header.dirty);
        }
        let is_set_back = child.is_set_back(self.flawed);
        let is_partial = state.header.roster == child.base && !is_set_back;
        if is_set_back {
            turn.tell(Notice::SetBack { replica: child.id });
        }
        turn.tell(Notice::Returned { replica: child.id, is_partial });
        if is_partial {
            self.greet(turn, slot);
            return;
        }
        // From here on the survivors know that it lacks everything: what it has now is what it must
        // have when it returns the next time.
        (child.base, child.known) = (state.header.roster, state.header.flushed);
        child.lacks = block::Bitmap::full(count);
        self.send_rosters(turn, Cause::Full(slot), Slots::NONE);
    }

    pub(super) fn greet(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let absent = self.absences(slot);
        if let Some(child) = self.children.get_mut(slot)
            && child.stand == Stand::Greeting
        {
            child.send(turn, Purpose::Greet, Request::Absent { absent });
        }
    }

    pub(super) fn greeting_done(
        &mut self,
        turn: &mut Turn<'_, D>,
        slot: Slot,
        fault: Option<Fault>,
    ) {
        if fault.is_some() {
            self.give_up(turn, slot);
            return;
        }
        if let Some(child) = self.children.get_mut(slot) {
            child.is_full = false;
        }
        if self.has_snapshots() {
            self.begin_images(turn, slot, Late::No);
        } else {
            self.begin_rebuild(turn, slot);
        }
    }

    /// From now on it gets every write.
    pub(super) fn begin_rebuild(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if let Some(child) = self.children.get_mut(slot) {
            child.stand = Stand::Rebuilding;
            child.imaging = None;
        }
        self.regroup();
        turn.put(super::Output::Seen);
    }

    pub(super) fn begin_join(&mut self, turn: &mut Turn<'_, D>) -> bool {
        // Whoever is admitted while a snapshot is taken would lack it.
        if self.record.resync_source.is_some() || self.freeze.is_some() {
            return false;
        }
        let ready = self.slots_where(|child| {
            child.stand == Stand::Rebuilding && child.lacks.is_empty() && child.is_open()
        });
        let (whole, lacking): (Vec<_>, Vec<_>) =
            ready.into_iter().partition(|slot| self.lacking(*slot).is_none());
        for slot in lacking {
            self.begin_images(turn, slot, Late::Yes);
        }
        let Some(slot) = whole.first().copied() else { return false };
        if let Some(child) = self.children.get_mut(slot) {
            child.stand = Stand::Joining;
        }
        self.regroup();
        self.change = Some(Change::Join { slot, stage: Join::Drain });
        self.advance_join(turn);
        true
    }

    pub(super) fn advance_join(&mut self, turn: &mut Turn<'_, D>) {
        let Some(Change::Join { slot, stage: Join::Drain }) = self.change else { return };
        if !self.is_drained(slot) && !self.flawed.leaves_out(Flaw::JoinUndrained) {
            return;
        }
        if self.flawed.leaves_out(Flaw::JoinUnflushed) {
            self.welcome(turn, slot);
            return;
        }
        self.change = Some(Change::Join { slot, stage: Join::Flush });
        self.flush_child(turn, slot, Waiter::Join);
    }

    /// No write that was acknowledged without it is still on its way to it.
    fn is_drained(&self, slot: Slot) -> bool {
        let is_behind = |op: &super::command::Op<D>| match &op.work {
            super::command::Work::Write(writing) => {
                op.asker.is_none() && writing.waiting.contains(slot)
            }
            _ => false,
        };
        !self.ops.values().any(is_behind)
    }

    pub(super) fn join_flushed(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if self.change == Some(Change::Join { slot, stage: Join::Flush }) {
            self.welcome(turn, slot);
        }
    }

    fn welcome(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if self.flawed.leaves_out(Flaw::JoinUnrostered) {
            self.commit_join(turn, slot);
            return;
        }
        self.change = Some(Change::Join { slot, stage: Join::Welcome });
        let absent = self.absences(slot);
        let mut members = self.record.children.clone();
        let (roster, flushed) = (self.record.roster.next(), self.flush_marks());
        if let Some(child) = self.children.get_mut(slot) {
            members.insert(child.id, true);
            let request = Request::Roster { roster, members, absent, flushed, intact: true };
            child.send(turn, Purpose::Welcome, request);
        }
    }

    pub(super) fn welcomed(&mut self, turn: &mut Turn<'_, D>, slot: Slot, fault: Option<Fault>) {
        if fault.is_some() {
            self.give_up(turn, slot);
            return;
        }
        let roster = self.record.roster.next();
        if self.change == Some(Change::Join { slot, stage: Join::Welcome }) {
            if let Some(child) = self.children.get_mut(slot) {
                child.roster = roster;
            }
            self.commit_join(turn, slot);
        }
    }

    fn commit_join(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let Some(child) = self.children.get(slot) else { return };
        let mut wanted = self.record_to_change();
        wanted.children.insert(child.id, true);
        wanted.roster = wanted.roster.next();
        self.commit(turn, Asked { wanted, cause: Cause::Admit(slot) });
    }

    /// Once the commit is sent, losing it is the loss of a healthy child.
    pub(super) fn is_admission_sent(&self, slot: Slot) -> bool {
        match &self.change {
            Some(Change::Commit(asked) | Change::Check(asked)) => asked.cause == Cause::Admit(slot),
            _ => false,
        }
    }

    pub(super) fn admission_committed(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if let Some(child) = self.children.get_mut(slot) {
            child.stand = Stand::Healthy;
            child.since = None;
            if let Some(state) = &child.state {
                self.dirty.merge(&state.header.dirty);
            }
            turn.tell(Notice::Admitted { replica: child.id });
        }
        self.regroup();
        self.send_rosters(turn, Cause::Admit(slot), Slots::NONE);
    }

    /// A recovery is over when everything is copied and flushed.
    pub(super) fn begin_recovered(&mut self, turn: &mut Turn<'_, D>) -> bool {
        if self.record.resync_source.is_none() {
            return false;
        }
        let healthy = self.slots_where(|child| child.stand == Stand::Healthy);
        let is_equal = |slot: &Slot| {
            self.children.get(*slot).is_some_and(|child| child.lacks.is_empty() && child.is_open())
        };
        if self.copying.is_some() || !healthy.iter().all(is_equal) {
            return false;
        }
        let waiting: Slots = healthy.into_iter().collect();
        // Flaw::RecoveryUnflushed: what was copied is gone with the next loss of power.
        if self.flawed.leaves_out(Flaw::RecoveryUnflushed) {
            self.commit_recovered(turn);
            return true;
        }
        self.change = Some(Change::Recover { waiting });
        for slot in waiting.iter() {
            self.flush_child(turn, slot, Waiter::Recovery);
        }
        true
    }

    pub(super) fn recovery_flushed(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let Some(Change::Recover { waiting }) = &mut self.change else { return };
        waiting.remove(slot);
        if waiting.is_empty() {
            self.commit_recovered(turn);
        }
    }

    fn commit_recovered(&mut self, turn: &mut Turn<'_, D>) {
        let mut wanted = self.record_to_change();
        wanted.resync_source = None;
        self.commit(turn, Asked { wanted, cause: Cause::Recovered });
    }

    /// What was only being prepared is taken back.
    pub(super) fn abort_preparation(&mut self) {
        match self.change {
            Some(Change::Join { slot, .. }) => self.abort_join(slot),
            Some(Change::Recover { .. }) => self.change = None,
            _ => {}
        }
    }

    pub(super) fn abort_join(&mut self, slot: Slot) {
        match self.change {
            Some(Change::Join { slot: joining, .. }) if joining == slot => self.change = None,
            Some(Change::Rosters { cause: Cause::Full(full), .. }) if full == slot => {
                self.change = None;
            }
            _ => return,
        }
        if let Some(child) = self.children.get_mut(slot)
            && child.stand == Stand::Joining
        {
            child.stand = Stand::Rebuilding;
        }
        self.regroup();
    }
}

#[cfg(test)]
mod tests;
