//! What must hold: in each turn of a node, after each change of the record, after each import, and
//! at rest.

use std::collections::{BTreeMap, BTreeSet};

use block::Buffer;
use model::{Epoch, Inventory, Membership, ReplicaId, Roster, SnapshotId, TargetSeen};
use pool::{Fsck, FsckStep, Image, Io, Out, Pool, Request, RequestId};
use storage_node::AuditEvent;

use super::{
    node::{MAIN, SECOND},
    world::{BLOCKS, NODES, Stage, WINDOWS, World, instance, pool_id, replica_id},
};
use crate::{simulated_node::time, streams::StreamEnd};

/// What a node shows of the volume, and since when that differs from what it announced.
#[derive(Debug, Default)]
pub(super) struct Reported {
    announced: Shown,
    differs_since: Option<u64>,
    /// The epoch of a target that was over when its turn ended.
    over: Option<u64>,
    /// Of the last inventory.
    sequence: u64,
    pub(super) is_asked: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shown {
    target: Option<TargetSeen>,
    replica: Option<ShownReplica>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ShownReplica {
    epoch: Option<Epoch>,
    roster: Roster,
    members: BTreeMap<ReplicaId, bool>,
    snapshots: BTreeSet<SnapshotId>,
}

/// With the next tick at the latest.
const ANNOUNCED_WITHIN: u64 = 25_000;

impl World {
    /// Invariant 5: after a fence no older epoch changes a replica.
    pub(super) fn judge_audit(&mut self, node: usize, audit: &[AuditEvent]) {
        for event in audit {
            match event {
                AuditEvent::Fenced { replica, epoch } if *replica == replica_id(node) => {
                    let fenced = &mut self.nodes[node].fenced;
                    *fenced = (*fenced).max(epoch.0);
                }
                AuditEvent::Changed { replica, epoch } if *replica == replica_id(node) => {
                    let fenced = self.nodes[node].fenced;
                    let words = || format!("epoch {epoch} changes node {node}, fenced by {fenced}");
                    self.check("5", if epoch.0 < fenced { Err(words()) } else { Ok(()) });
                }
                _ => {}
            }
        }
    }

    /// What a target or a replica shows differently is announced.
    pub(super) fn judge_report(&mut self, node: usize, is_told: bool) {
        let now = self.now;
        let shown = self.shown(node);
        let it = &mut self.nodes[node];
        let over = it.target().filter(|target| target.is_over()).map(|target| target.epoch().0);
        let reported = &mut it.reported;
        if over.is_some() && reported.over != over {
            reported.over = over;
        }
        if is_told || shown == reported.announced {
            reported.differs_since = None;
            reported.announced = shown;
            return self.check("told", Ok(()));
        }
        let since = *reported.differs_since.get_or_insert(now);
        let is_late = now - since > ANNOUNCED_WITHIN;
        let words = || format!("nobody hears that {:?} became {shown:?}", reported.announced);
        let result = if is_late { Err(words()) } else { Ok(()) };
        self.check("told", result);
    }

    /// Inventories are counted, and what is out of date is the last one.
    pub(super) fn judge_outdated(&mut self, node: usize, sequence: u64) {
        let last = self.nodes[node].reported.sequence;
        let words = || format!("node {node} calls inventory {sequence} out of date after {last}");
        self.check("told", if sequence == last { Ok(()) } else { Err(words()) });
    }

    pub(super) fn judge_inventory(&mut self, node: usize, inventory: &Inventory) {
        let process = self.nodes[node].process;
        let reported = &mut self.nodes[node].reported;
        reported.is_asked = false;
        let last = std::mem::replace(&mut reported.sequence, inventory.sequence);
        let is_next = inventory.sequence == last + 1;
        let is_its = inventory.instance == instance(node, process);
        let result = (is_next && is_its).then_some(());
        self.check("told", result.ok_or_else(|| format!("node {node} tells {inventory:?}")));
    }

    fn shown(&self, node: usize) -> Shown {
        let it = &self.nodes[node];
        let target = it.target().map(mirror::Target::seen);
        let found = it.pool().and_then(|pool| Some((pool, pool.replica(replica_id(node))?)));
        let replica = found.map(|(pool, found)| {
            let of = pool.snapshots().filter(|snapshot| snapshot.replica == found.replica);
            ShownReplica {
                epoch: it.replica().and_then(mirror::Replica::admitted),
                roster: found.header.roster,
                members: found.header.members.clone(),
                snapshots: of.map(|snapshot| snapshot.snapshot).collect(),
            }
        });
        Shown { target, replica }
    }

    /// Invariant 10: a target that is over says nothing more to those whom it served.
    pub(super) fn judge_send(&mut self, node: usize, end: StreamEnd) {
        let Some(over) = self.nodes[node].reported.over else { return };
        let is_served = self.host.epoch_of(end.stream) == Some(over);
        let words = || format!("target {over} answers after its end");
        self.check("10", if is_served { Err(words()) } else { Ok(()) });
    }

    /// The record may have changed.
    pub(super) fn recorded(&mut self, before: &Membership) {
        let record = &self.store.record;
        if record.revision == before.revision {
            return;
        }
        let (epoch, lost) = (record.epoch.0, record.unflushed_lost);
        let words = describe(record);
        self.note(|| format!("the record says {words}"));
        let is_claim = before.owner.is_none() && self.store.record.owner.is_some();
        self.is_set_back &= !is_claim;
        if is_claim && lost {
            let is_lie = !self.lost_power;
            let words = || "writes are called lost though no power was".to_owned();
            self.check("1", if is_lie { Err(words()) } else { Ok(()) });
            self.oracle.lost(epoch);
        }
        if is_claim {
            self.judge_images();
        }
        for node in 0..self.copies {
            self.nodes[node].is_swapped &= self.store.record.is_recorded_healthy(replica_id(node));
        }
        let has_one = self.store.record.healthy().next().is_some();
        self.check("1", has_one.then_some(()).ok_or_else(|| "nobody is healthy".to_owned()));
        for node in 0..self.copies {
            self.judge_copy(node);
        }
    }

    /// A claim that counts on older images: on nothing else, nobody can tell; among others, nothing
    /// durable tells of writes that were not flushed.
    fn judge_images(&mut self) {
        let healthy = |node: &usize| self.store.record.is_recorded_healthy(replica_id(*node));
        let healthy: Vec<_> = (0..self.copies).filter(healthy).collect();
        let older = healthy.iter().filter(|node| self.nodes[**node].is_swapped).count();
        if older > 0 {
            self.lost_power = true;
            self.oracle.unflushed_gone();
        }
        self.is_blind |= older == healthy.len();
    }

    /// A copy that counts holds everything that was flushed.
    pub(super) fn judge_copy(&mut self, node: usize) {
        let it = &self.nodes[node];
        let is_unknown = it.is_bad || it.is_swapped || self.is_set_back;
        if !self.store.record.is_healthy(replica_id(node)) || is_unknown {
            return;
        }
        let Some((data, _)) = self.peek(node, Image::Replica(replica_id(node))) else { return };
        let result = self.oracle.judge_copy(WINDOWS, &data);
        self.check("4", result.map_err(|words| format!("node {node}: {words}")));
    }

    /// Every copy is healthy, nothing is to be copied, and a target serves.
    pub(super) fn is_whole(&self) -> bool {
        let record = &self.store.record;
        let is_healthy = (0..self.copies).all(|node| record.is_healthy(replica_id(node)));
        let is_served = self.is_target_serving();
        is_healthy && is_served && self.host_is_quiet()
    }

    /// Invariants 3, 9 and 12: copies are equal, holes included.
    pub(super) fn judge_rest(&mut self) {
        let mut first: Option<(Vec<u8>, Vec<bool>)> = None;
        for node in 0..self.copies {
            let found = self.peek(node, Image::Replica(replica_id(node)));
            let result = match (&first, &found) {
                (_, None) => Err(format!("node {node} cannot be read at rest")),
                (Some((data, _)), Some((other, _))) if data != other => {
                    let at = data.iter().zip(other).position(|(a, b)| a != b).unwrap_or(0);
                    Err(format!("node {node} differs in block {} of those", at / block::BLOCK))
                }
                (Some((_, holes)), Some((_, other))) if holes != other => {
                    let at = holes.iter().zip(other).position(|(a, b)| a != b).unwrap_or(0);
                    Err(format!("node {node} has other holes, block {at}"))
                }
                _ => Ok(()),
            };
            self.check("3", result);
            first = first.or(found);
            self.judge_copy(node);
        }
        self.judge_resting_snapshots();
    }

    /// Invariant 7: pools are left clean, and what they say of their space is true.
    pub(super) fn judge_pools(&mut self) {
        let now = self.now;
        self.stage = Stage::Stopping;
        for node in 0..NODES {
            let pools = [MAIN, SECOND].map(|disk| pool_id(node, disk));
            for pool in pools {
                let running = self.nodes[node].running.as_ref();
                let Some(pool) = running.and_then(|it| it.machine.pool(pool)) else { continue };
                let (walked, used) = (pool.walked(), pool.stats().used);
                let words = || format!("node {node} counts {used} as used and has {walked}");
                self.check("7", if walked == used { Ok(()) } else { Err(words()) });
            }
            if let Some(running) = &mut self.nodes[node].running {
                running.machine.stop(time(now));
            }
            self.turn(node);
        }
        self.run_until(self.now + 5_000_000);
        for node in 0..NODES {
            for disk in [MAIN, SECOND] {
                let result = self.fsck(node, disk);
                self.check("7", result.map_err(|words| format!("fsck of node {node}: {words}")));
            }
        }
    }

    /// What the windows of an image read as now, and where the whole has holes; nothing while that
    /// cannot be said.
    pub(super) fn peek(&self, node: usize, image: Image) -> Option<(Vec<u8>, Vec<bool>)> {
        let mut pool = self.nodes[node].pool()?.clone();
        let whole = block::Extent::new(0, u32::try_from(BLOCKS).ok()?);
        let map = pool.alloc_map(image, whole).ok()?;
        let is_hole = |(run, state): &(block::Extent, pool::PageState)| {
            let count = usize::try_from(run.blocks).unwrap_or(0);
            std::iter::repeat_n(*state == pool::PageState::Hole, count)
        };
        let holes = map.iter().flat_map(is_hole).collect();
        let mut data = Vec::new();
        for extent in WINDOWS {
            data.extend_from_slice(self.peek_window(node, &mut pool, image, *extent)?.bytes());
        }
        Some((data, holes))
    }

    fn peek_window(
        &self,
        node: usize,
        pool: &mut Pool,
        image: Image,
        extent: block::Extent,
    ) -> Option<Buffer> {
        let mine = RequestId(u64::MAX - extent.start);
        pool.submit(mine, Request::Read { image, extent });
        let bytes = self.nodes[node].disks[MAIN].disk.bytes();
        while let Some(out) = pool.poll() {
            match out {
                Out::Io { id, io: Io::Read { offset, len } } => {
                    let start = usize::try_from(offset).ok()?;
                    let data = Buffer::copy_of(bytes.get(start..start + len)?);
                    pool.io_done(id, Ok(Some(data)));
                }
                Out::Done { request, result: Ok(pool::Reply::Data(data)) } if request == mine => {
                    return Some(data);
                }
                _ => {}
            }
        }
        None
    }

    /// What a check of the whole pool says.
    fn fsck(&mut self, node: usize, disk: usize) -> Result<(), String> {
        let drive = &mut self.nodes[node].disks[disk].disk;
        let mut fsck = Fsck::new(drive.blocks());
        loop {
            match fsck.poll() {
                Some(FsckStep::Io { id, io }) => drive.submit(id, io),
                Some(FsckStep::Done(result)) => {
                    let report = result.map_err(|error| error.to_string())?;
                    let is_clean = report.is_clean && report.findings.is_empty();
                    return is_clean.then_some(()).ok_or_else(|| format!("{report:?}"));
                }
                None => match drive.complete() {
                    Some((id, result)) => fsck.io_done(id, result),
                    None => return Err("fsck waits for nothing".into()),
                },
            }
        }
    }

    pub(super) fn count_notice(&mut self, notice: &mirror::Notice) {
        use mirror::Notice;
        let kind = match notice {
            Notice::Serving => "serving",
            Notice::Lost { .. } => "lost",
            Notice::Excluded { .. } => "excluded",
            Notice::Returned { is_partial: true, .. } => "returned for a part",
            Notice::Returned { is_partial: false, .. } => "returned for all",
            Notice::Admitted { .. } => "admitted",
            Notice::SetBack { .. } => "set back",
            Notice::SelfFenced => "self-fenced",
            Notice::UnflushedLost => "unflushed lost",
            Notice::RecordOlder => "record older",
            Notice::SnapshotFailed { .. } => "snapshot failed",
            Notice::SnapshotBrought { .. } => "snapshot brought",
        };
        *self.counts.notices.entry(kind).or_default() += 1;
    }
}

fn describe(record: &Membership) -> String {
    let healthy: Vec<String> = (0..super::world::COPIES_MOST)
        .filter(|node| record.is_recorded_healthy(replica_id(*node)))
        .map(|node| node.to_string())
        .collect();
    let source =
        (0..super::world::COPIES_MOST).find(|node| record.resync_source == Some(replica_id(*node)));
    format!(
        "epoch {} roster {} healthy {} clean {} source {source:?} lost {}",
        record.epoch,
        record.roster,
        healthy.join(","),
        record.clean,
        record.unflushed_lost
    )
}
