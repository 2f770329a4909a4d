//! What judges see of disks and the pools on them, and in what condition each disk is.

use std::collections::BTreeMap;

use model::{AttemptId, Bytes, Epoch, Mark, PoolId, ReplicaId, Roster, SnapshotId, VolumeId};

/// Blocks of every volume that hosts write: enough that writes to different blocks overlap, few
/// enough to compare all of them after every event.
pub const BLOCKS: usize = 4;
/// What nobody can say of a block while a write to it is under way.
pub const UNKNOWN: u64 = u64::MAX;

/// The disks of one node, by path.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    pub by_path: BTreeMap<String, Disk>,
}

#[derive(Clone, Debug)]
pub struct Disk {
    pub capacity: Bytes,
    pub condition: Condition,
    pub pool: Option<PoolDisk>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Fine,
    /// Every access fails.
    Faulted,
    /// Not plugged in.
    Absent,
}

/// A pool as it lies on its disk.
#[derive(Clone, Debug)]
pub struct PoolDisk {
    pub id: PoolId,
    pub capacity: Bytes,
    /// Taken, or promised to thick replicas.
    pub used: Bytes,
    pub mark: Option<Mark>,
    pub replicas: BTreeMap<ReplicaId, ReplicaDisk>,
}

#[derive(Clone, Debug)]
pub struct ReplicaDisk {
    pub volume: VolumeId,
    pub size: Bytes,
    pub thin: bool,
    /// The highest epoch admitted: older sessions are refused.
    pub epoch: Epoch,
    pub roster: Roster,
    pub members: BTreeMap<ReplicaId, bool>,
    pub birth: Option<Mark>,
    pub blocks: [u64; BLOCKS],
    pub snapshots: BTreeMap<SnapshotId, SnapshotDisk>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotDisk {
    pub attempt: AttemptId,
    pub blocks: [u64; BLOCKS],
}

impl Disk {
    pub const fn blank(capacity: Bytes) -> Self {
        Self { capacity, condition: Condition::Fine, pool: None }
    }

    /// The pool on it, if it can be read.
    pub fn readable(&self) -> Option<&PoolDisk> {
        self.pool.as_ref().filter(|_| self.condition == Condition::Fine)
    }

    fn holds(&self, id: PoolId) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.id == id)
    }
}

impl Disks {
    /// The disk that carries this pool, in whatever condition.
    pub fn disk_of(&self, id: PoolId) -> Option<&Disk> {
        self.by_path.values().find(|disk| disk.holds(id))
    }

    pub fn path_of(&self, id: PoolId) -> Option<String> {
        self.by_path.iter().find(|(_, disk)| disk.holds(id)).map(|(path, _)| path.clone())
    }

    pub fn disk_of_mut(&mut self, id: PoolId) -> Option<&mut Disk> {
        self.by_path.values_mut().find(|disk| disk.holds(id))
    }

    /// Every pool that a scan finds.
    pub fn readable(&self) -> impl Iterator<Item = &PoolDisk> {
        self.by_path.values().filter_map(Disk::readable)
    }

    /// Whatever the condition of its disk.
    pub fn replica(&self, id: ReplicaId) -> Option<&ReplicaDisk> {
        let pools = self.by_path.values().filter_map(|disk| disk.pool.as_ref());
        pools.into_iter().find_map(|pool| pool.replicas.get(&id))
    }
}

impl PoolDisk {
    pub fn free(&self) -> Bytes {
        self.capacity.saturating_sub(self.used)
    }
}
