//! The truth of this machine, told.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    Bytes, Epoch, Inventory, PoolHealth, PoolId, PoolSeen, ReplicaHealth, ReplicaId, ReplicaSeen,
    Roster, SnapshotSeen, TargetHealth, TargetItem, TargetSeen,
};
use pool::{Pool, ReplicaState};

use super::{
    Shard,
    front::Whom,
    pools::{Home, State},
    settle::Refusal,
};

impl Shard {
    pub(super) fn inventory(&mut self) -> Inventory {
        // Others may have the last one and wait to hear that it is out of date: this one tells them
        // nothing.
        self.tell_if_stale();
        self.sequence += 1;
        Inventory {
            node: self.identity.node,
            instance: self.identity.instance,
            generation: self.desired.generation(),
            sequence: self.sequence,
            pools: self.pools.homes.iter().map(|(id, home)| (*id, pool_seen(home))).collect(),
            replicas: self.replicas_seen(),
            targets: self.targets_seen(),
            // The control side adds them: reading files must not hold commands up.
            devices: Vec::new(),
        }
    }

    fn replicas_seen(&self) -> BTreeMap<ReplicaId, ReplicaSeen> {
        let mut seen = BTreeMap::new();
        for (id, home) in &self.pools.homes {
            // Replicas of a pool that is on its way are unknown: they are not listed yet.
            if let State::Open(pool) = &home.state
                && home.is_settled
            {
                for state in pool.replicas() {
                    seen.insert(state.replica, self.replica_seen(*id, pool, &state));
                }
            }
        }
        for part in self.desired.volumes() {
            for item in &part.replicas {
                let health = match self.refused.get(&item.id) {
                    Some(Refusal::Missing) => ReplicaHealth::Missing,
                    Some(Refusal::Refused(reason)) => {
                        ReplicaHealth::Refused { reason: reason.clone() }
                    }
                    None => continue,
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

    fn replica_seen(&self, id: PoolId, pool: &Pool, state: &ReplicaState<'_>) -> ReplicaSeen {
        let machine = self.replicas.homes.get(&state.replica).map(|home| &home.machine);
        let of = pool.snapshots().filter(|snapshot| snapshot.replica == state.replica);
        let snapshots = of.map(|snapshot| {
            let size = Bytes(snapshot.blocks * block::BLOCK as u64);
            let seen = SnapshotSeen { name: snapshot.name, attempt: snapshot.attempt, size };
            (snapshot.snapshot, seen)
        });
        let (revision, bytes) = state.carried;
        let carried = serde_json::from_slice(bytes).ok().map(|volume| (revision, volume));
        ReplicaSeen {
            volume: state.volume,
            pool: id,
            health: ReplicaHealth::Online,
            size: Bytes(state.blocks * block::BLOCK as u64),
            // Not before it is durable and everything older is drained.
            epoch: machine.and_then(mirror::Replica::admitted).unwrap_or(Epoch::ZERO),
            roster: state.header.roster,
            members: state.header.members.clone(),
            birth: state.birth,
            snapshots: snapshots.collect(),
            carried,
            instance: machine.map(mirror::Replica::instance),
        }
    }

    fn targets_seen(&self) -> BTreeMap<model::VolumeId, TargetSeen> {
        let homes = self.targets.homes.iter();
        let refused = self.desired.volumes().filter_map(|part| {
            let reason = model::unmet(&part.needs)?;
            let item = part.target.as_ref().filter(|item| item.serve)?;
            Some((part.volume, refused(item, reason)))
        });
        let running = homes.map(|(volume, home)| {
            let mut seen = home.seen();
            let seats = self.front.sessions_of(Whom::Volume(*volume));
            seen.hosts.extend(seats.filter_map(|seat| seat.host));
            (*volume, seen)
        });
        refused.chain(running).collect()
    }
}

/// A target that this engine does not know how to serve.
fn refused(item: &TargetItem, reason: String) -> TargetSeen {
    TargetSeen {
        epoch: item.epoch,
        health: TargetHealth::Failed { reason },
        size: item.size,
        hosts: BTreeSet::new(),
        children: BTreeMap::new(),
        failed_snapshots: Vec::new(),
    }
}

fn pool_seen(home: &Home) -> PoolSeen {
    let health = match &home.state {
        State::Open(pool) => match pool.fault() {
            Some(fault) => PoolHealth::Faulted { reason: fault.to_string() },
            None if home.is_settled => PoolHealth::Online,
            None => PoolHealth::Importing,
        },
        State::Busy { .. } | State::Formatting(_) | State::Importing { .. } => {
            PoolHealth::Importing
        }
        State::Faulted(reason) => PoolHealth::Faulted { reason: reason.clone() },
        State::Missing => PoolHealth::Missing,
        State::Refused(reason) => PoolHealth::Refused { reason: reason.clone() },
        State::Exported => PoolHealth::Faulted { reason: "the engine is stopping".into() },
    };
    let State::Open(pool) = &home.state else {
        let (capacity, used, reserved) = (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO);
        return PoolSeen { health, capacity, used, reserved, mark: None, carried: None };
    };
    let stats = pool.stats();
    let taken = stats.used.saturating_add(stats.reserved).saturating_add(stats.quarantined);
    PoolSeen {
        health,
        capacity: stats.capacity,
        used: taken,
        reserved: thick(pool),
        mark: pool.mark(),
        carried: serde_json::from_slice(pool.carried().1).ok(),
    }
}

/// What thick replicas may take, taken or not.
fn thick(pool: &Pool) -> Bytes {
    let thick = pool.replicas().filter(|state| !state.thin);
    Bytes(thick.map(|state| state.blocks * block::BLOCK as u64).sum())
}
