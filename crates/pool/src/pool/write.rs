//! Writing.
//!
//! A page that is mapped, and durably so, is overwritten in place: one I/O, no record. Any other
//! page is written to its place in the layer's own cluster while a hint with its checksum goes to
//! the journal; when both have arrived the page is valid and the write is answered. The next sync
//! makes it a mapping that counts by itself. Until then the page may be overwritten only once the
//! hint of the new bytes is written: else a crash of the process in between would leave bytes that
//! no hint knows, and take the earlier, answered write with them.

use alloc::{boxed::Box, vec::Vec};

use block::{BLOCK, Buffer, Durability, Extent};
use model::ReplicaId;

use super::{
    Access, OpId, Pending, Pool, Scope, Slice, Whom, Work, bytes, check_within, clusters_of, mask,
    new_op,
    resolve::{Piece, join},
    slices,
};
use crate::{
    Error, Flaw, Io, IoError, Reply, RequestId,
    codec::index,
    record::{Cluster, LayerId, Record},
};

#[derive(Clone, Debug)]
pub(super) struct Write {
    replica: ReplicaId,
    extent: Extent,
    data: Buffer,
    durability: Durability,
    left: usize,
    failed: Option<IoError>,
    fresh: Fresh,
}

/// Of a write to pages that are not mapped durably.
#[derive(Clone, Debug, Default)]
struct Fresh {
    /// Those pages, by cluster.
    pages: Vec<(Cluster, u64)>,
    /// The batch of its hints, until it is written.
    hinted: Option<u64>,
    /// Written only when the hints are.
    deferred: Vec<Piece>,
}

/// A hint's bytes in the journal.
const HINT: u64 = 18;

impl Pool {
    pub(super) fn admit_write(
        &mut self,
        request: RequestId,
        replica: ReplicaId,
        extent: Extent,
        data: Buffer,
        durability: Durability,
    ) -> Result<(), Error> {
        let id = self.catalog.replicas.get(&replica).ok_or(Error::NotFound)?.layer;
        let layer = self.catalog.layers.get(&id).ok_or(Error::NotFound)?;
        check_within(layer, extent)?;
        if u64::try_from(data.len()) != Ok(extent.bytes()) {
            return Err(Error::OutOfRange);
        }
        // What most writes are: nothing is in its way, and its pages are overwritten in one piece.
        let is_free = self.gates.is_empty();
        let single = is_free.then(|| self.single(layer, extent)).flatten();
        let single = single.filter(|piece| self.is_trusted(*piece));
        let scope = Scope { replica, clusters: clusters_of(extent), access: Access::Write };
        if let Some(piece) = single {
            let op = self.start_single(request, scope);
            self.issue_piece(Whom::SingleWrite { op }, &piece, data, durability);
            return Ok(());
        }
        let fresh = Fresh::default();
        let write = Write { replica, extent, data, durability, left: 0, failed: None, fresh };
        self.enter(new_op(Some(request), Some(scope), Work::Write(Box::new(write))));
        Ok(())
    }

    /// All of its pages, which lie in one cluster, are mapped durably.
    fn is_trusted(&self, piece: Piece) -> bool {
        let pages = u8::try_from(piece.blocks).map_or(u64::MAX, |count| mask(piece.page, count));
        self.untrusted(piece.cluster) & pages == 0
    }

    pub(super) fn run_write(&mut self, op: OpId) {
        let Some(Work::Write(write)) = self.ops.get_mut(op).map(|op| &mut op.work) else { return };
        let (replica, extent, durability) = (write.replica, write.extent, write.durability);
        let Some(layer) = self.catalog.replicas.get(&replica).map(|replica| replica.layer) else {
            return self.finish(op, Err(Error::NotFound));
        };
        let Some(pieces) = self.overwritten(layer, extent) else {
            return self.write_fresh(op, replica, layer, extent, durability);
        };
        self.issue(op, &pieces, durability);
    }

    /// Where the extent lies, if all of it is mapped durably in the layer itself.
    fn overwritten(&self, layer: LayerId, extent: Extent) -> Option<Vec<Piece>> {
        let map = &self.catalog.layers.get(&layer)?.map;
        let mut pieces = Vec::with_capacity(1);
        for slice in slices(extent) {
            let cluster = map.get(slice.logical)?;
            let cell = self.clusters.cell(cluster);
            let pages = slice.pages();
            if cell.entry.valid & pages != pages || self.untrusted(cluster) & pages != 0 {
                return None;
            }
            join(&mut pieces, slice.piece(cluster));
        }
        Some(pieces)
    }

    /// Pages of a cluster that count only if their data is found.
    pub(super) fn untrusted(&self, cluster: Cluster) -> u64 {
        if !self.clusters.cell(cluster).is_pending {
            return 0;
        }
        self.pending.get(&cluster).map_or(0, |pending| pending.untrusted)
    }

    /// Those of them of which not even the journal in memory has a mapping.
    pub(super) fn unmapped(&self, cluster: Cluster) -> u64 {
        self.pending.get(&cluster).map_or(0, |pending| pending.untrusted & !pending.mapped)
    }

    fn write_fresh(
        &mut self,
        op: OpId,
        replica: ReplicaId,
        layer: LayerId,
        extent: Extent,
        durability: Durability,
    ) {
        if !self.has_room_for_hints(u64::from(extent.blocks) * HINT) {
            return self.stall(op);
        }
        match self.place(replica, layer, extent) {
            Placed::Here => {}
            Placed::Later => return self.starve(op),
            Placed::Nowhere => return self.finish(op, Err(Error::NoSpace)),
        }
        let mut pieces = Vec::with_capacity(1);
        let mut fresh = Vec::new();
        let mut hinted = None;
        let mut is_deferred = false;
        for slice in slices(extent) {
            let Some(cluster) = self.own(layer, slice.logical) else { continue };
            join(&mut pieces, slice.piece(cluster));
            let untrusted = self.untrusted(cluster);
            let pages = slice.pages() & !(self.clusters.cell(cluster).entry.valid & !untrusted);
            is_deferred |= slice.pages() & untrusted != 0;
            if pages != 0 {
                hinted = Some(self.hint(op, layer, cluster, slice, pages));
                fresh.push((cluster, pages));
            }
        }
        if let Some(Work::Write(write)) = self.ops.get_mut(op).map(|op| &mut op.work) {
            let deferred = if is_deferred { core::mem::take(&mut pieces) } else { Vec::new() };
            write.fresh = Fresh { pages: fresh, hinted, deferred };
        }
        if let Some(lsn) = hinted {
            self.commit.when_written(lsn, op);
        }
        self.issue(op, &pieces, durability);
    }

    fn own(&self, layer: LayerId, logical: u32) -> Option<Cluster> {
        self.catalog.layers.get(&layer)?.map.get(logical)
    }

    /// Sees to it that the layer has a cluster for each part of the extent, or takes none.
    fn place(&mut self, replica: ReplicaId, layer: LayerId, extent: Extent) -> Placed {
        let missing: Vec<u32> = slices(extent)
            .map(|slice| slice.logical)
            .filter(|logical| self.own(layer, *logical).is_none())
            .collect();
        let wanted = u64::try_from(missing.len()).expect("a count fits 64 bits");
        if wanted > self.available(replica) {
            return Placed::Nowhere;
        }
        if wanted > self.clusters.free() {
            return Placed::Later;
        }
        for logical in missing {
            let taken = self.clusters.take(layer, logical);
            if let (Some(cluster), Some(layer)) = (taken, self.catalog.layers.get_mut(&layer)) {
                layer.map.insert(logical, cluster);
            }
        }
        Placed::Here
    }

    /// Hints of these pages of a cluster; the batch they went into.
    fn hint(
        &mut self,
        op: OpId,
        layer: LayerId,
        cluster: Cluster,
        slice: Slice,
        pages: u64,
    ) -> u64 {
        let Some(Work::Write(write)) = self.ops.get(op).map(|op| &op.work) else { return 0 };
        let data = write.data.clone();
        let (mut first, mut last) = (None, 0);
        for page in (slice.first..slice.first + slice.count).filter(|at| pages & mask(*at, 1) != 0)
        {
            let at = index(bytes(u64::from(slice.at) + u64::from(page - slice.first)));
            let crc = crc32c::crc32c(&data.bytes()[at..at + BLOCK]);
            let logical = slice.logical;
            last = self.log.append(&Record::Hint { cluster, layer, logical, page, crc });
            first = first.or(Some(last));
        }
        let lsn = first.unwrap_or(last);
        let pending = self.pending.entry(cluster).or_insert(Pending { lsn, ..Pending::default() });
        pending.untrusted |= pages;
        self.clusters.cell_mut(cluster).is_pending = true;
        last
    }

    fn issue(&mut self, op: OpId, pieces: &[Piece], durability: Durability) {
        let Some(Work::Write(write)) = self.ops.get_mut(op).map(|op| &mut op.work) else { return };
        write.left = pieces.len();
        let data = write.data.clone();
        for piece in pieces {
            let start = index(bytes(piece.at.into()));
            let part = data.slice(start..start + index(bytes(piece.blocks.into())));
            self.issue_piece(Whom::Write { op }, piece, part, durability);
        }
    }

    fn issue_piece(&mut self, whom: Whom, piece: &Piece, data: Buffer, durability: Durability) {
        let offset = bytes(self.geometry.page(piece.cluster, piece.page));
        let io = Io::Write { offset, data, durability };
        self.io_on(io, whom, piece.cluster, piece.clusters());
    }

    pub(super) fn write_done(&mut self, op: OpId, result: Result<(), IoError>) {
        let Some(Work::Write(write)) = self.ops.get_mut(op).map(|op| &mut op.work) else { return };
        write.left -= 1;
        write.failed = write.failed.or(result.err());
        self.finish_write(op);
    }

    /// The batch with its hints is written.
    pub(super) fn hints_done(&mut self, op: OpId) {
        let Some(Work::Write(write)) = self.ops.get_mut(op).map(|op| &mut op.work) else { return };
        let durability = write.durability;
        write.fresh.hinted = None;
        let pieces = core::mem::take(&mut write.fresh.deferred);
        if pieces.is_empty() {
            return self.finish_write(op);
        }
        self.issue(op, &pieces, durability);
    }

    fn finish_write(&mut self, op: OpId) {
        let Some(Work::Write(write)) = self.ops.get_mut(op).map(|op| &mut op.work) else { return };
        if write.left > 0 || write.fresh.hinted.is_some() {
            return;
        }
        let (failed, durability) = (write.failed, write.durability);
        let fresh = core::mem::take(&mut write.fresh.pages);
        if let Some(error) = failed {
            for (cluster, pages) in fresh {
                self.unwrite(cluster, pages);
            }
            return self.finish(op, Err(Error::Io(error)));
        }
        for (cluster, pages) in &fresh {
            self.land(*cluster, *pages);
        }
        let trusts_early = self.flaws.has(Flaw::MapBeforeData);
        if fresh.is_empty() || !(durability.is_durable() || trusts_early) {
            return self.finish(op, Ok(Reply::Done));
        }
        let mut lsn = 0;
        for (cluster, pages) in fresh {
            lsn = self.trust(cluster, pages).max(lsn);
        }
        if let Some(op) = self.ops.get_mut(op) {
            op.work = Work::Recorded;
        }
        self.when_durable(lsn, op);
    }

    /// The pages hold what was written and may be read.
    fn land(&mut self, cluster: Cluster, pages: u64) {
        self.clusters.cell_mut(cluster).entry.valid |= pages;
        if let Some(pending) = self.pending.get_mut(&cluster) {
            // A sync in between may have made them count already.
            pending.landed |= pages & pending.untrusted;
        }
    }

    /// The pages' data is durable: their mapping may be. The batch that says so; until that is
    /// durable, too, they are overwritten like any other page that is only hinted at.
    pub(super) fn trust(&mut self, cluster: Cluster, pages: u64) -> u64 {
        let entry = self.clusters.cell(cluster).entry;
        let (layer, logical) = (entry.layer, entry.logical);
        let lsn = self.record(&Record::Map { cluster, layer, logical, pages });
        self.commit.mapped = lsn;
        if let Some(pending) = self.pending.get_mut(&cluster) {
            pending.mapped |= pages & pending.untrusted;
            pending.landed &= !pages;
            pending.syncing &= !pages;
            self.commit.settling.push_back((lsn, cluster, pages));
        }
        lsn
    }

    /// The same for pages that no hint was given for. Until their mapping is durable a crash goes
    /// back to what they were copied from, so they are overwritten like pages hinted at.
    pub(super) fn trust_copies(&mut self, cluster: Cluster, pages: u64) {
        let lsn = self.log.next();
        let pending = self.pending.entry(cluster).or_insert(Pending { lsn, ..Pending::default() });
        pending.untrusted |= pages;
        self.clusters.cell_mut(cluster).is_pending = true;
        self.trust(cluster, pages);
    }

    /// These pages are no longer pending.
    pub(super) fn settle(&mut self, cluster: Cluster, pages: u64) {
        let Some(pending) = self.pending.get_mut(&cluster) else { return };
        pending.untrusted &= !pages;
        pending.mapped &= !pages;
        pending.landed &= !pages;
        pending.syncing &= !pages;
        if pending.untrusted == 0 {
            self.forget_pending(cluster);
        }
    }

    /// A write failed: pages that it would have made valid stay as they were.
    fn unwrite(&mut self, cluster: Cluster, pages: u64) {
        let entry = self.clusters.cell(cluster).entry;
        let others = self.written_by_others(cluster);
        self.settle(cluster, pages & !entry.valid & !others);
        let cell = self.clusters.cell(cluster);
        let is_empty = entry.valid == 0 && cell.in_flight == 0 && others == 0;
        if is_empty && let Some(layer) = self.catalog.layers.get_mut(&entry.layer) {
            layer.map.remove(entry.logical);
            self.forget_pending(cluster);
            self.clusters.give_back(cluster);
        }
    }

    /// Pages of a cluster that some write is on its way to make valid.
    fn written_by_others(&self, cluster: Cluster) -> u64 {
        let writes = self.ops.iter().filter_map(|(_, op)| match &op.work {
            Work::Write(write) => Some(&write.fresh),
            _ => None,
        });
        let pages = writes.flat_map(|fresh| &fresh.pages);
        pages.filter(|(at, _)| *at == cluster).fold(0, |all, (_, pages)| all | pages)
    }
}

enum Placed {
    Here,
    /// When something leaves quarantine.
    Later,
    Nowhere,
}

impl Slice {
    pub(super) fn piece(self, cluster: Cluster) -> Piece {
        Piece { at: self.at, blocks: self.count.into(), cluster, page: self.first }
    }
}
