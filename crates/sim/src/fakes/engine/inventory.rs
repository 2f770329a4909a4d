//! The truth of one machine, told.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Bytes, Epoch, Inventory, NodePart, PoolHealth, PoolSeen, ReplicaHealth, ReplicaId, ReplicaSeen,
    Roster, SnapshotSeen,
};

use super::{Engine, PoolState};
use crate::fakes::disk::{Disk, Disks, PoolDisk, ReplicaDisk};

impl Engine {
    pub fn inventory(&mut self, disks: &Disks) -> Inventory {
        self.sequence += 1;
        Inventory {
            node: self.node,
            instance: self.instance,
            generation: self.generation,
            sequence: self.sequence,
            pools: self.pools_seen(disks),
            replicas: self.replicas_seen(disks),
            targets: self.targets.iter().map(|(id, target)| (*id, target.seen())).collect(),
            devices: Vec::new(),
        }
    }

    /// Pools that the config names, and those that a scan finds besides.
    fn pools_seen(&self, disks: &Disks) -> BTreeMap<model::PoolId, PoolSeen> {
        let mut seen = BTreeMap::new();
        for disk in disks.by_path.values() {
            if let Some(pool) = disk.readable() {
                seen.insert(pool.id, pool_seen(PoolHealth::Online, disk, pool));
            }
        }
        for (id, state) in &self.pools {
            let health = match state {
                PoolState::Online => PoolHealth::Online,
                PoolState::Importing => PoolHealth::Importing,
                PoolState::Faulted => PoolHealth::Faulted { reason: "the device failed".into() },
                PoolState::Missing => PoolHealth::Missing,
                PoolState::Refused(reason) => PoolHealth::Refused { reason: reason.clone() },
            };
            let pool = match disks.disk_of(*id).and_then(|disk| Some((disk, disk.pool.as_ref()?))) {
                Some((disk, pool)) => pool_seen(health, disk, pool),
                None => nothing_seen(health),
            };
            seen.insert(*id, pool);
        }
        seen
    }

    fn replicas_seen(&self, disks: &Disks) -> BTreeMap<ReplicaId, ReplicaSeen> {
        let mut seen = BTreeMap::new();
        // Replicas of a pool that is being imported are unknown: they are not listed yet.
        let listed = disks.readable().filter(|pool| {
            self.pools.get(&pool.id).is_none_or(|state| *state == PoolState::Online)
        });
        for pool in listed {
            for (id, replica) in &pool.replicas {
                seen.insert(*id, replica_seen(pool, replica));
            }
        }
        for part in self.parts.values() {
            let NodePart::Volume(part) = part else { continue };
            for item in &part.replicas {
                let health = if self.missing.contains(&item.id) {
                    ReplicaHealth::Missing
                } else if let Some(reason) = self.refused.get(&item.id) {
                    ReplicaHealth::Refused { reason: reason.clone() }
                } else {
                    continue;
                };
                let absent = ReplicaSeen {
                    volume: part.volume,
                    pool: item.pool,
                    health,
                    size: Bytes::ZERO,
                    epoch: Epoch::ZERO,
                    roster: Roster::ZERO,
                    members: BTreeMap::new(),
                    birth: None,
                    snapshots: BTreeMap::new(),
                    carried: None,
                    instance: None,
                };
                seen.insert(item.id, absent);
            }
        }
        seen
    }

    /// Replicas here that its config does not name.
    pub fn orphans(&self, disks: &Disks) -> BTreeSet<ReplicaId> {
        let mut found: BTreeSet<_> =
            disks.readable().flat_map(|pool| pool.replicas.keys().copied()).collect();
        for part in self.parts.values() {
            if let NodePart::Volume(part) = part {
                part.replicas.iter().for_each(|item| {
                    found.remove(&item.id);
                });
            }
        }
        found
    }
}

fn pool_seen(health: PoolHealth, disk: &Disk, pool: &PoolDisk) -> PoolSeen {
    PoolSeen {
        health,
        capacity: disk.capacity,
        used: disk.used(),
        reserved: pool.reserved(),
        mark: pool.mark,
        carried: pool.carried.clone(),
    }
}

fn nothing_seen(health: PoolHealth) -> PoolSeen {
    let (capacity, used, reserved) = (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO);
    PoolSeen { health, capacity, used, reserved, mark: None, carried: None }
}

fn replica_seen(pool: &PoolDisk, replica: &ReplicaDisk) -> ReplicaSeen {
    let snapshots = replica.snapshots.iter().map(|(id, snapshot)| {
        let (name, attempt, size) = (snapshot.name.clone(), snapshot.attempt, snapshot.size);
        (*id, SnapshotSeen { name, attempt, size })
    });
    ReplicaSeen {
        volume: replica.volume,
        pool: pool.id,
        health: ReplicaHealth::Online,
        size: replica.size,
        epoch: replica.epoch,
        roster: replica.roster,
        members: replica.members.clone(),
        birth: replica.birth,
        snapshots: snapshots.collect(),
        carried: pool.volumes.get(&replica.volume).cloned(),
        instance: None,
    }
}
