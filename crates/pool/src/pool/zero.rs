//! Deallocating: the pages are gone, an empty cluster is freed, and nothing below shines through.

use alloc::{boxed::Box, vec::Vec};

use block::{Durability, Extent};
use model::ReplicaId;

use super::{Access, OpId, Pool, Scope, Slice, Work, clusters_of, new_op, slices};
use crate::{
    Error, RequestId,
    record::{LayerId, Record},
};

#[derive(Clone, Debug)]
pub(super) struct Zero {
    replica: ReplicaId,
    /// What is left of it.
    extent: Extent,
    durability: Durability,
}

/// Clusters done before the journal's room is looked at again: their records take less than 45
/// bytes each, so less than three blocks together.
const STEP: usize = 256;

const STEP_BYTES: u64 = 45 * 256;

impl Pool {
    pub(super) fn admit_zero(
        &mut self,
        request: RequestId,
        replica: ReplicaId,
        extent: Extent,
        durability: Durability,
    ) -> Result<(), Error> {
        let layer = self.catalog.replicas.get(&replica).ok_or(Error::NotFound)?.layer;
        self.check_extent(layer, extent)?;
        let scope = Scope { replica, clusters: clusters_of(extent), access: Access::Alone };
        let zero = Work::Zero(Box::new(Zero { replica, extent, durability }));
        self.enter(new_op(Some(request), Some(scope), zero));
        Ok(())
    }

    pub(super) fn run_zero(&mut self, op: OpId) {
        let Some(Work::Zero(zero)) = self.ops.get(op).map(|op| &op.work) else { return };
        let (replica, mut extent, durability) = (zero.replica, zero.extent, zero.durability);
        let Some(layer) = self.catalog.replicas.get(&replica).map(|replica| replica.layer) else {
            return self.finish(op, Err(Error::NotFound));
        };
        while extent.blocks > 0 {
            if !self.has_room_for_records(STEP_BYTES) {
                if let Some(Work::Zero(zero)) = self.ops.get_mut(op).map(|op| &mut op.work) {
                    zero.extent = extent;
                }
                return self.stall(op);
            }
            if let Err(error) = self.zero_some(layer, &mut extent) {
                return self.finish(op, Err(error));
            }
        }
        if let Some(op) = self.ops.get_mut(op) {
            op.work = Work::Recorded;
        }
        let lsn = self.commit.hard;
        if durability.is_durable() {
            self.when_durable(lsn, op);
        } else {
            self.when_recorded(lsn, op);
        }
    }

    /// As a write: answered when a crash of the process cannot lose it.
    fn when_recorded(&mut self, lsn: u64, op: OpId) {
        if lsn <= self.log.written() {
            self.finish(op, Ok(crate::Reply::Done));
        } else {
            self.commit.when_written(lsn, op);
        }
    }

    /// The first part of it, and takes that off. Holes come before what they hide goes: a journal
    /// that ends in between must not show what lies below.
    fn zero_some(&mut self, layer: LayerId, extent: &mut Extent) -> Result<(), Error> {
        let part: Vec<Slice> = slices(*extent).take(STEP).collect();
        let has_parent =
            self.catalog.layers.get(&layer).is_some_and(|layer| layer.parent.is_some());
        let mut holes: Vec<(u32, u32, u64)> = Vec::new();
        for slice in part.iter().filter(|_| has_parent) {
            if self.shines(layer, slice.logical) {
                add_hole(&mut holes, *slice);
            }
        }
        self.spend_catalog(16 * u64::try_from(holes.len()).unwrap_or(u64::MAX))?;
        for (first, count, pages) in holes {
            self.record(&Record::Hole { layer, first, count, pages });
        }
        for slice in &part {
            self.unmap(layer, *slice);
        }
        let done: u32 = part.iter().map(|slice| u32::from(slice.count)).sum();
        *extent = Extent::new(extent.start + u64::from(done), extent.blocks - done);
        Ok(())
    }

    fn unmap(&mut self, layer: LayerId, slice: Slice) {
        let map = self.catalog.layers.get(&layer).map(|layer| &layer.map);
        let Some(cluster) = map.and_then(|map| map.get(slice.logical)) else { return };
        let pages = self.clusters.cell(cluster).entry.valid & slice.pages();
        if pages != 0 {
            self.commit.unsettle(cluster, pages);
            self.settle(cluster, pages);
            self.record(&Record::Unmap { cluster, layer, pages });
        }
    }
}

fn add_hole(holes: &mut Vec<(u32, u32, u64)>, slice: Slice) {
    match holes.last_mut() {
        Some((first, count, pages))
            if *first + *count == slice.logical && *pages == slice.pages() =>
        {
            *count += 1;
        }
        _ => holes.push((slice.logical, 1, slice.pages())),
    }
}
