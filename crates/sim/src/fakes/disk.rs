//! What survives the death of a process: disks, and the pools on them.
//!
//! A write is durable at once. Flushes, journals and torn pages are the business of the real pool.

use std::collections::BTreeMap;

use model::{
    AttemptId, Bytes, Epoch, Mark, NodeId, Pool, PoolId, ReplicaId, Revision, Roster, SnapshotId,
    Volume, VolumeId,
};

/// Blocks of every volume: enough that writes to different blocks overlap, few enough to compare
/// all of them after every event.
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
    /// Space that something else took: makes the pool full.
    pub filler: Bytes,
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
    pub mark: Option<Mark>,
    pub carried: Option<Box<Pool>>,
    pub replicas: BTreeMap<ReplicaId, ReplicaDisk>,
    pub volumes: BTreeMap<VolumeId, (Revision, Box<Volume>)>,
}

#[derive(Clone, Debug)]
pub struct ReplicaDisk {
    pub volume: VolumeId,
    pub size: Bytes,
    pub thin: bool,
    /// The highest epoch admitted: older sessions are refused.
    pub epoch: Epoch,
    /// The node whose target may use that epoch, once it is known.
    pub admitted: Option<NodeId>,
    pub roster: Roster,
    pub members: BTreeMap<ReplicaId, bool>,
    pub birth: Option<Mark>,
    pub blocks: [u64; BLOCKS],
    pub snapshots: BTreeMap<SnapshotId, SnapshotDisk>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotDisk {
    pub name: String,
    pub attempt: AttemptId,
    pub size: Bytes,
    pub blocks: [u64; BLOCKS],
}

impl Disk {
    pub fn blank(capacity: Bytes) -> Self {
        Self { capacity, condition: Condition::Fine, pool: None, filler: Bytes::ZERO }
    }

    /// The pool on it, if it can be read.
    pub fn readable(&self) -> Option<&PoolDisk> {
        self.pool.as_ref().filter(|_| self.condition == Condition::Fine)
    }

    pub fn used(&self) -> Bytes {
        let taken: u64 = self.pool.iter().map(|pool| pool.used().0).sum();
        Bytes(taken).saturating_add(self.filler)
    }

    pub fn free(&self) -> Bytes {
        self.capacity.saturating_sub(self.used())
    }
}

impl Disks {
    pub fn pool(&self, id: PoolId) -> Option<&PoolDisk> {
        self.disk_of(id).and_then(Disk::readable)
    }

    pub fn pool_mut(&mut self, id: PoolId) -> Option<&mut PoolDisk> {
        let disk = self.by_path.values_mut().find(|disk| disk.holds(id))?;
        disk.pool.as_mut().filter(|_| disk.condition == Condition::Fine)
    }

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

    /// Whatever the condition of its disk: for judges, not for engines.
    pub fn replica(&self, id: ReplicaId) -> Option<&ReplicaDisk> {
        self.by_path
            .values()
            .filter_map(|disk| disk.pool.as_ref())
            .find_map(|p| p.replicas.get(&id))
    }
}

impl Disk {
    fn holds(&self, id: PoolId) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.id == id)
    }
}

impl PoolDisk {
    pub fn made(id: PoolId) -> Self {
        Self { id, mark: None, carried: None, replicas: BTreeMap::new(), volumes: BTreeMap::new() }
    }

    pub fn used(&self) -> Bytes {
        Bytes(self.replicas.values().map(|replica| replica.used().0).sum())
    }

    pub fn reserved(&self) -> Bytes {
        let thick = self.replicas.values().filter(|replica| !replica.thin);
        Bytes(thick.map(|replica| replica.size.0).sum())
    }

    /// Remembers the newest point of history that it has seen. Another era replaces what was.
    pub fn mark_at(&mut self, seen: Mark) {
        let newer =
            self.mark.is_none_or(|mark| mark.era != seen.era || mark.revision < seen.revision);
        if newer {
            self.mark = Some(seen);
        }
    }
}

impl ReplicaDisk {
    /// What one block takes from the pool when it is written for the first time.
    pub fn block_size(&self) -> Bytes {
        Bytes(self.size.0 / 4)
    }

    pub fn used(&self) -> Bytes {
        let live = if self.thin {
            Bytes(self.block_size().0 * count(self.blocks.iter().filter(|value| **value != 0)))
        } else {
            self.size
        };
        // A snapshot takes space where the volume went on without it.
        let frozen = self.snapshots.values().map(|snapshot| {
            let kept = snapshot.blocks.iter().zip(&self.blocks).filter(|(old, new)| old != new);
            self.block_size().0 * count(kept)
        });
        live.saturating_add(Bytes(frozen.sum()))
    }

    /// Whether a write to this block takes space that is not yet taken.
    pub fn grows_by_writing(&self, block: usize) -> bool {
        let value = self.blocks[block];
        let shared = self.snapshots.values().any(|s| s.blocks[block] == value && value != 0);
        (self.thin && value == 0) || shared
    }
}

fn count(items: impl Iterator) -> u64 {
    u64::try_from(items.count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    fn replica(thin: bool) -> ReplicaDisk {
        ReplicaDisk {
            volume: names::volume("v1"),
            size: Bytes::gib(4),
            thin,
            epoch: Epoch::ZERO,
            admitted: None,
            roster: Roster::ZERO,
            members: BTreeMap::new(),
            birth: None,
            blocks: [0; BLOCKS],
            snapshots: BTreeMap::new(),
        }
    }

    #[test]
    fn thin_space_is_taken_by_writing_and_thick_space_by_promising() {
        let mut thin = replica(true);
        assert_eq!((thin.used(), replica(false).used()), (Bytes::ZERO, Bytes::gib(4)));
        assert!(thin.grows_by_writing(2));
        thin.blocks[2] = 7;
        assert_eq!(thin.used(), Bytes::gib(1));
        assert!(!thin.grows_by_writing(2));
    }

    #[test]
    fn a_snapshot_takes_space_once_the_volume_goes_on() {
        let mut replica = replica(true);
        replica.blocks[0] = 5;
        let frozen = SnapshotDisk {
            name: "s1".into(),
            attempt: names::attempt("a1"),
            size: replica.size,
            blocks: replica.blocks,
        };
        replica.snapshots.insert(names::snapshot("s1"), frozen);
        assert_eq!(replica.used(), Bytes::gib(1));
        assert!(replica.grows_by_writing(0));
        replica.blocks[0] = 6;
        assert_eq!(replica.used(), Bytes::gib(2));
    }
}
