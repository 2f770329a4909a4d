//! Snapshots: on every healthy replica, or on none and reported failed.
//!
//! ```text
//! drain ─▶ (aborting) ─▶ taking ─▶ proving ─▶ (done)
//!                           └─▶ one failed: removed everywhere, reported
//! ```
//! Nothing new is begun until it is taken. A predecessor may have died while it took it: then some
//! hold an image of the past, which goes before it is taken anew. Nobody has used it, since a
//! snapshot is one only if every healthy replica has it.
//!
//! Proving: everybody who holds it flushes once more, and the record says that they did. Should one
//! of them be set back to a time before the snapshot, it is found out; else a successor would take
//! the snapshot for one that was never finished, and take it anew. Hosts go on meanwhile.
//!
//! That it was taken is reported by the target alone, with who holds it. What the replicas report
//! is not enough: a reader may join an old report of theirs with a newer record of who is healthy,
//! while what they held is taken back.

#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, BTreeSet};

use model::{AttemptId, ReplicaId, Roster, SnapshotItem};

use super::{
    Output, Phase, Target, Turn,
    change::{Asked, Cause},
    child::Purpose,
    flush::Waiter,
    seen::Notice,
};
use crate::{
    Fault, Frozen, Request,
    slots::{Slot, Slots},
};

/// Attempts, and who holds them.
pub(super) type TakenSnapshots = BTreeMap<AttemptId, BTreeSet<ReplicaId>>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Freeze {
    item: SnapshotItem,
    /// As it was when it was taken.
    roster: Roster,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Drain,
    Aborting {
        waiting: Slots,
    },
    Taking {
        waiting: Slots,
        has_failed: bool,
    },
    /// Those who are still to flush; then the record is written.
    Proving {
        waiting: Slots,
    },
}

impl<D: Clone> Target<D> {
    pub(super) fn advance_freeze(&mut self, turn: &mut Turn<'_, D>) {
        if self.phase != Phase::Serving || !self.is_membership_settled() {
            return;
        }
        if self.freeze.is_none() && core::mem::take(&mut self.is_snapshot_due) {
            let next = self.next_snapshot();
            let (roster, stage) = (self.record.roster, Stage::Drain);
            self.freeze = next.map(|item| Freeze { item, roster, stage });
            if self.freeze.is_none()
                && let Some(item) = self.unproven_snapshot()
            {
                let stage = Stage::Proving { waiting: Slots::NONE };
                self.freeze = Some(Freeze { item, roster, stage });
                self.prove_snapshots(turn);
            }
        }
        if let Some(Freeze { stage: Stage::Proving { waiting: Slots::NONE }, .. }) = self.freeze {
            let wanted = self.record_to_change();
            self.commit(turn, Asked { wanted, cause: Cause::Snapshot });
        }
        if let Some(Freeze { stage: Stage::Drain, .. }) = self.freeze
            && self.lock.is_empty()
        {
            self.abort_older(turn);
        }
    }

    /// A snapshot is being taken: nothing may change. Proving one needs no rest.
    pub(super) fn is_frozen(&self) -> bool {
        let stage = self.freeze.as_ref().map(|freeze| freeze.stage);
        stage.is_some_and(|stage| !matches!(stage, Stage::Proving { .. }))
    }

    /// Those who count are those of the record, and equal.
    fn is_membership_settled(&self) -> bool {
        let is_whole = self.change.is_none() && self.lost.is_empty() && self.leaving.is_empty();
        is_whole && self.record.resync_source.is_none()
    }

    /// The attempts that everybody who counts holds. While somebody is being excluded nothing is
    /// said: should this target die now, its successor would still count on that replica, find it
    /// without the snapshot, and take the snapshot anew on all.
    pub(super) fn taken_snapshots(&self) -> TakenSnapshots {
        let is_asked = !self.item.snapshots.is_empty();
        if !is_asked || self.phase != Phase::Serving || !self.is_membership_settled() {
            return BTreeMap::new();
        }
        let is_reported = |item: &&SnapshotItem| {
            let is_under_way = self.freeze.as_ref().is_some_and(|f| f.item.attempt == item.attempt);
            let is_proven = self.proven_snapshots.contains(&item.attempt);
            let has_failed = self.failed_snapshots.contains(&item.attempt);
            !is_under_way && is_proven && !has_failed && self.is_taken(item)
        };
        let counting = self.groups.counting.iter().filter_map(|slot| self.children.get(slot));
        let holders: BTreeSet<_> = counting.map(|child| child.id).collect();
        let taken = self.item.snapshots.iter().filter(is_reported);
        taken.map(|item| (item.attempt, holders.clone())).collect()
    }

    fn next_snapshot(&self) -> Option<SnapshotItem> {
        let is_due = |item: &&SnapshotItem| {
            !self.failed_snapshots.contains(&item.attempt) && !self.is_taken(item)
        };
        self.item.snapshots.iter().find(is_due).cloned()
    }

    /// A predecessor took it, and perhaps did not come to prove it.
    fn unproven_snapshot(&self) -> Option<SnapshotItem> {
        let is_unproven = |item: &&SnapshotItem| {
            let has_failed = self.failed_snapshots.contains(&item.attempt);
            !has_failed && !self.proven_snapshots.contains(&item.attempt)
        };
        self.item.snapshots.iter().find(is_unproven).cloned()
    }

    fn prove_snapshots(&mut self, turn: &mut Turn<'_, D>) {
        let counting = self.groups.counting.without(self.lost);
        let Some(freeze) = &mut self.freeze else { return };
        freeze.stage = Stage::Proving { waiting: counting };
        // A new mark, although nothing was written.
        self.marks.wrote();
        for slot in counting.iter() {
            self.flush_child(turn, slot, Waiter::Snapshot);
        }
    }

    pub(super) fn snapshot_flushed(&mut self, slot: Slot) {
        if let Some(Freeze { stage: Stage::Proving { waiting }, .. }) = &mut self.freeze {
            waiting.remove(slot);
        }
    }

    /// The last one cannot flush: nothing is said of the snapshot, by this target.
    pub(super) fn leave_unproven(&mut self) {
        self.freeze = None;
    }

    /// The record says what everybody who holds it has flushed.
    pub(super) fn snapshot_proven(&mut self, turn: &mut Turn<'_, D>) {
        self.freeze = None;
        let taken = self.item.snapshots.iter().filter(|item| self.is_taken(item));
        self.proven_snapshots = taken.map(|item| item.attempt).collect();
        self.is_snapshot_due = true;
        turn.put(Output::Seen);
    }

    /// Whether everybody who counts has it, and the same of it.
    fn is_taken(&self, item: &SnapshotItem) -> bool {
        let is_it = |held: &&Frozen| held.snapshot == item.snapshot && held.attempt == item.attempt;
        let mut counting = self.groups.counting.iter();
        let first = counting.next().and_then(|slot| self.frozen_on(slot).iter().find(is_it));
        first.is_some_and(|first| {
            counting.all(|slot| self.frozen_on(slot).iter().any(|held| held.is_same(first)))
        })
    }

    /// What some hold of it is of another try.
    fn abort_older(&mut self, turn: &mut Turn<'_, D>) {
        let Some(freeze) = &self.freeze else { return };
        let snapshot = freeze.item.snapshot;
        let mut waiting = Slots::NONE;
        for slot in self.groups.counting.iter() {
            let held = self.frozen_on(slot).iter().find(|held| held.snapshot == snapshot);
            let Some(attempt) = held.map(|held| held.attempt) else { continue };
            if let Some(child) = self.children.get_mut(slot) {
                child.send(turn, Purpose::SnapAbort, Request::SnapAbort { snapshot, attempt });
                waiting.insert(slot);
            }
        }
        if let Some(freeze) = &mut self.freeze {
            freeze.stage = Stage::Aborting { waiting };
        }
        self.take_snapshot(turn);
    }

    pub(super) fn snap_aborted(
        &mut self,
        turn: &mut Turn<'_, D>,
        slot: Slot,
        fault: Option<Fault>,
    ) {
        self.image_aborted(turn, slot, fault);
        let Some(Freeze { item, stage: Stage::Aborting { waiting }, .. }) = &mut self.freeze else {
            return;
        };
        if !waiting.contains(slot) {
            return;
        }
        waiting.remove(slot);
        if fault.is_some() {
            self.fail_snapshot(turn);
            return;
        }
        if let Some(state) = self.children.get_mut(slot).and_then(|c| c.state.as_mut()) {
            state.snapshots.retain(|held| held.snapshot != item.snapshot);
        }
        self.take_snapshot(turn);
    }

    fn take_snapshot(&mut self, turn: &mut Turn<'_, D>) {
        let (blocks, roster) = (self.blocks(), self.record.roster);
        let counting = self.groups.counting;
        let Some(Freeze { item, roster: taken, stage }) = &mut self.freeze else { return };
        if *stage != (Stage::Aborting { waiting: Slots::NONE }) {
            return;
        }
        *stage = Stage::Taking { waiting: counting, has_failed: false };
        *taken = roster;
        let SnapshotItem { snapshot, name, attempt } = item.clone();
        let frozen = Frozen { snapshot, attempt, roster, blocks, name };
        for slot in counting.iter() {
            if let Some(child) = self.children.get_mut(slot) {
                child.send(turn, Purpose::Snapshot, Request::Snapshot(frozen.clone()));
            }
        }
    }

    pub(super) fn snapshot_answered(
        &mut self,
        turn: &mut Turn<'_, D>,
        slot: Slot,
        fault: Option<Fault>,
    ) {
        let blocks = self.blocks();
        let Some(Freeze { item, roster, stage: Stage::Taking { waiting, has_failed } }) =
            &mut self.freeze
        else {
            return;
        };
        let roster = *roster;
        waiting.remove(slot);
        *has_failed |= fault.is_some();
        if fault.is_none()
            && let Some(state) = self.children.get_mut(slot).and_then(|c| c.state.as_mut())
        {
            let SnapshotItem { snapshot, name, attempt } = item.clone();
            state.snapshots.push(Frozen { snapshot, attempt, roster, blocks, name });
        }
        self.end_freeze(turn);
    }

    /// A replica that is excluded meanwhile lacks it, which is known when it returns.
    pub(super) fn freeze_without(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        match self.freeze.as_mut().map(|freeze| &mut freeze.stage) {
            Some(Stage::Taking { waiting, .. }) => {
                waiting.remove(slot);
                self.end_freeze(turn);
            }
            Some(Stage::Aborting { waiting }) => {
                waiting.remove(slot);
                self.take_snapshot(turn);
            }
            Some(Stage::Proving { waiting }) => waiting.remove(slot),
            Some(Stage::Drain) | None => {}
        }
    }

    fn end_freeze(&mut self, turn: &mut Turn<'_, D>) {
        let Some(Freeze { stage: Stage::Taking { waiting, has_failed }, item, .. }) = &self.freeze
        else {
            return;
        };
        if !waiting.is_empty() {
            return;
        }
        if *has_failed {
            self.fail_snapshot(turn);
            return;
        }
        let attempt = item.attempt;
        self.prove_snapshots(turn);
        // Before they get another write.
        self.image_guests(turn, attempt);
    }

    /// Whoever took it takes it back.
    fn fail_snapshot(&mut self, turn: &mut Turn<'_, D>) {
        let Some(Freeze { item, .. }) = self.freeze.take() else { return };
        self.is_snapshot_due = true;
        turn.put(Output::Seen);
        turn.tell(Notice::SnapshotFailed { snapshot: item.snapshot });
        self.failed_snapshots.push(item.attempt);
        for slot in self.groups.counting.without(self.lost).iter() {
            let Some(child) = self.children.get_mut(slot) else { continue };
            if let Some(state) = &mut child.state {
                state.snapshots.retain(|held| held.snapshot != item.snapshot);
            }
            let (snapshot, attempt) = (item.snapshot, item.attempt);
            child.send(turn, Purpose::SnapAbort, Request::SnapAbort { snapshot, attempt });
        }
    }
}
