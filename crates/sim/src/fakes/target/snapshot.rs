//! Snapshots: on every healthy copy, or on none and reported failed.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{AttemptId, ReplicaId, SnapshotItem};

use super::{Target, child::Purpose};
use crate::{ChildOp, Ctx, Frozen};

/// Writes rest while it runs.
#[derive(Debug)]
pub(super) struct Freeze {
    item: SnapshotItem,
    waiting: BTreeSet<ReplicaId>,
    started: bool,
    failed: bool,
}

impl Target {
    pub(super) fn advance_freeze(&mut self, ctx: &mut Ctx<'_>) {
        if !self.is_membership_settled() {
            return;
        }
        if self.freeze.is_none() {
            self.freeze = self.next_freeze();
        }
        let drained = self.lanes.iter().all(super::io::Lane::is_idle);
        let Some(freeze) = &self.freeze else { return };
        if !freeze.started {
            if drained {
                self.start_freeze(ctx);
            }
        } else if freeze.waiting.is_empty() {
            self.end_freeze(ctx);
        }
    }

    fn is_membership_settled(&self) -> bool {
        self.change.is_none() && !self.is_held() && self.record.resync_source.is_none()
    }

    /// The attempts that every healthy copy holds, as far as the record says who is healthy.
    pub(super) fn taken_snapshots(&self) -> BTreeMap<AttemptId, BTreeSet<ReplicaId>> {
        if !self.is_serving() || !self.is_membership_settled() {
            return BTreeMap::new();
        }
        let is_taken = |item: &&SnapshotItem| {
            let is_under_way = self.freeze.as_ref().is_some_and(|f| f.item.attempt == item.attempt);
            !is_under_way
                && !self.failed_snapshots.contains(&item.attempt)
                && self.acknowledging().all(|id| self.holds(id, item))
        };
        let taken = self.item.snapshots.iter().filter(is_taken);
        taken.map(|item| (item.attempt, self.acknowledging().collect())).collect()
    }

    fn next_freeze(&self) -> Option<Freeze> {
        let item = self.item.snapshots.iter().find(|item| {
            !self.failed_snapshots.contains(&item.attempt)
                && self.acknowledging().any(|id| !self.holds(id, item))
        })?;
        let item = item.clone();
        Some(Freeze { item, waiting: BTreeSet::new(), started: false, failed: false })
    }

    fn holds(&self, id: ReplicaId, item: &SnapshotItem) -> bool {
        let child = self.children.get(&id);
        child.is_some_and(|child| child.frozen.get(&item.snapshot) == Some(&item.attempt))
    }

    fn start_freeze(&mut self, ctx: &mut Ctx<'_>) {
        let Some(freeze) = &mut self.freeze else { return };
        freeze.started = true;
        let item = freeze.item.clone();
        let healthy: Vec<_> = self.acknowledging().collect();
        // A predecessor took it on some: its image is brought to the others. Taking it again would
        // change an image that may already be in use.
        if let Some(holder) = healthy.iter().copied().find(|id| self.holds(*id, &item)) {
            if self.ask(ctx, holder, ChildOp::Frozen, Purpose::ImagesRead)
                && let Some(freeze) = &mut self.freeze
            {
                freeze.waiting.insert(holder);
            }
            return;
        }
        for id in healthy {
            let SnapshotItem { snapshot, name, attempt } = item.clone();
            let op = ChildOp::Freeze { snapshot, name, attempt, size: self.item.size };
            if self.ask(ctx, id, op, Purpose::Freeze)
                && let Some(freeze) = &mut self.freeze
            {
                freeze.waiting.insert(id);
            }
        }
    }

    pub(super) fn frozen(&mut self, id: ReplicaId) {
        let Some(freeze) = &mut self.freeze else { return };
        freeze.waiting.remove(&id);
        if let Some(child) = self.children.get_mut(&id) {
            child.frozen.insert(freeze.item.snapshot, freeze.item.attempt);
        }
    }

    pub(super) fn freeze_failed(&mut self, id: ReplicaId) {
        if let Some(freeze) = &mut self.freeze {
            freeze.waiting.remove(&id);
            freeze.failed = true;
        }
    }

    fn end_freeze(&mut self, ctx: &mut Ctx<'_>) {
        let Some(freeze) = self.freeze.take() else { return };
        ctx.out.changed = true;
        if !freeze.failed {
            return;
        }
        self.failed_snapshots.push(freeze.item.attempt);
        let snapshot = freeze.item.snapshot;
        let mut holders: Vec<_> = self.children.keys().copied().collect();
        holders.retain(|id| self.holds(*id, &freeze.item));
        for id in holders {
            self.ask(ctx, id, ChildOp::Thaw { snapshot }, Purpose::Thaw);
            if let Some(child) = self.children.get_mut(&id) {
                child.frozen.remove(&snapshot);
            }
        }
    }

    pub(super) fn forget_in_freeze(&mut self, id: ReplicaId) {
        if let Some(freeze) = &mut self.freeze {
            freeze.waiting.remove(&id);
        }
    }

    /// Whether this copy has every image that the source of copies has.
    pub(super) fn lacks_no_image(&self, id: ReplicaId) -> bool {
        let source = self.source().and_then(|source| self.children.get(&source));
        let (Some(source), Some(child)) = (source, self.children.get(&id)) else { return false };
        source.frozen.keys().all(|snapshot| child.frozen.contains_key(snapshot))
    }

    pub(super) fn bring_images(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(change) = &mut self.change {
            change.stage = super::change::Stage::Images;
        }
        if let Some(source) = self.source() {
            self.ask(ctx, source, ChildOp::Frozen, Purpose::ImagesRead);
        }
    }

    /// The images of a holder arrived: they go to every open copy that lacks one.
    pub(super) fn images(&mut self, ctx: &mut Ctx<'_>, images: &Rc<Frozen>) {
        let lacking: Vec<_> = self
            .children
            .iter()
            .filter(|(_, child)| {
                child.is_open() && images.keys().any(|image| !child.frozen.contains_key(image))
            })
            .map(|(id, _)| *id)
            .collect();
        // What a tombstone removed meanwhile is not waited for.
        if let Some(source) = self.source().and_then(|source| self.children.get_mut(&source)) {
            source.frozen = images.iter().map(|(id, image)| (*id, image.attempt)).collect();
        }
        if let Some(freeze) = &mut self.freeze {
            freeze.waiting.clear();
        }
        for id in lacking {
            let op = ChildOp::CopyFrozen(images.clone());
            if self.ask(ctx, id, op, Purpose::ImagesWritten) {
                if let Some(child) = self.children.get_mut(&id) {
                    child.arriving =
                        images.iter().map(|(id, image)| (*id, image.attempt)).collect();
                }
                if let Some(freeze) = &mut self.freeze {
                    freeze.waiting.insert(id);
                }
            }
        }
    }

    /// An image counts when the copy says that it has it, not when it was sent.
    pub(super) fn images_written(&mut self, id: ReplicaId) {
        if let Some(child) = self.children.get_mut(&id) {
            child.frozen.append(&mut child.arriving);
        }
        self.forget_in_freeze(id);
    }
}
