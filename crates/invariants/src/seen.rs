//! What is really there: the machines themselves, not what anybody reported of them.

use alloc::collections::{BTreeMap, BTreeSet};

use model::{
    Bytes, Epoch, HostId, Inventory, NodeId, PoolHealth, PoolId, PoolSeen, ReplicaHealth,
    ReplicaId, ReplicaSeen, VolumeId,
};

/// A view of the truth at one moment, lent by the simulator.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Taken fresh from each running engine. A node whose engine does not run has none: what its
    /// disks hold cannot be acted on and is not judged.
    pub inventories: &'a BTreeMap<NodeId, Inventory>,
    /// Nodes that were up and in touch with the leader for long enough (`limits::DEAD_AFTER`) that
    /// nobody may judge them dead. Leave a node out when in doubt: promises about order across
    /// nodes hold only for nodes that answer.
    pub steady: &'a BTreeSet<NodeId>,
    /// Hosts that were up and in touch with everybody for as long.
    pub steady_hosts: &'a BTreeSet<HostId>,
    /// Bytes that may be promised per byte of capacity, thin volumes counted whole.
    pub overcommit: u64,
}

impl<'a> Seen<'a> {
    /// A pool that is open and can be looked into.
    pub(crate) fn pool(&self, node: NodeId, pool: PoolId) -> Option<&'a PoolSeen> {
        let seen = self.inventories.get(&node)?.pools.get(&pool)?;
        (seen.health == PoolHealth::Online).then_some(seen)
    }

    /// A replica that is really in an open pool.
    pub(crate) fn replica(
        &self,
        node: NodeId,
        pool: PoolId,
        replica: ReplicaId,
    ) -> Option<&'a ReplicaSeen> {
        self.pool(node, pool)?;
        let seen = self.inventories.get(&node)?.replicas.get(&replica)?;
        (seen.health == ReplicaHealth::Online && seen.pool == pool).then_some(seen)
    }

    /// A target of that epoch lives in the node's engine, in whatever health.
    pub(crate) fn has_target(&self, node: NodeId, volume: VolumeId, epoch: Epoch) -> bool {
        let inventory = self.inventories.get(&node);
        inventory
            .and_then(|inventory| inventory.targets.get(&volume))
            .is_some_and(|target| target.epoch == epoch)
    }

    pub(crate) fn promised_most(&self, capacity: Bytes) -> Bytes {
        Bytes(capacity.0.saturating_mul(self.overcommit))
    }
}
