//! What survives a process: disks, and how often the machine was switched on.

use std::collections::{BTreeMap, BTreeSet};

use block::Buffer;
use model::{Bytes, Millis, PoolId};
use pool::{Crash, Io, IoError, IoId, SimDisk};
use storage_node::{DiskIoId, DiskOpenError, NodeMutation};

use crate::{
    Ctx, Timer,
    fakes::disk::{Condition, Disks},
};

/// The system's number for an input/output error.
pub(super) const EIO: IoError = IoError { code: 5 };
/// In milliseconds.
const DISK_TAKES_MAX: u64 = 3;

#[derive(Debug, Default)]
pub struct Hardware {
    /// A rule that the nodes on it lack.
    pub(super) mutation: Option<NodeMutation>,
    disks: BTreeMap<String, HardDisk>,
    /// A different one for each machine and each time that it was switched on.
    boot: u128,
    /// Operations that never reach a disk which was pulled under them.
    failed: Vec<DiskIoId>,
}

#[derive(Debug)]
struct HardDisk {
    disk: SimDisk,
    condition: Condition,
    /// Counts how often it was plugged in: who has an earlier one open has nothing.
    plugged: u32,
    /// Nothing is ended for now.
    hangs: bool,
    in_flight: BTreeSet<DiskIoId>,
    /// Somebody looks at it soon.
    is_armed: bool,
}

/// An operation of a disk that is over.
pub(super) type Completed = (DiskIoId, Result<Option<Buffer>, IoError>);

impl Hardware {
    /// Blank disks behind the same paths and of the same sizes.
    pub fn new(mutation: Option<NodeMutation>, machine: u128, disks: &Disks) -> Self {
        let blank = |(path, disk): (&String, &crate::fakes::disk::Disk)| {
            (path.clone(), HardDisk::blank(disk.capacity, seed(path)))
        };
        let disks = disks.by_path.iter().map(blank).collect();
        Self { mutation, disks, boot: machine << 32, failed: Vec::new() }
    }

    pub(super) const fn boot(&self) -> pool::Boot {
        pool::Boot(self.boot)
    }

    pub(super) fn disk(&self, path: &str) -> Option<&SimDisk> {
        self.disks.get(path).map(|disk| &disk.disk)
    }

    /// Whoever opened it then has it still.
    pub(super) fn is_plugged(&self, path: &str, then: u32) -> bool {
        self.disks.get(path).is_some_and(|disk| disk.plugged == then)
    }

    /// The process is gone; with the power, so is what was not synced.
    pub fn crash(&mut self, crash: Crash) {
        for disk in self.disks.values_mut() {
            disk.end(crash);
        }
        if crash == Crash::Power {
            self.boot += 1;
        }
    }

    /// A new process has heard of nothing.
    pub(super) fn disarm(&mut self) {
        self.failed.clear();
        self.disks.values_mut().for_each(|disk| disk.is_armed = false);
    }

    /// Brings a disk into this condition.
    pub fn set_condition(&mut self, path: &str, condition: Condition) {
        let Some(disk) = self.disks.get_mut(path) else { return };
        let was = core::mem::replace(&mut disk.condition, condition);
        if was == Condition::Absent || condition == Condition::Absent {
            self.failed.extend(core::mem::take(&mut disk.in_flight));
            disk.end(Crash::Process);
            disk.plugged += 1;
        }
        disk.apply_condition();
    }

    pub fn set_hanging(&mut self, path: &str, hangs: bool) {
        if let Some(disk) = self.disks.get_mut(path) {
            disk.hangs = hangs;
        }
    }

    /// Another disk of the same size, which was never used.
    pub fn swap(&mut self, path: &str) {
        let Some(disk) = self.disks.get_mut(path) else { return };
        self.failed.extend(core::mem::take(&mut disk.in_flight));
        let plugged = disk.plugged + 1;
        let blank = SimDisk::sparse(disk.disk.blocks(), seed(path) + u64::from(plugged));
        *disk = HardDisk { disk: blank, plugged, ..HardDisk::blank(Bytes::ZERO, 0) };
    }

    /// Pools that a scan finds.
    pub(super) fn pools_found(&self) -> Vec<(PoolId, String)> {
        let found = self.disks.iter().filter(|(_, disk)| disk.condition == Condition::Fine);
        found.filter_map(|(path, disk)| Some((disk.pool()?, path.clone()))).collect()
    }

    pub(super) fn open(&self, paths: &[String]) -> Result<(String, u32, u64), DiskOpenError> {
        let reason = || format!("{} cannot be opened", paths.join(", "));
        let [path] = paths else { return Err(DiskOpenError::Refused { reason: reason() }) };
        match self.disks.get(path) {
            Some(disk) if disk.condition != Condition::Absent => {
                Ok((path.clone(), disk.plugged, disk.disk.blocks()))
            }
            _ => Err(DiskOpenError::Missing { reason: reason() }),
        }
    }

    /// False if there is no such disk any more.
    pub(super) fn begin(
        &mut self,
        ctx: &mut Ctx<'_>,
        path: &str,
        plugged: u32,
        io: DiskIoId,
        op: Io,
    ) -> bool {
        let index = self.disks.keys().position(|key| key == path);
        let disk = self.disks.get_mut(path).filter(|disk| disk.plugged == plugged);
        let Some((disk, index)) = disk.filter(|d| d.condition != Condition::Absent).zip(index)
        else {
            return false;
        };
        disk.in_flight.insert(io);
        disk.disk.submit(IoId(io.0.into()), op);
        disk.arm(ctx, index);
        true
    }

    /// What the disk of this number has done by now, in any order.
    pub(super) fn complete(&mut self, ctx: &mut Ctx<'_>, index: usize) -> Vec<Completed> {
        let Some(disk) = self.disks.values_mut().nth(index) else { return Vec::new() };
        disk.is_armed = false;
        let mut completed = Vec::new();
        while !disk.hangs {
            // Some take a little longer than others.
            if ctx.random.chance(100) && !completed.is_empty() {
                break;
            }
            let Some((IoId(id), result)) = disk.disk.complete() else { break };
            let io = DiskIoId(u32::try_from(id).unwrap_or(u32::MAX));
            disk.in_flight.remove(&io);
            completed.push((io, result));
        }
        disk.arm(ctx, index);
        completed
    }

    /// Operations that failed because their disk went away. Disks that work again go on.
    pub(super) fn failed_at_once(&mut self, ctx: &mut Ctx<'_>) -> Vec<DiskIoId> {
        for (index, disk) in self.disks.values_mut().enumerate() {
            disk.arm(ctx, index);
        }
        core::mem::take(&mut self.failed)
    }
}

impl HardDisk {
    /// Somewhat larger than the pool on it is to be, for the pool's own tables.
    fn blank(capacity: Bytes, seed: u64) -> Self {
        let block = block::BLOCK as u64;
        let blocks = capacity.0 / block + super::SIZES.journal + 2 * super::SIZES.catalog + 256;
        Self {
            disk: SimDisk::sparse(blocks, seed),
            condition: Condition::Fine,
            plugged: 0,
            hangs: false,
            in_flight: BTreeSet::new(),
            is_armed: false,
        }
    }

    fn end(&mut self, crash: Crash) {
        self.disk.crash(crash);
        self.in_flight.clear();
        self.apply_condition();
    }

    fn apply_condition(&mut self) {
        let fails = self.condition == Condition::Faulted;
        self.disk.fail_reads(fails);
        self.disk.fail_syncs(fails);
        self.disk.fail_writes(fails.then_some(0));
    }

    fn arm(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        if !self.hangs && !self.is_armed && self.disk.in_flight() > 0 {
            self.is_armed = true;
            let span = Millis(ctx.random.between(1, DISK_TAKES_MAX));
            ctx.wake_in(span, Timer::Disk(index));
        }
    }

    fn pool(&self) -> Option<PoolId> {
        let size = self.disk.blocks() * block::BLOCK as u64;
        let len = usize::try_from(size).map_or(pool::PROBED, |size| size.min(pool::PROBED));
        let head = self.disk.read(0, len)?;
        let tail = self.disk.read(size - u64::try_from(len).ok()?, len)?;
        match pool::probe(head.bytes(), tail.bytes())? {
            pool::Carries::Pool(id) => Some(id),
            _ => None,
        }
    }
}

/// A number for each path.
fn seed(path: &str) -> u64 {
    path.bytes().fold(17, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}
