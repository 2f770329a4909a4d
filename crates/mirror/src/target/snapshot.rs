//! Snapshots: on every healthy replica, or on none and reported failed.
//!
//! ```text
//! drain ─▶ taking ─▶ (done)
//!             └─▶ one failed: removed everywhere, reported
//! ```
//! Nothing new is begun meanwhile.

use model::SnapshotItem;

use super::{Output, Phase, Target, Turn, child::Purpose, seen::Notice};
use crate::{
    Fault, Request,
    slots::{Slot, Slots},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Freeze {
    item: SnapshotItem,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Drain,
    Taking { waiting: Slots, has_failed: bool },
}

impl<D: Clone> Target<D> {
    pub(super) fn advance_freeze(&mut self, turn: &mut Turn<'_, D>) {
        let is_whole = self.change.is_none() && self.lost.is_empty() && self.leaving.is_empty();
        if self.phase != Phase::Serving || !is_whole || self.record.resync_source.is_some() {
            return;
        }
        if self.freeze.is_none() && core::mem::take(&mut self.is_snapshot_due) {
            let next = self.next_snapshot();
            self.freeze = next.map(|item| Freeze { item, stage: Stage::Drain });
        }
        if let Some(Freeze { stage: Stage::Drain, .. }) = self.freeze
            && self.lock.is_empty()
        {
            self.take_snapshot(turn);
        }
    }

    fn next_snapshot(&self) -> Option<SnapshotItem> {
        let is_due = |item: &&SnapshotItem| {
            !self.failed_snapshots.contains(&item.attempt)
                && self.groups.counting.iter().any(|slot| !self.holds(slot, item))
        };
        self.item.snapshots.iter().find(is_due).cloned()
    }

    fn holds(&self, slot: Slot, item: &SnapshotItem) -> bool {
        let state = self.children.get(&slot).and_then(|child| child.state.as_ref());
        state.is_some_and(|state| state.snapshots.get(&item.snapshot) == Some(&item.attempt))
    }

    fn take_snapshot(&mut self, turn: &mut Turn<'_, D>) {
        let waiting = self.groups.counting;
        let Some(freeze) = &mut self.freeze else { return };
        freeze.stage = Stage::Taking { waiting, has_failed: false };
        let SnapshotItem { snapshot, name, attempt } = freeze.item.clone();
        for slot in waiting.iter() {
            if let Some(child) = self.children.get_mut(&slot) {
                let name = name.clone();
                let request = Request::Snapshot { snapshot, name, attempt };
                child.send(turn, Purpose::Snapshot, request);
            }
        }
    }

    pub(super) fn snapshot_answered(
        &mut self,
        turn: &mut Turn<'_, D>,
        slot: Slot,
        fault: Option<Fault>,
    ) {
        let Some(Freeze { item, stage: Stage::Taking { waiting, has_failed } }) = &mut self.freeze
        else {
            return;
        };
        waiting.remove(slot);
        *has_failed |= fault.is_some();
        if fault.is_none()
            && let Some(state) = self.children.get_mut(&slot).and_then(|c| c.state.as_mut())
        {
            state.snapshots.insert(item.snapshot, item.attempt);
        }
        self.end_freeze(turn);
    }

    /// A replica that is excluded meanwhile lacks it, which is known when it returns.
    pub(super) fn freeze_without(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if let Some(Freeze { stage: Stage::Taking { waiting, .. }, .. }) = &mut self.freeze {
            waiting.remove(slot);
            self.end_freeze(turn);
        }
    }

    fn end_freeze(&mut self, turn: &mut Turn<'_, D>) {
        let Some(Freeze { item, stage: Stage::Taking { waiting, has_failed } }) = &self.freeze
        else {
            return;
        };
        if !waiting.is_empty() {
            return;
        }
        let (item, has_failed) = (item.clone(), *has_failed);
        self.freeze = None;
        self.is_snapshot_due = true;
        turn.put(Output::Seen);
        if !has_failed {
            return;
        }
        turn.tell(Notice::SnapshotFailed { snapshot: item.snapshot });
        self.failed_snapshots.push(item.attempt);
        for slot in self.groups.counting.without(self.lost).iter() {
            let Some(child) = self.children.get_mut(&slot) else { continue };
            if let Some(state) = &mut child.state {
                state.snapshots.remove(&item.snapshot);
            }
            let (snapshot, attempt) = (item.snapshot, item.attempt);
            child.send(turn, Purpose::SnapAbort, Request::SnapAbort { snapshot, attempt });
        }
    }

    /// Whether it has every snapshot that those who count have: else it is no full copy.
    pub(super) fn has_every_snapshot(&self, slot: Slot) -> bool {
        let snapshots = |slot: Slot| {
            self.children.get(&slot).and_then(|c| c.state.as_ref()).map(|state| &state.snapshots)
        };
        let Some(own) = snapshots(slot) else { return false };
        let mut others = self.groups.counting.iter().filter_map(snapshots);
        others.all(|theirs| theirs.keys().all(|snapshot| own.contains_key(snapshot)))
    }
}
