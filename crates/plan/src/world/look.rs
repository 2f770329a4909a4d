//! Looking at the outside through rule 5: unknown is a value.

use model::{
    Epoch, HostId, HostInventory, Key, Liveness, NodeId, Observed, PoolHealth, PoolId, PoolSeen,
    Replica, ReplicaHealth, ReplicaSeen, Revision, Target, TargetSeen, Volume,
};

use super::World;

/// What can be said of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    /// Its node, its pool and itself are observed.
    Usable(&'a ReplicaSeen),
    /// The engine was told to make it and has not reported it yet.
    Unmade,
    Unknown,
    Lost(Loss),
}

/// Why a copy cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    NodeDead,
    PoolFaulted,
    /// The disks are there and the pool is not: swapped or wiped.
    PoolMissing,
    ReplicaMissing,
    /// The engine could not make it.
    Refused,
    /// A person said that the node or pool will never return.
    Forgotten,
}

impl Loss {
    /// Whether the copy may come back with its data.
    pub const fn may_return(self) -> bool {
        matches!(self, Self::NodeDead | Self::PoolFaulted)
    }
}

impl core::fmt::Display for Loss {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::NodeDead => "its node is dead",
            Self::PoolFaulted => "its pool failed",
            Self::PoolMissing => "its pool is missing from its disks",
            Self::ReplicaMissing => "it is missing from its pool",
            Self::Refused => "its engine could not make it",
            Self::Forgotten => "its node or pool was forgotten",
        })
    }
}

impl World {
    pub fn liveness(&self, node: NodeId) -> Liveness {
        self.nodes.get(&node).map_or(Liveness::Unknown, |view| view.liveness)
    }

    /// A host without a record will never answer; one whose record does not decode may.
    pub fn host_liveness(&self, host: HostId) -> Liveness {
        match self.hosts.get(&host) {
            Some(view) => view.liveness,
            None if self.unreadable(&Key::Host(host)).is_some() => Liveness::Unknown,
            None => Liveness::Dead,
        }
    }

    /// A pool as its living engine reports it.
    pub fn pool_seen(&self, pool: PoolId) -> Observed<&PoolSeen> {
        let Some(view) = self.pools.get(&pool) else { return Observed::Unknown };
        if self.liveness(view.record.spec.node) != Liveness::Alive {
            return Observed::Unknown;
        }
        match &view.seen {
            Some(seen) => Observed::Present(seen),
            None if self.generation(view.record.spec.node) >= view.record.meta.revision => {
                Observed::Absent
            }
            None => Observed::Unknown,
        }
    }

    /// The newest config that a living node's registered process has applied.
    pub fn generation(&self, node: NodeId) -> Revision {
        self.nodes
            .get(&node)
            .filter(|view| view.liveness == Liveness::Alive)
            .and_then(|view| view.inventory.as_ref())
            .map_or(Revision::ZERO, |inventory| inventory.generation)
    }

    /// A person said that it will never return, or its node or pool has no record at all. While a
    /// record somewhere does not decode, a missing one proves nothing.
    pub fn is_forgotten(&self, replica: &Replica) -> bool {
        let missing = self.quarantined.is_empty();
        self.nodes.get(&replica.node).map_or(missing, |view| view.record.spec.forgotten)
            || self.pools.get(&replica.pool).map_or(missing, |view| view.record.spec.forgotten)
    }

    pub fn standing(&self, volume: &Volume, replica: &Replica) -> Standing<'_> {
        if self.is_forgotten(replica) {
            return Standing::Lost(Loss::Forgotten);
        }
        match self.liveness(replica.node) {
            Liveness::Unknown => return Standing::Unknown,
            Liveness::Dead => return Standing::Lost(Loss::NodeDead),
            Liveness::Alive => {}
        }
        let pool = match self.pool_seen(replica.pool) {
            Observed::Unknown => return Standing::Unknown,
            Observed::Absent => return Standing::Lost(Loss::PoolMissing),
            Observed::Present(pool) => pool,
        };
        match pool.health {
            PoolHealth::Online => {}
            PoolHealth::Importing => return Standing::Unknown,
            PoolHealth::Faulted { .. } => return Standing::Lost(Loss::PoolFaulted),
            PoolHealth::Missing | PoolHealth::Refused { .. } => {
                return Standing::Lost(Loss::PoolMissing);
            }
        }
        let inventory = self.nodes.get(&replica.node).and_then(|view| view.inventory.as_ref());
        let Some(inventory) = inventory else { return Standing::Unknown };
        match inventory.replicas.get(&replica.id) {
            Some(seen) => match seen.health {
                ReplicaHealth::Online => Standing::Usable(seen),
                ReplicaHealth::Missing => Standing::Lost(Loss::ReplicaMissing),
                ReplicaHealth::Refused { .. } => Standing::Lost(Loss::Refused),
            },
            // Absence counts only in an inventory at or past the record it judges.
            None if inventory.generation < volume.meta.revision => Standing::Unknown,
            None if replica.stage == model::ReplicaStage::Creating => Standing::Unmade,
            None => Standing::Lost(Loss::ReplicaMissing),
        }
    }

    /// The volume's target as its node reports it. A report of another epoch is about another
    /// target.
    pub fn target_seen(&self, volume: &Volume, target: &Target) -> Observed<&TargetSeen> {
        let Some(view) = self.nodes.get(&target.node) else { return Observed::Unknown };
        if view.liveness != Liveness::Alive || view.record.layout.instance != Some(target.instance)
        {
            return Observed::Unknown;
        }
        let Some(inventory) = &view.inventory else { return Observed::Unknown };
        match inventory.targets.get(&volume.meta.id) {
            Some(seen) if seen.epoch == target.epoch => Observed::Present(seen),
            _ if inventory.generation >= volume.meta.revision => Observed::Absent,
            _ => Observed::Unknown,
        }
    }

    /// A living host's report that has caught up with this revision.
    pub fn host_seen(&self, host: HostId, at: Revision) -> Observed<&HostInventory> {
        let Some(view) = self.hosts.get(&host) else {
            // A host that nobody could read of may still have its paths.
            let is_gone = self.unreadable(&Key::Host(host)).is_none();
            return if is_gone { Observed::Absent } else { Observed::Unknown };
        };
        match &view.inventory {
            Some(inventory) if view.liveness == Liveness::Alive && inventory.generation >= at => {
                Observed::Present(inventory)
            }
            _ => Observed::Unknown,
        }
    }

    /// Whether a copy has durably admitted this epoch, so that no older target can change it.
    pub fn admits(&self, seen: &ReplicaSeen, epoch: Epoch) -> bool {
        seen.epoch >= epoch
    }
}
