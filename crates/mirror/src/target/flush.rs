//! Flushes: one per child at a time; what was written since one began waits for the next.
//!
//! They are numbered. The mark that a child's flush carries is the number of the newest flush that
//! anybody asked for when it began: it covers all that those cover. When a host's flush is
//! answered, every healthy child has a mark at least as high, for ever; one that has less was set
//! back.

use alloc::vec::Vec;

use block::Bitmap;
use model::{FlushMark, HostId};
use pool::FetchedPiece;

use super::{
    Target, Turn,
    child::{Purpose, Stand},
    command::{Asker, HostFault, HostResult, Work, reply},
    seen::Why,
};
use crate::{
    Fault, Flaw, Request,
    slots::{Slot, Slots},
};

/// Of one child.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Flushes {
    running: Option<Vec<Waiter>>,
    waiting: Vec<Waiter>,
    /// Of the one that runs.
    mark: Option<FlushMark>,
}

impl Flushes {
    /// One that is under way stays known: its answer must not pass for that of a later one.
    pub(super) fn nobody_waits(&mut self) {
        self.waiting.clear();
        if let Some(waiters) = &mut self.running {
            waiters.clear();
        }
    }
}

/// Numbers the flushes of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FlushCounter {
    number: u64,
    /// Since the last one. Without that another flush covers no more, and needs no other mark.
    has_written: bool,
}

impl FlushCounter {
    pub(super) const fn wrote(&mut self) {
        self.has_written = true;
    }

    fn next(&mut self) -> u64 {
        if core::mem::take(&mut self.has_written) || self.number == 0 {
            self.number += 1;
        }
        self.number
    }
}

/// Who wants to know that a child is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Waiter {
    Op(u64),
    Claim,
    Join,
    Recovery,
    Snapshot,
    Stop,
    Nobody,
}

/// A host's flush.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flushing {
    waiting: Slots,
}

impl<D: Clone> Target<D> {
    pub(super) fn host_flush(&mut self, turn: &mut Turn<'_, D>, asker: Asker, host: HostId) {
        if self.hosts.pay(host) {
            // Writes that this host was told are done may be gone: its fsync must not lie.
            reply(turn, asker, HostResult::Failed(HostFault::WriteFault));
            return;
        }
        let waiting = self.groups.acks.without(self.leaving);
        let id = self.new_op(Some(asker), Work::Flush(Flushing { waiting }));
        for slot in waiting.iter() {
            self.flush_child(turn, slot, Waiter::Op(id));
        }
        for slot in self.groups.receivers.without(waiting).iter() {
            self.flush_child(turn, slot, Waiter::Nobody);
        }
    }

    /// What a flush that begins now covers.
    fn next_mark(&mut self) -> FlushMark {
        FlushMark { epoch: self.epoch, number: self.marks.next() }
    }

    pub(super) fn flush_child(&mut self, turn: &mut Turn<'_, D>, slot: Slot, waiter: Waiter) {
        let Some(child) = self.children.get_mut(slot) else { return };
        child.flushes.waiting.push(waiter);
        if child.flushes.running.is_none() {
            self.start_flush(turn, slot);
        }
    }

    fn start_flush(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let geometry = self.geometry;
        let mark = self.next_mark();
        let Some(child) = self.children.get_mut(slot) else { return };
        // Not while the volume is claimed: before the source of a recovery is in the record, what
        // each one has flushed is what tells an older image from the rest.
        // One that is copied to has a mark, too: the survivors know by then what it lacks.
        let is_marked =
            child.stand != Stand::Absent || self.flawed.leaves_out(Flaw::EvidenceErasedByFlush);
        let mark = is_marked.then_some(mark);
        // Flaw::FlushForgetsInFlight: it covers what is done there; the rest stays unflushed.
        let in_flight: Bitmap = if self.flawed.leaves_out(Flaw::FlushForgetsInFlight) {
            Bitmap::new()
        } else {
            let extents = child.sent.values().filter_map(|sent| match &sent.request {
                Request::Write { extent, .. }
                | Request::Zero { extent, .. }
                | Request::Resync(FetchedPiece { extent, .. }) => Some(*extent),
                _ => None,
            });
            extents.flat_map(|extent| geometry.regions(extent)).collect()
        };
        let cur = core::mem::replace(&mut child.cur, in_flight);
        child.prev.merge(&cur);
        child.flushes.running = Some(core::mem::take(&mut child.flushes.waiting));
        child.flushes.mark = mark;
        child.send(turn, Purpose::Flush, Request::Flush { mark });
    }

    pub(super) fn flush_answered(
        &mut self,
        turn: &mut Turn<'_, D>,
        slot: Slot,
        fault: Option<Fault>,
    ) {
        let Some(child) = self.children.get_mut(slot) else { return };
        let waiters = child.flushes.running.take().unwrap_or_default();
        if fault.is_some() {
            child.flushes.mark = None;
            // What it should have covered stays in `prev`.
            self.flush_failed(turn, slot, waiters);
            return;
        }
        child.prev = Bitmap::new();
        if let Some(mark) = child.flushes.mark.take() {
            child.flushed = child.flushed.max(mark);
            if child.stand != Stand::Healthy {
                // What was copied to it counts as copied only while it has this.
                child.known = child.known.max(mark);
            }
        }
        let again = !child.flushes.waiting.is_empty();
        if again {
            self.start_flush(turn, slot);
        }
        for waiter in waiters {
            self.flushed(turn, slot, waiter);
        }
    }

    fn flush_failed(&mut self, turn: &mut Turn<'_, D>, slot: Slot, waiters: Vec<Waiter>) {
        if self.is_claiming() {
            self.claim_lost(turn, slot);
            return;
        }
        if self.may_lose(slot) || !self.groups.acks.contains(slot) {
            // Its exclusion answers those who wait.
            self.lose(turn, slot, Why::Faulted);
            return;
        }
        if waiters.contains(&Waiter::Snapshot) {
            self.leave_unproven();
        }
        for waiter in waiters {
            if let Waiter::Op(id) = waiter
                && let Some(asker) = self.ops.remove(id).and_then(|op| op.asker)
            {
                reply(turn, asker, HostResult::Failed(HostFault::WriteFault));
            }
        }
        // Those who came meanwhile have a try of their own.
        if self.children.get(slot).is_some_and(|child| !child.flushes.waiting.is_empty()) {
            self.start_flush(turn, slot);
        }
    }

    fn flushed(&mut self, turn: &mut Turn<'_, D>, slot: Slot, waiter: Waiter) {
        match waiter {
            Waiter::Op(id) => self.flush_without(turn, id, slot),
            Waiter::Claim => self.claim_flushed(turn, slot),
            Waiter::Join => self.join_flushed(turn, slot),
            Waiter::Recovery => self.recovery_flushed(turn, slot),
            Waiter::Snapshot => self.snapshot_flushed(slot),
            Waiter::Stop => self.stop_flushed(turn, slot),
            Waiter::Nobody => {}
        }
    }

    /// One child less to wait for.
    pub(super) fn flush_without(&mut self, turn: &mut Turn<'_, D>, id: u64, slot: Slot) {
        let Some(op) = self.ops.get_mut(id) else { return };
        let Work::Flush(flushing) = &mut op.work else { return };
        flushing.waiting.remove(slot);
        if flushing.waiting.is_empty() {
            let asker = op.asker;
            self.ops.remove(id);
            if let Some(asker) = asker {
                reply(turn, asker, HostResult::Done);
            }
        }
    }
}
