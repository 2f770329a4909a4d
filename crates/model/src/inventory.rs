//! What an engine or a host reports: the truth of its machine, at one moment.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use serde::{Deserialize, Serialize};

use crate::{
    AttemptId, BlockDevice, Bytes, Epoch, HostId, InstanceId, Mark, NodeId, PathSeen, Pool, PoolId,
    ReplicaId, Revision, Roster, SnapshotId, Volume, VolumeId,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    pub node: NodeId,
    pub instance: InstanceId,
    /// The newest config that was applied whole; zero before the first.
    pub generation: Revision,
    /// Counts the inventories of this instance: a late one is thrown away.
    pub sequence: u64,
    pub pools: BTreeMap<PoolId, PoolSeen>,
    pub replicas: BTreeMap<ReplicaId, ReplicaSeen>,
    pub targets: BTreeMap<VolumeId, TargetSeen>,
    /// The machine's disks. They change seldom: only whole inventories bring them.
    #[serde(default)]
    pub devices: Vec<BlockDevice>,
}

/// What changed since an earlier inventory of the same instance: `None` for what is no longer
/// there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub node: NodeId,
    pub instance: InstanceId,
    pub generation: Revision,
    /// The inventory it adds to; with another one a whole inventory is awaited.
    pub base: u64,
    pub sequence: u64,
    pub pools: BTreeMap<PoolId, Option<PoolSeen>>,
    pub replicas: BTreeMap<ReplicaId, Option<ReplicaSeen>>,
    pub targets: BTreeMap<VolumeId, Option<TargetSeen>>,
}

impl Difference {
    /// What changed between two inventories of one process.
    pub fn between(old: &Inventory, new: &Inventory) -> Self {
        Self {
            node: new.node,
            instance: new.instance,
            generation: new.generation,
            base: old.sequence,
            sequence: new.sequence,
            pools: news(&old.pools, &new.pools),
            replicas: news(&old.replicas, &new.replicas),
            targets: news(&old.targets, &new.targets),
        }
    }

    /// Nothing but the count.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.replicas.is_empty() && self.targets.is_empty()
    }
}

fn news<K: Ord + Copy, V: Clone + PartialEq>(
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
) -> BTreeMap<K, Option<V>> {
    let gone = old.keys().filter(|key| !new.contains_key(key)).map(|key| (*key, None));
    let other = new.iter().filter(|(key, value)| old.get(key) != Some(value));
    gone.chain(other.map(|(key, value)| (*key, Some(value.clone())))).collect()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSeen {
    pub health: PoolHealth,
    pub capacity: Bytes,
    /// Taken by data, metadata and thick reservations.
    pub used: Bytes,
    /// The thick reservations among it.
    pub reserved: Bytes,
    /// The newest history of a store that it has seen; `None` for one that never heard of any.
    pub mark: Option<Mark>,
    /// What the pool keeps of its own record, for recovery.
    pub carried: Option<Box<Pool>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolHealth {
    Online,
    /// Journal replay or scan is running: its replicas are unknown, not absent.
    Importing,
    /// The device failed.
    Faulted {
        reason: String,
    },
    /// It must exist, and its disks carry something else or nothing.
    Missing,
    /// The engine will not make or import it as told.
    Refused {
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaSeen {
    pub volume: VolumeId,
    pub pool: PoolId,
    pub health: ReplicaHealth,
    pub size: Bytes,
    /// The highest epoch that it has durably admitted: older ones are refused and drained.
    pub epoch: Epoch,
    /// Its newest roster, and who was healthy then.
    pub roster: Roster,
    pub members: BTreeMap<ReplicaId, bool>,
    /// The point of history at which it was made.
    pub birth: Option<Mark>,
    pub snapshots: BTreeMap<SnapshotId, SnapshotSeen>,
    /// What the pool keeps of the volume's record and at which revision. Whole inventories bring
    /// it, differences do not.
    pub carried: Option<(Revision, Box<Volume>)>,
    /// This import of its pool, another one after each start: a target that has only spoken with an
    /// earlier one cannot count on it.
    #[serde(default)]
    pub instance: Option<InstanceId>,
}

impl ReplicaSeen {
    /// One that holds nothing and has met nobody.
    pub const fn new(volume: VolumeId, pool: PoolId, health: ReplicaHealth) -> Self {
        Self {
            volume,
            pool,
            health,
            size: Bytes::ZERO,
            epoch: Epoch::ZERO,
            roster: Roster::ZERO,
            members: BTreeMap::new(),
            birth: None,
            snapshots: BTreeMap::new(),
            carried: None,
            instance: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplicaHealth {
    Online,
    /// It must exist and does not: never made again.
    Missing,
    /// The engine could not make it (no room, unknown origin).
    Refused {
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotSeen {
    pub name: String,
    pub attempt: AttemptId,
    pub size: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSeen {
    pub epoch: Epoch,
    pub health: TargetHealth,
    pub size: Bytes,
    /// Hosts with an open session or commands not yet drained.
    pub hosts: BTreeSet<HostId>,
    /// Every copy that is healthy or may become so. A retired one leaves the list when nothing that
    /// is under way can make it healthy any more.
    pub children: BTreeMap<ReplicaId, ChildSeen>,
    /// Snapshot attempts that could not be taken on every healthy replica, removed again.
    pub failed_snapshots: Vec<AttemptId>,
    /// Snapshot attempts that every healthy replica holds, and who they are: none of them is taken
    /// back any more. What replicas hold says less, since it may be of an attempt that fails.
    #[serde(default)]
    pub taken_snapshots: BTreeMap<AttemptId, BTreeSet<ReplicaId>>,
}

impl TargetSeen {
    /// One that has no hosts and has not spoken with its replicas.
    pub const fn new(epoch: Epoch, health: TargetHealth, size: Bytes) -> Self {
        Self {
            epoch,
            health,
            size,
            hosts: BTreeSet::new(),
            children: BTreeMap::new(),
            failed_snapshots: Vec::new(),
            taken_snapshots: BTreeMap::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TargetHealth {
    Starting,
    Serving,
    /// It saw a higher epoch and stopped by itself.
    Fenced,
    Failed {
        reason: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildSeen {
    /// Progress of a running copy, in percent.
    pub copied: Option<u8>,
    /// Its pool has no space for what it lacks.
    #[serde(default)]
    pub is_full: bool,
    /// The import that the target spoke with last, if it did.
    #[serde(default)]
    pub instance: Option<InstanceId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInventory {
    pub host: HostId,
    pub instance: InstanceId,
    pub generation: Revision,
    pub sequence: u64,
    /// Every path of every volume, the old ones too.
    pub paths: BTreeMap<VolumeId, Vec<PathSeen>>,
    pub shares: BTreeMap<VolumeId, ShareSeen>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareSeen {
    pub epoch: u32,
    pub stage: crate::ShareStage,
    pub endpoint: Option<String>,
    pub failed: Option<String>,
}
