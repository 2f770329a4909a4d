//! The machine: requests and completions go in, I/O and answers come out.
//!
//! This file holds its state and the way of a request through it; what each kind of request does
//! lies in the files beside it.

mod checkpoint;
mod commit;
mod gate;
mod look;
mod manage;
mod merge;
mod read;
mod resolve;
mod write;
mod zero;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};
use core::ops::Range;

use block::{BLOCK, Buffer, Buffers, Extent};
use model::{ReplicaId, SnapshotId};

pub use self::look::{Node, ReplicaState, SnapshotState, Stats};
use self::{
    checkpoint::Checkpoint,
    commit::Commit,
    manage::Change,
    merge::Merge,
    read::{Read, ReadAs},
    write::Write,
    zero::Zero,
};
use crate::{
    Error, Fault, Flaws, Image, Io, IoError, IoId, Out, Reply, Request, RequestId,
    catalog::{self, Catalog},
    clusters::Clusters,
    geometry::{CLUSTER, Geometry},
    log::Log,
    record::{Cluster, LayerId, Record},
    slab::Slab,
    superblock::Superblock,
};

/// A pool that is open.
#[derive(Clone, Debug)]
pub struct Pool {
    superblock: Superblock,
    geometry: Geometry,
    catalog: Catalog,
    clusters: Clusters,
    /// Pages that were written and are not known to be durable yet.
    pending: BTreeMap<Cluster, Pending>,
    log: Log,
    commit: Commit,
    ops: Slab<Op>,
    ios: Slab<IoTo>,
    /// Distinguishes two uses of one slot.
    io_turn: u64,
    out: VecDeque<Out>,
    /// By replica, in order of arrival: what waits for something before it, and what runs alone.
    gates: BTreeMap<ReplicaId, Vec<OpId>>,
    /// Wait for room in the journal.
    stalled: VecDeque<OpId>,
    /// Wait for clusters to leave quarantine.
    starved: VecDeque<OpId>,
    checkpoint: Option<Box<Checkpoint>>,
    /// The journal wants a checkpoint after the running one.
    checkpoint_wanted: bool,
    /// Requests for which the next checkpoint is made.
    checkpoint_waiters: Vec<OpId>,
    /// The request that ends it all.
    exporting: Option<OpId>,
    /// Layers that wait to be merged away.
    discarded: BTreeSet<LayerId>,
    merging: Option<OpId>,
    /// Upper bound of the catalog's size, in bytes.
    catalog_bytes: u64,
    fault: Option<Fault>,
    is_exported: bool,
    buffers: Buffers,
    flaws: Flaws,
}

/// Memory of reads that a pool holds on to, to use it again: what a busy queue reads at a time,
/// 4 KiB each. It has no clock to let go of it by.
const REUSED: usize = 1 << 20;

pub(crate) type OpId = usize;

/// Pages of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pending {
    /// Hinted at in the journal; no mapping of them is durable. If nothing more becomes durable,
    /// they count only if the data is found.
    untrusted: u64,
    /// Of these, those whose mapping is in the journal on its way to the disk.
    mapped: u64,
    /// Of these, written whole and answered.
    landed: u64,
    /// Of these, landed before the running sync began.
    syncing: u64,
    /// The batch of the oldest hint: the journal must keep it.
    lsn: u64,
}

/// A request, or a piece of the pool's own work, under way.
#[derive(Clone, Debug)]
struct Op {
    request: Option<RequestId>,
    scope: Option<Scope>,
    /// Past its gate.
    is_running: bool,
    work: Work,
}

/// What an op reaches of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scope {
    replica: ReplicaId,
    clusters: Range<u32>,
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    /// Changes who owns what: alone on its clusters.
    Alone,
}

#[derive(Clone, Debug)]
enum Work {
    /// What most requests are: one I/O, whose end is the answer.
    Single,
    Read(Box<Read>),
    Write(Box<Write>),
    Zero(Box<Zero>),
    /// Records up to `hard` were there when it came.
    Flush {
        hard: u64,
    },
    Change(Box<Change>),
    /// Its records are in the journal; it is answered when they are durable.
    Recorded,
    Merge(Box<Merge>),
    /// Waits for a checkpoint.
    Checkpoint,
}

/// Whom a completion is for.
#[derive(Clone, Copy, Debug)]
struct IoTo {
    turn: u64,
    whom: Whom,
    /// Clusters that it reads or writes.
    first: Cluster,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
enum Whom {
    SingleRead {
        op: OpId,
        len: usize,
    },
    SingleWrite {
        op: OpId,
    },
    Read {
        op: OpId,
        at: usize,
    },
    Write {
        op: OpId,
    },
    Merge {
        op: OpId,
        at: usize,
    },
    Journal,
    Sync,
    Table,
    Discard,
    /// It waited for nothing more when the pool failed.
    Nobody,
}

/// What a pool starts from.
#[derive(Debug)]
pub(crate) struct Start {
    pub superblock: Superblock,
    pub catalog: Catalog,
    pub clusters: Clusters,
    pub log: Log,
    pub flaws: Flaws,
}

impl Pool {
    pub(crate) fn new(start: Start) -> Self {
        let Start { superblock, catalog, clusters, log, flaws } = start;
        let discarded = catalog.layers.iter().filter(|(_, layer)| layer.is_discarded());
        let discarded = discarded.map(|(id, _)| *id).collect();
        let mut pool = Self {
            geometry: superblock.geometry,
            superblock,
            catalog,
            clusters,
            pending: BTreeMap::new(),
            commit: Commit::default(),
            log,
            ops: Slab::default(),
            ios: Slab::default(),
            io_turn: 0,
            out: VecDeque::new(),
            gates: BTreeMap::new(),
            stalled: VecDeque::new(),
            starved: VecDeque::new(),
            checkpoint: None,
            checkpoint_wanted: false,
            checkpoint_waiters: Vec::new(),
            exporting: None,
            discarded,
            merging: None,
            catalog_bytes: 0,
            fault: None,
            is_exported: false,
            buffers: Buffers::new(REUSED),
            flaws,
        };
        pool.measure_catalog();
        pool
    }

    pub fn submit(&mut self, request: RequestId, what: Request) {
        if let Err(error) = self.admit(request, what) {
            self.answer(request, Err(error));
        }
        self.pump();
    }

    /// What is to be done next; `None` until something else happens.
    pub fn poll(&mut self) -> Option<Out> {
        self.out.pop_front()
    }

    /// The disk has done, or failed, what was given out as `id`. Of a read, with what it read.
    pub fn io_done(&mut self, id: IoId, result: Result<Option<Buffer>, IoError>) {
        let (turn, at) = (id.0 >> 32, crate::codec::index(id.0 & 0xffff_ffff));
        if self.ios.get(at).is_none_or(|io| io.turn != turn) {
            return;
        }
        let Some(io) = self.ios.remove(at) else { return };
        let is_freed = match io.whom {
            Whom::Discard => self.clusters.discarded(io.first, io.count),
            _ => self.clusters.io_done(io.first, io.count),
        };
        if is_freed {
            self.feed_starved();
        }
        match io.whom {
            Whom::SingleRead { op, len } => self.single_read_done(op, len, result),
            Whom::SingleWrite { op } => {
                let result = result.map(|_| Reply::Done).map_err(Error::Io);
                self.finish(op, result);
            }
            Whom::Read { op, at } => self.read_done(op, at, result),
            Whom::Write { op } => self.write_done(op, result.map(|_| ())),
            Whom::Merge { op, at } => self.merge_io_done(op, at, result),
            Whom::Journal => self.journal_done(result.map(|_| ())),
            Whom::Sync => self.sync_done(result.map(|_| ())),
            Whom::Table => self.table_done(result.map(|_| ())),
            Whom::Discard | Whom::Nobody => {}
        }
        self.pump();
    }

    /// For an `Io::Read` of so many bytes. It may hold old bytes: it is handed to `io_done` full,
    /// or dropped.
    pub fn read_buffer(&mut self, len: usize) -> Buffer {
        self.buffers.take(len)
    }

    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    fn admit(&mut self, request: RequestId, what: Request) -> Result<(), Error> {
        if self.is_exported || self.exporting.is_some() {
            return Err(Error::Exported);
        }
        if let Some(fault) = self.fault
            && !matches!(what, Request::Read { .. } | Request::Fetch { .. } | Request::Hash { .. })
        {
            return Err(Error::Faulted { fault });
        }
        match what {
            Request::Read { image, extent } => {
                self.admit_read(request, image, extent, ReadAs::Data)
            }
            Request::Fetch { image, since, extent } => {
                self.admit_fetch(request, image, since, extent)
            }
            Request::Hash { image, extent } => {
                self.admit_read(request, image, extent, ReadAs::Hashes)
            }
            Request::Write { replica, extent, data, durability } => {
                self.admit_write(request, replica, extent, data, durability)
            }
            Request::Zero { replica, extent, durability } => {
                self.admit_zero(request, replica, extent, durability)
            }
            Request::Flush => {
                self.admit_flush(request);
                Ok(())
            }
            other => self.admit_change(request, other),
        }
    }

    /// Everything that may have become possible.
    fn pump(&mut self) {
        if self.fault.is_none() {
            self.pump_merge();
            self.pump_checkpoint();
            self.pump_discards();
            self.pump_commit();
        }
    }

    fn answer(&mut self, request: RequestId, result: Result<Reply, Error>) {
        self.out.push_back(Out::Done { request, result });
    }

    /// The op is over.
    fn finish(&mut self, op: OpId, result: Result<Reply, Error>) {
        let Some(Op { request, scope, .. }) = self.ops.remove(op) else { return };
        if let Some(request) = request {
            self.answer(request, result);
        }
        if let Some(scope) = scope
            && !self.gates.is_empty()
        {
            self.leave_gate(op, scope.replica);
        }
    }

    fn io(&mut self, io: Io, whom: Whom) {
        self.io_on(io, whom, 0, 0);
    }

    /// A request that is one I/O on pages of one cluster. Nothing is in its way.
    fn start_single(&mut self, request: RequestId, scope: Scope) -> OpId {
        let op = new_op(Some(request), Some(scope), Work::Single);
        self.ops.insert(Op { is_running: true, ..op })
    }

    /// An I/O on the pages of some clusters: none of them is anybody else's before it is done.
    fn io_on(&mut self, io: Io, whom: Whom, first: Cluster, count: u32) {
        for cluster in first..first + count {
            self.clusters.cell_mut(cluster).in_flight += 1;
        }
        self.give_out(io, whom, first, count);
    }

    fn give_out(&mut self, io: Io, whom: Whom, first: Cluster, count: u32) {
        self.io_turn = (self.io_turn + 1) & 0xffff_ffff;
        let turn = self.io_turn;
        let at = self.ios.insert(IoTo { turn, whom, first, count });
        let at = u64::try_from(at).expect("an index fits 64 bits");
        self.out.push_back(Out::Io { id: IoId(turn << 32 | at), io });
    }

    /// Into the journal and into memory by the same record, so that they cannot disagree.
    fn record(&mut self, record: &Record) -> u64 {
        let lsn = self.log.append(record);
        self.commit.hard = lsn;
        match record {
            Record::Map { cluster, .. }
            | Record::Unmap { cluster, .. }
            | Record::Move { cluster, .. }
            | Record::Free { cluster } => self.change_cluster(*cluster, record, lsn),
            other => {
                let went = self.catalog.apply(other).expect("it was checked before");
                if let Some(layer) = went {
                    self.free_all(&layer, lsn);
                }
            }
        }
        lsn
    }

    /// The table and the maps.
    fn change_cluster(&mut self, cluster: Cluster, record: &Record, lsn: u64) {
        let before = self.clusters.cell(cluster).entry;
        let after = before.after(record);
        self.clusters.touch(cluster);
        if (before.layer, before.logical) != (after.layer, after.logical) {
            if let Some(layer) = self.catalog.layers.get_mut(&before.layer) {
                layer.map.remove(before.logical);
            }
            if let Some(layer) = self.catalog.layers.get_mut(&after.layer) {
                layer.map.insert(after.logical, cluster);
            }
        }
        if after.valid == 0 {
            self.forget_pending(cluster);
            self.clusters.quarantine(cluster, lsn);
        } else {
            self.clusters.cell_mut(cluster).entry = after;
        }
    }

    /// The clusters of a layer that is no more. Its entries in the table stay as they are: without
    /// the layer they mean nothing.
    fn free_all(&mut self, layer: &catalog::Layer, lsn: u64) {
        for (_, cluster) in layer.map.iter() {
            self.forget_pending(cluster);
            self.clusters.quarantine(cluster, lsn);
        }
    }

    fn forget_pending(&mut self, cluster: Cluster) {
        if !self.clusters.cell(cluster).is_pending {
            return;
        }
        self.commit.unsettle(cluster, u64::MAX);
        self.pending.remove(&cluster);
        self.clusters.cell_mut(cluster).is_pending = false;
    }

    fn find(&self, image: Image) -> Result<LayerId, Error> {
        match image {
            Image::Replica(replica) => {
                self.catalog.replicas.get(&replica).map(|replica| replica.layer)
            }
            Image::Snapshot(replica, snapshot) => self.snapshot_layer(Some(replica), snapshot),
        }
        .ok_or(Error::NotFound)
    }

    /// Of a snapshot that somebody may still ask for.
    fn snapshot_layer(&self, of: Option<ReplicaId>, id: SnapshotId) -> Option<LayerId> {
        let mut layers = self.catalog.layers.iter();
        let found = layers.find(|(_, layer)| {
            layer.frozen.as_ref().is_some_and(|frozen| {
                let is_of = of.is_none_or(|replica| replica == frozen.replica);
                !frozen.discarded && is_of && frozen.snapshot == id
            })
        });
        found.map(|(id, _)| *id)
    }

    /// Past its end a snapshot reads as zeros: the volume may have grown since.
    fn check_image(&self, image: Image, layer: LayerId, extent: Extent) -> Result<(), Error> {
        let end = extent.start.checked_add(extent.blocks.into());
        match image {
            Image::Replica(_) => self.check_extent(layer, extent),
            Image::Snapshot(..) => {
                let is_within = end.is_some_and(|end| end <= catalog::MOST_BLOCKS);
                if extent.blocks > 0 && is_within { Ok(()) } else { Err(Error::OutOfRange) }
            }
        }
    }

    fn check_extent(&self, layer: LayerId, extent: Extent) -> Result<(), Error> {
        check_within(self.catalog.layers.get(&layer).ok_or(Error::NotFound)?, extent)
    }
}

fn check_within(layer: &catalog::Layer, extent: Extent) -> Result<(), Error> {
    let end = extent.start.checked_add(extent.blocks.into());
    let is_within = extent.blocks > 0 && end.is_some_and(|end| end <= layer.blocks);
    if is_within { Ok(()) } else { Err(Error::OutOfRange) }
}

/// The clusters that an extent touches; it lies within a replica.
fn clusters_of(extent: Extent) -> Range<u32> {
    let at = |block: u64| catalog::clusters(block);
    if extent.blocks == 0 {
        return 0..0;
    }
    at(extent.start / CLUSTER * CLUSTER)..at(extent.end())
}

/// The part of an extent that lies in one cluster: which pages, and where it begins in the extent.
#[derive(Clone, Copy, Debug)]
struct Slice {
    logical: u32,
    first: u8,
    count: u8,
    /// In blocks from the extent's start.
    at: u32,
}

impl Slice {
    fn pages(self) -> u64 {
        mask(self.first, self.count)
    }
}

/// `count` pages from `first` on, as bits.
fn mask(first: u8, count: u8) -> u64 {
    let ones = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    ones << first
}

fn slices(extent: Extent) -> impl Iterator<Item = Slice> {
    let mut at = extent.start;
    core::iter::from_fn(move || {
        (at < extent.end()).then(|| {
            let slice = slice_at(extent, at);
            at += u64::from(slice.count);
            slice
        })
    })
}

/// The one that begins with this block of the extent.
fn slice_at(extent: Extent, at: u64) -> Slice {
    let first = u8::try_from(at % CLUSTER).expect("below 64");
    let count = (CLUSTER - at % CLUSTER).min(extent.end() - at);
    Slice {
        logical: u32::try_from(at / CLUSTER).expect("a replica is within its largest size"),
        first,
        count: u8::try_from(count).expect("at most 64"),
        at: u32::try_from(at - extent.start).expect("within the extent"),
    }
}

/// Runs of set bits: first and count, lowest first.
fn runs(mut pages: u64) -> impl Iterator<Item = (u8, u8)> {
    core::iter::from_fn(move || {
        (pages != 0).then(|| {
            let first = pages.trailing_zeros();
            let count = (pages >> first).trailing_ones();
            pages &= if first + count >= 64 { 0 } else { u64::MAX << (first + count) };
            let narrow = |bits: u32| u8::try_from(bits).expect("at most 64");
            (narrow(first), narrow(count))
        })
    })
}

const fn bytes(blocks: u64) -> u64 {
    blocks * BLOCK as u64
}

fn new_op(request: Option<RequestId>, scope: Option<Scope>, work: Work) -> Op {
    Op { request, scope, is_running: false, work }
}

/// Requests that wait for one thing or another, for tests of its emptiness.
impl Pool {
    /// Nothing is under way: every request was answered and no work of its own is left.
    pub fn is_idle(&self) -> bool {
        self.ops.len() == 0 && self.ios.len() == 0 && self.out.is_empty() && self.log.is_idle()
    }

    fn waiting(&self) -> Vec<RequestId> {
        self.ops.iter().filter_map(|(_, op)| op.request).collect()
    }
}
