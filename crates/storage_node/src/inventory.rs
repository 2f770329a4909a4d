//! The truth of this node, told; and whether it differs from what was told before.
//!
//! Whatever acts on a pool, replica or target marks it as touched. The touched ones are compared
//! with their last report: nobody has to remember to say that something changed.

use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};

use model::{
    AttemptId, Bytes, Epoch, HostId, Inventory, PoolHealth, PoolId, PoolSeen, ReplicaHealth,
    ReplicaId, ReplicaSeen, Revision, Roster, SnapshotId, SnapshotSeen, TargetHealth, TargetItem,
    TargetSeen, VolumeId,
};
use pool::{Pool, ReplicaState};

use crate::{
    config::{ConfigProgress, ReplicaRefusal},
    context::{ShardContext, Subject},
    nvme_port::Export,
    params::NodeMutation,
    storage::{PoolEntry, PoolState, Storage},
    targets::Targets,
};

/// What was told last.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    sequence: u64,
    generation: Revision,
    pools: BTreeMap<PoolId, PoolFacts>,
    replicas: BTreeMap<ReplicaId, ReplicaFacts>,
    targets: BTreeMap<VolumeId, TargetSeen>,
    refused: BTreeMap<ReplicaId, ReplicaRefusal>,
}

/// What can change in the report of a pool, without what is dear to make.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PoolFacts {
    health: PoolHealth,
    capacity: Bytes,
    /// In steps: every write would be news otherwise.
    used_steps: u64,
    mark: Option<model::Mark>,
    carried: (Revision, usize),
}

/// What can change in the report of a replica, without what is dear to make.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReplicaFacts {
    is_told: bool,
    epoch: Option<Epoch>,
    roster: Roster,
    members: BTreeMap<ReplicaId, bool>,
    blocks: u64,
    carried: (Revision, usize),
    snapshots: BTreeMap<SnapshotId, AttemptId>,
}

/// Of used space a difference of this part of the capacity is news.
const SPACE_STEPS: u64 = 128;

/// The parts of a shard that an inventory tells of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) targets: &'a Targets,
    pub(crate) config: &'a ConfigProgress,
}

impl Reports {
    /// Compares what was touched with its last report. The sequence number up to which inventories
    /// are out of date, if any is.
    pub(crate) fn compare(
        &mut self,
        cx: &mut ShardContext,
        storage: &mut Storage,
        targets: &mut Targets,
        config: &ConfigProgress,
    ) -> Option<u64> {
        let generation = cx.desired.generation();
        let mut is_outdated = generation != core::mem::replace(&mut self.generation, generation);
        let mut touched = core::mem::take(&mut cx.touched);
        for subject in touched.drain(..) {
            is_outdated |= match subject {
                Subject::Pool(pool) => {
                    let entry = storage.pools.get_mut(&pool);
                    let seen = entry.map(|entry| {
                        entry.is_touched = false;
                        pool_facts(entry)
                    });
                    replace(&mut self.pools, pool, seen)
                }
                Subject::Replica(replica) => {
                    if let Some(entry) = storage.replicas.get_mut(&replica) {
                        entry.is_touched = false;
                    }
                    let facts = replica_facts(storage, replica);
                    let facts = facts.filter(|_| !config.is_making(replica));
                    replace(&mut self.replicas, replica, facts)
                }
                Subject::Target(volume) => {
                    let entry = targets.entries.get_mut(&volume);
                    let seen = entry.map(|entry| {
                        entry.is_touched = false;
                        let mut seen = entry.seen();
                        seen.hosts.extend(hosts_of(cx, volume));
                        seen
                    });
                    replace(&mut self.targets, volume, seen)
                }
            };
        }
        cx.touched = touched;
        if self.refused != config.refused {
            self.refused.clone_from(&config.refused);
            is_outdated = true;
        }
        is_outdated &= !cx.params.mutations.leaves_out(NodeMutation::ReportForgotten);
        is_outdated.then_some(self.sequence)
    }

    /// The next one, which counts as told.
    pub(crate) fn inventory(&mut self, cx: &ShardContext, parts: Parts<'_>) -> Inventory {
        self.sequence += 1;
        let mut inventory = self.look(cx, parts);
        for (id, seen) in &mut inventory.pools {
            let pool = parts.storage.open_pool(*id);
            seen.carried = pool.and_then(|pool| cx.desired.carried_pool(*id, pool.carried().1));
        }
        for (_, pool) in told_pools(parts.storage) {
            for state in pool.replicas() {
                if let Some(seen) = inventory.replicas.get_mut(&state.replica) {
                    let (revision, bytes) = state.carried;
                    let volume = cx.desired.carried_volume(state.volume, bytes);
                    seen.carried = volume.map(|volume| (revision, volume));
                }
            }
        }
        inventory
    }

    /// What an inventory would tell, without telling it, and without what pools carry, which is
    /// dear to decode.
    pub(crate) fn look(&self, cx: &ShardContext, parts: Parts<'_>) -> Inventory {
        let pools = parts.storage.pools.iter();
        Inventory {
            node: cx.params.node,
            instance: cx.params.instance,
            generation: cx.desired.generation(),
            sequence: self.sequence,
            pools: pools.map(|(id, entry)| (*id, pool_seen(entry))).collect(),
            replicas: replicas_seen(cx, parts),
            targets: targets_seen(cx, parts.targets),
            // The control side adds them: reading files must not hold commands up.
            devices: Vec::new(),
        }
    }
}

/// True if it is another one now.
fn replace<K: Ord, V: PartialEq>(told: &mut BTreeMap<K, V>, key: K, now: Option<V>) -> bool {
    match now {
        Some(now) if told.get(&key) == Some(&now) => false,
        Some(now) => {
            told.insert(key, now);
            true
        }
        None => told.remove(&key).is_some(),
    }
}

fn pool_facts(entry: &PoolEntry) -> PoolFacts {
    let health = pool_health(entry);
    let PoolState::Open(pool) = &entry.state else {
        let (capacity, carried) = (Bytes::ZERO, (Revision::ZERO, 0));
        return PoolFacts { health, capacity, used_steps: 0, mark: None, carried };
    };
    let (capacity, (revision, bytes)) = (pool.stats().capacity, pool.carried());
    let step = (capacity.0 / SPACE_STEPS).max(1);
    PoolFacts {
        health,
        capacity,
        used_steps: used(pool).0 / step,
        mark: pool.mark(),
        carried: (revision, bytes.len()),
    }
}

pub(crate) fn hosts_of(cx: &ShardContext, volume: VolumeId) -> impl Iterator<Item = HostId> + '_ {
    cx.port.sessions_of(Export::Volume(volume)).filter_map(|session| session.host)
}

/// Replicas of a pool that is on its way are unknown: they are not told of yet.
fn told_pools(storage: &Storage) -> impl Iterator<Item = (PoolId, &Pool)> {
    storage.pools.iter().filter(|(_, entry)| entry.is_settled).filter_map(
        |(id, entry)| match &entry.state {
            PoolState::Open(pool) => Some((*id, pool.as_ref())),
            _ => None,
        },
    )
}

fn replica_facts(storage: &Storage, replica: ReplicaId) -> Option<ReplicaFacts> {
    let (pool, state) = match storage.replicas.get(&replica) {
        Some(entry) => {
            let pool = storage.open_pool(entry.pool.id)?;
            (entry.pool.id, pool.replica(replica)?)
        }
        None => storage
            .pools
            .keys()
            .find_map(|id| Some((*id, storage.open_pool(*id)?.replica(replica)?)))?,
    };
    let open = storage.open_pool(pool)?;
    let of = open.snapshots().filter(|snapshot| snapshot.replica == replica);
    let machine = storage.replicas.get(&replica).map(|entry| &entry.machine);
    Some(ReplicaFacts {
        is_told: storage.pools.get(&pool).is_some_and(|entry| entry.is_settled),
        epoch: machine.and_then(mirror::Replica::admitted),
        roster: state.header.roster,
        members: state.header.members.clone(),
        blocks: state.blocks,
        carried: (state.carried.0, state.carried.1.len()),
        snapshots: of.map(|snapshot| (snapshot.snapshot, snapshot.attempt)).collect(),
    })
}

fn replicas_seen(cx: &ShardContext, parts: Parts<'_>) -> BTreeMap<ReplicaId, ReplicaSeen> {
    let mut seen = BTreeMap::new();
    for (id, pool) in told_pools(parts.storage) {
        // One that is being made is not durable yet: after a power cut it may never have been.
        for state in pool.replicas().filter(|state| !parts.config.is_making(state.replica)) {
            seen.insert(state.replica, replica_seen(parts.storage, id, pool, &state));
        }
    }
    for part in cx.desired.volumes() {
        for item in &part.replicas {
            let health = match parts.config.refused.get(&item.id) {
                Some(ReplicaRefusal::Missing) => ReplicaHealth::Missing,
                Some(ReplicaRefusal::Refused(reason)) => {
                    ReplicaHealth::Refused { reason: reason.clone() }
                }
                None => continue,
            };
            let absent = ReplicaSeen::new(part.volume, item.pool, health);
            seen.insert(item.id, absent);
        }
    }
    seen
}

fn replica_seen(
    storage: &Storage,
    id: PoolId,
    pool: &Pool,
    state: &ReplicaState<'_>,
) -> ReplicaSeen {
    let machine = storage.replicas.get(&state.replica).map(|entry| &entry.machine);
    let of = pool.snapshots().filter(|snapshot| snapshot.replica == state.replica);
    let snapshots = of.map(|snapshot| {
        let size = Bytes(snapshot.blocks * block::BLOCK as u64);
        let seen = SnapshotSeen { name: snapshot.name, attempt: snapshot.attempt, size };
        (snapshot.snapshot, seen)
    });
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
        carried: None,
        instance: machine.map(mirror::Replica::instance),
    }
}

fn targets_seen(cx: &ShardContext, targets: &Targets) -> BTreeMap<VolumeId, TargetSeen> {
    let refused = cx.desired.volumes().filter_map(|part| {
        let reason = model::unmet(&part.needs)?;
        let item = part.target.as_ref().filter(|item| item.serve)?;
        Some((part.volume, refused(item, reason)))
    });
    let running = targets.entries.iter().map(|(volume, entry)| {
        let mut seen = entry.seen();
        seen.hosts.extend(hosts_of(cx, *volume));
        (*volume, seen)
    });
    refused.chain(running).collect()
}

/// A target that this node does not know how to serve.
fn refused(item: &TargetItem, reason: String) -> TargetSeen {
    TargetSeen::new(item.epoch, TargetHealth::Failed { reason }, item.size)
}

fn pool_health(entry: &PoolEntry) -> PoolHealth {
    match &entry.state {
        PoolState::Open(pool) => match pool.fault() {
            Some(fault) => PoolHealth::Faulted { reason: fault.to_string() },
            None if entry.is_settled => PoolHealth::Online,
            None => PoolHealth::Importing,
        },
        PoolState::Opening(_)
        | PoolState::Busy(_)
        | PoolState::Formatting(_)
        | PoolState::Importing { .. } => PoolHealth::Importing,
        PoolState::Faulted(reason) => PoolHealth::Faulted { reason: reason.clone() },
        PoolState::Missing => PoolHealth::Missing,
        PoolState::Refused(reason) => PoolHealth::Refused { reason: reason.clone() },
        PoolState::Exported => PoolHealth::Faulted { reason: "the engine is stopping".into() },
    }
}

fn pool_seen(entry: &PoolEntry) -> PoolSeen {
    let health = pool_health(entry);
    let PoolState::Open(pool) = &entry.state else {
        let (capacity, used, reserved) = (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO);
        return PoolSeen { health, capacity, used, reserved, mark: None, carried: None };
    };
    PoolSeen {
        health,
        capacity: pool.stats().capacity,
        used: used(pool),
        reserved: thick(pool),
        mark: pool.mark(),
        carried: None,
    }
}

fn used(pool: &Pool) -> Bytes {
    let stats = pool.stats();
    stats.used.saturating_add(stats.reserved).saturating_add(stats.quarantined)
}

/// What thick replicas may take, taken or not.
fn thick(pool: &Pool) -> Bytes {
    let thick = pool.replicas().filter(|state| !state.thin);
    Bytes(thick.map(|state| state.blocks * block::BLOCK as u64).sum())
}
