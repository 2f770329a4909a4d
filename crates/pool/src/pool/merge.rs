//! Background merge: a layer that nobody asks for any more goes into the only one above it,
//! cluster by cluster. Each step leaves every image as it was, and a crash between two steps only
//! means that the rest is done after the next import.
//!
//! No step takes a cluster: deleting a snapshot works on a full pool.

use alloc::{boxed::Box, vec::Vec};

use block::{Buffer, Durability};

use super::{Access, OpId, Pool, Scope, Whom, Work, bytes, commit::Waiter, new_op, runs};
use crate::{
    Error, Io, IoError, Reply,
    codec::index,
    record::{Cluster, LayerId, Record},
};

/// Copying what only the lower layer has of a cluster that both have.
#[derive(Clone, Debug)]
pub(super) struct Merge {
    layer: LayerId,
    child: LayerId,
    logical: u32,
    phase: Phase,
    pages: u64,
    read: Vec<Option<Buffer>>,
    left: usize,
    failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Start,
    Reading,
    Writing,
    Syncing,
}

/// Steps without I/O that are done at once; then whoever else waits has a turn.
const STEPS: usize = 64;

const STEP_BYTES: u64 = 64;

impl Pool {
    pub(super) fn pump_merge(&mut self) {
        if self.discarded.is_empty() || self.merging.is_some() || self.exporting.is_some() {
            return;
        }
        for _ in 0..STEPS {
            if self.merging.is_some() {
                return;
            }
            if !self.has_room_for_records(STEP_BYTES) {
                self.checkpoint_wanted = true;
                return;
            }
            let mergeable = |id: &&LayerId| {
                self.catalog.layers.get(id).is_some_and(|layer| layer.children <= 1)
            };
            let Some(layer) = self.discarded.iter().find(mergeable).copied() else { return };
            self.merge_step(layer);
        }
    }

    fn merge_step(&mut self, layer: LayerId) {
        let Some(child) = self.catalog.child(layer) else {
            self.record(&Record::Drop { layer });
            self.discarded.remove(&layer);
            return;
        };
        let next = self.catalog.layers.get(&layer).and_then(|layer| layer.map.next(0));
        let Some((logical, _)) = next else {
            self.record(&Record::Splice { layer });
            self.discarded.remove(&layer);
            return;
        };
        let live = self.catalog.replicas.iter().find(|(_, replica)| replica.layer == child);
        let scope = live.map(|(replica, _)| Scope {
            replica: *replica,
            clusters: logical..logical + 1,
            access: Access::Alone,
        });
        let phase = Phase::Start;
        let (pages, read, left) = (0, Vec::new(), 0);
        let merge = Merge { layer, child, logical, phase, pages, read, left, failed: false };
        let op = self.enter(new_op(None, scope, Work::Merge(Box::new(merge))));
        if self.ops.get(op).is_some() {
            self.merging = Some(op);
        }
    }

    pub(super) fn run_merge(&mut self, op: OpId) {
        let Some(Work::Merge(merge)) = self.ops.get(op).map(|op| &op.work) else { return };
        let (layer, child, logical, phase) = (merge.layer, merge.child, merge.logical, merge.phase);
        match phase {
            Phase::Start => self.begin_merge(op, layer, child, logical),
            Phase::Syncing => self.end_merge(op),
            Phase::Reading | Phase::Writing => {}
        }
    }

    fn begin_merge(&mut self, op: OpId, layer: LayerId, child: LayerId, logical: u32) {
        // The world may have changed while it waited.
        let is_same = self.catalog.child(layer) == Some(child);
        let lower = self.own_cluster(layer, logical).filter(|_| is_same);
        let Some(lower) = lower else { return self.merge_over(op) };
        let hidden = self.catalog.layers.get(&child).map_or(0, |child| child.holes.get(logical));
        let valid = self.clusters.cell(lower).entry.valid & !hidden;
        let Some(upper) = self.own_cluster(child, logical) else {
            if valid == 0 {
                self.record(&Record::Free { cluster: lower });
            } else {
                let pages = valid;
                self.record(&Record::Move { cluster: lower, layer: child, logical, pages });
            }
            return self.merge_over(op);
        };
        if valid & self.unmapped(upper) != 0 {
            // What hides the lower page may not survive a crash yet: the sync makes it count.
            return self.when_synced(Waiter::Op(op));
        }
        let pages = valid & !self.clusters.cell(upper).entry.valid;
        if pages == 0 {
            self.record(&Record::Free { cluster: lower });
            return self.merge_over(op);
        }
        self.read_lower(op, lower, pages);
    }

    fn own_cluster(&self, layer: LayerId, logical: u32) -> Option<Cluster> {
        self.catalog.layers.get(&layer)?.map.get(logical)
    }

    fn read_lower(&mut self, op: OpId, lower: Cluster, pages: u64) {
        let parts: Vec<_> = runs(pages).collect();
        if let Some(Work::Merge(merge)) = self.ops.get_mut(op).map(|op| &mut op.work) {
            merge.phase = Phase::Reading;
            merge.pages = pages;
            merge.left = parts.len();
            merge.read = alloc::vec![None; parts.len()];
        }
        for (at, (page, count)) in parts.into_iter().enumerate() {
            let offset = bytes(self.geometry.page(lower, page));
            let io = Io::Read { offset, len: index(bytes(count.into())) };
            self.io_on(io, Whom::Merge { op, at }, lower, 1);
        }
    }

    pub(super) fn merge_io_done(
        &mut self,
        op: OpId,
        at: usize,
        result: Result<Option<Buffer>, IoError>,
    ) {
        let Some(Work::Merge(merge)) = self.ops.get_mut(op).map(|op| &mut op.work) else { return };
        merge.left -= 1;
        match result {
            Ok(data) if merge.phase == Phase::Reading => {
                merge.failed |= data.is_none();
                merge.read[at] = data;
            }
            Ok(_) => {}
            Err(_) => merge.failed = true,
        }
        if merge.left > 0 {
            return;
        }
        if merge.failed {
            // Tried again after the next import: the layers stay as they are.
            let layer = merge.layer;
            self.discarded.remove(&layer);
            return self.merge_over(op);
        }
        match merge.phase {
            Phase::Reading => self.write_upper(op),
            Phase::Writing => {
                merge.phase = Phase::Syncing;
                self.when_synced(Waiter::Op(op));
            }
            Phase::Start | Phase::Syncing => {}
        }
    }

    fn write_upper(&mut self, op: OpId) {
        let Some(Work::Merge(merge)) = self.ops.get_mut(op).map(|op| &mut op.work) else { return };
        merge.phase = Phase::Writing;
        merge.left = merge.read.len();
        let (child, logical, pages) = (merge.child, merge.logical, merge.pages);
        let read = core::mem::take(&mut merge.read);
        let Some(upper) = self.own_cluster(child, logical) else { return self.merge_over(op) };
        for (at, ((page, _), data)) in runs(pages).zip(read).enumerate() {
            let offset = bytes(self.geometry.page(upper, page));
            let data = data.unwrap_or_else(|| Buffer::zeroed(0));
            let io = Io::Write { offset, data, durability: Durability::Volatile };
            self.io_on(io, Whom::Merge { op, at }, upper, 1);
        }
    }

    /// The copies are durable: they count, and what they were copied from goes.
    fn end_merge(&mut self, op: OpId) {
        let Some(Work::Merge(merge)) = self.ops.get(op).map(|op| &op.work) else { return };
        let (layer, child, logical, pages) = (merge.layer, merge.child, merge.logical, merge.pages);
        let places = (self.own_cluster(layer, logical), self.own_cluster(child, logical));
        if let (Some(lower), Some(upper)) = places {
            // In this order: a journal that ends in between still has the pages once.
            self.trust_copies(upper, pages);
            self.record(&Record::Free { cluster: lower });
        }
        self.merge_over(op);
    }

    fn merge_over(&mut self, op: OpId) {
        self.merging = None;
        self.finish(op, Ok::<_, Error>(Reply::Done));
    }

    /// Gives freed clusters back to the device.
    pub(super) fn pump_discards(&mut self) {
        if self.clusters.discards.is_empty() {
            return;
        }
        let mut clusters = core::mem::take(&mut self.clusters.discards);
        clusters.sort_unstable();
        let mut runs: Vec<(Cluster, u32)> = Vec::new();
        for cluster in clusters {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == cluster => *count += 1,
                _ => runs.push((cluster, 1)),
            }
        }
        for (first, count) in runs {
            let offset = bytes(self.geometry.page(first, 0));
            let len = bytes(u64::from(count) * crate::geometry::CLUSTER);
            self.give_out(Io::Discard { offset, len }, Whom::Discard, first, count);
        }
    }
}
