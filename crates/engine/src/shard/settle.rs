//! Making the machine what the config says: pools, tombstones, replicas, targets, in this order.
//!
//! Run whenever something changed; what is already so costs a look. Nothing is destroyed but for a
//! tombstone that names it, and what must exist is never made again.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use model::{
    Buried, Bytes, Epoch, NodeConfig, PoolId, PoolItem, ReplicaId, ReplicaItem, Revision,
    TargetItem, VolumeId,
};
use nvme::target::{Hosts, Namespace, Subsystem};
use pool::{NewReplica, Origin, Request};
use ports::EngineError;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::{
    Export, Shard,
    front::Whom,
    pools::{Asker, Must, State},
    replicas,
};
use crate::{handle::Order, names};

/// Something that a pool does because of the config. While it is under way it is not asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Create(ReplicaId),
    Delete(ReplicaId),
    Grow(ReplicaId),
    DeleteSnapshot(ReplicaId, model::SnapshotId),
    Mark(PoolId),
    CarryPool(PoolId),
    Carry(ReplicaId),
    Export(PoolId),
}

/// What a pool refused is asked again after this time, or when the config changes. A pool that is
/// faulted or full refuses at once: asking again at once would be a loop.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Why a replica that the config names is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Missing,
    Refused(String),
}

type Applied = (Revision, oneshot::Sender<Result<Revision, EngineError>>);

/// Targets have this long to flush and to have it written down that they ended cleanly. The store
/// may be away: then the next target finds out what differs.
const TARGETS_END_WITHIN: Duration = Duration::from_secs(3);

/// On the way out: targets first, then pools.
#[derive(Debug)]
pub(super) struct Stopping {
    replies: Vec<oneshot::Sender<()>>,
    stage: Leaving,
}

#[derive(Debug)]
enum Leaving {
    Targets { until: Instant },
    Pools { left: usize },
}

impl Stopping {
    fn abandoned() -> Self {
        Self { replies: Vec::new(), stage: Leaving::Pools { left: 0 } }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Leaving::Pools { left: 0 })
    }

    /// When targets are waited for no longer.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Leaving::Targets { until } => Some(until),
            Leaving::Pools { .. } => None,
        }
    }

    pub(super) fn answer(self) {
        for reply in self.replies {
            // Whoever asked may be gone.
            let _ = reply.send(());
        }
    }
}

/// Configs whose work is under way, to be answered when it is done.
#[derive(Debug, Default)]
pub(super) struct Applying {
    open: Vec<Applied>,
}

impl Applying {
    pub(super) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }
}

impl Shard {
    pub(super) fn obey(&mut self, order: Order) {
        // Who asked may be gone: then nobody needs the answer.
        match order {
            Order::Apply { config, reply } => self.apply(*config, reply),
            // What was found at start is told from the first inventory on.
            Order::Inventory { reply } if self.is_looking() => self.curious.push(reply),
            Order::Inventory { reply } => {
                let inventory = self.inventory();
                let _ = reply.send(inventory);
            }
            Order::Record { target, call, answer } => self.store_answered(target, call, answer),
            Order::Metrics { reply } => {
                let _ = reply.send(self.metrics());
            }
            Order::Inject { fault, reply } => {
                let _ = reply.send(self.inject(fault));
            }
            Order::Strike { target } => self.strike_target(target),
            Order::Stop { reply } => self.stop(reply),
            Order::Abandon => self.stopping = Some(Stopping::abandoned()),
        }
    }

    fn apply(&mut self, config: NodeConfig, reply: oneshot::Sender<Result<Revision, EngineError>>) {
        let marked = self.pools.homes.keys().filter_map(|pool| self.pools.open(*pool)?.mark());
        let eras: Vec<_> = marked.map(|mark| mark.era).collect();
        match self.desired.take(config, eras.into_iter()) {
            Ok(generation) => {
                // There may be room now for what was refused before.
                self.refused.clear();
                self.failed.clear();
                self.applying.open.push((generation, reply));
                self.is_unsettled = true;
                self.changed();
            }
            Err(error) => {
                let _ = reply.send(Err(error));
            }
        }
    }

    pub(super) fn settle(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        self.failed.retain(|_, at| at.elapsed() < ASK_AGAIN);
        self.settle_pools();
        self.bury();
        self.settle_replicas();
        self.settle_targets();
        self.answer_applied();
        self.answer_curious();
    }

    /// A config is taken when nothing of it is under way but what takes long, as an import does.
    fn answer_applied(&mut self) {
        if !self.under_way.is_empty() || self.is_admitting() {
            return;
        }
        for id in self.pools.homes.values_mut() {
            if matches!(&id.state, State::Open(pool) if pool.fault().is_none()) && !id.is_settled {
                id.is_settled = true;
                self.is_stale = true;
            }
        }
        for (generation, reply) in std::mem::take(&mut self.applying.open) {
            let _ = reply.send(Ok(generation));
        }
    }

    /// An epoch is being made durable, or what came before it is being drained.
    fn is_admitting(&self) -> bool {
        self.replicas.homes.values().any(|home| {
            !home.machine.is_faulted()
                && home.machine.admitted() != Some(home.machine.header().epoch)
        })
    }

    /// Pools that were found at start are being opened.
    fn is_looking(&self) -> bool {
        let is_opening =
            |state: &State| matches!(state, State::Importing { .. } | State::Busy { .. });
        self.desired.mark().is_none() && self.pools.homes.values().any(|h| is_opening(&h.state))
    }

    fn answer_curious(&mut self) {
        if !self.curious.is_empty() && !self.is_looking() {
            for reply in std::mem::take(&mut self.curious) {
                let _ = reply.send(self.inventory());
            }
        }
    }

    fn settle_pools(&mut self) {
        let items: Vec<_> = self.desired.pools().cloned().collect();
        for item in items {
            let generation = self.desired.generation();
            let home = self.pools.homes.get(&item.id);
            if home.is_none_or(|home| home.is_worth_a_look(generation)) {
                let must = if item.must_exist { Must::Exist } else { Must::BeMade };
                self.bring_pool(item.id, &item.disks, must);
                continue;
            }
            self.remember(&item);
        }
    }

    /// An open pool keeps its own record and the newest history that it has seen.
    fn remember(&mut self, item: &PoolItem) {
        let Some(pool) = self.pools.open(item.id) else { return };
        let mark = self.desired.mark().filter(|mark| pool.mark() != Some(*mark));
        let carried = serde_json::to_vec(&item.carried).unwrap_or_default();
        let is_carried = pool.carried().1 == carried;
        if let Some(mark) = mark {
            self.begin(item.id, Work::Mark(item.id), Request::Mark { mark });
        }
        if !is_carried {
            let revision = self.desired.generation();
            let request = Request::Carry { replica: None, revision, bytes: carried };
            self.begin(item.id, Work::CarryPool(item.id), request);
        }
    }

    fn begin(&mut self, pool: PoolId, work: Work, request: Request) {
        if !self.failed.contains_key(&work) && self.under_way.insert(work) {
            self.ask_pool(pool, Asker::Config(work), request);
        }
    }

    /// Something that a pool refused is due again.
    pub(super) fn is_worth_another_try(&self) -> bool {
        self.failed.values().any(|at| at.elapsed() >= ASK_AGAIN)
    }

    pub(super) fn config_done(
        &mut self,
        pool: PoolId,
        work: Work,
        result: Result<pool::Reply, pool::Error>,
    ) {
        self.under_way.remove(&work);
        self.is_unsettled = true;
        self.changed();
        match (work, result) {
            (Work::Create(replica), Ok(_)) => {
                info!(%replica, %pool, "replica made");
                self.adopt_replicas(pool);
            }
            (Work::Create(replica), Err(error)) => {
                self.refused.insert(replica, Refusal::Refused(error.to_string()));
            }
            (Work::Delete(replica), Ok(_)) => info!(%replica, %pool, "replica destroyed"),
            (Work::Export(_), _) => {
                if let Some(home) = self.pools.homes.get_mut(&pool) {
                    home.state = State::Exported;
                }
                if let Some(Stopping { stage: Leaving::Pools { left }, .. }) = &mut self.stopping {
                    *left -= 1;
                }
            }
            (Work::Grow(replica), Ok(_)) => {
                let blocks = self.pools.open(pool).and_then(|pool| pool.replica(replica));
                let blocks = blocks.map(|state| state.blocks);
                let subsystem = self.front.subsystem_of(Whom::Replica(replica));
                if let (Some(blocks), Some(subsystem)) = (blocks, subsystem) {
                    self.front.port.resize(subsystem, blocks);
                }
            }
            (work, Err(error)) => {
                warn!(%pool, ?work, %error, "a pool refused what the config wants");
                self.failed.insert(work, Instant::now());
            }
            (_, Ok(_)) => {}
        }
    }

    fn bury(&mut self) {
        for buried in self.desired.buried() {
            match buried {
                Buried::Target { volume, epoch } => {
                    let ended = self.ended.entry(volume).or_default();
                    *ended = (*ended).max(epoch);
                    let home = self.targets.homes.get(&volume);
                    if home.is_some_and(|home| home.machine.epoch() <= epoch) {
                        self.drop_target(volume);
                    }
                }
                Buried::Snapshot { snapshot, replica, pool } => {
                    let open = self.pools.open(pool);
                    let is_there = open.is_some_and(|pool| {
                        pool.snapshots().any(|s| s.snapshot == snapshot && s.replica == replica)
                    });
                    if is_there {
                        if let Some(home) = self.replicas.homes.get_mut(&replica) {
                            home.machine.forget_snapshot(snapshot);
                        }
                        let work = Work::DeleteSnapshot(replica, snapshot);
                        self.begin(pool, work, Request::DeleteSnapshot { replica, snapshot });
                    }
                }
                Buried::Replica { replica, pool } => {
                    let open = self.pools.open(pool);
                    if open.is_some_and(|pool| pool.replica(replica).is_some()) {
                        self.release_replica(replica);
                        self.begin(pool, Work::Delete(replica), Request::Delete { replica });
                    }
                }
                Buried::Pool { pool } => self.bury_pool(pool),
            }
        }
    }

    /// Only an empty one goes: its superblocks are erased, so that no scan finds it again.
    fn bury_pool(&mut self, id: PoolId) {
        let is_empty = self.pools.open(id).is_some_and(|pool| pool.replicas().next().is_none());
        if is_empty {
            self.erase_pool(id);
        }
    }

    fn settle_replicas(&mut self) {
        self.refused.retain(|_, refusal| matches!(refusal, Refusal::Refused(_)));
        let parts: Vec<_> = self.desired.volumes().cloned().collect();
        for part in &parts {
            let unmet = model::unmet(&part.needs);
            for item in &part.replicas {
                let tomb = Buried::Replica { replica: item.id, pool: item.pool };
                let Some(pool) = self.pools.open(item.pool) else { continue };
                // One that is there goes on: nobody could fence it otherwise.
                let is_new = !item.must_exist && pool.replica(item.id).is_none();
                if let Some(reason) = unmet.as_ref().filter(|_| is_new) {
                    self.refused.insert(item.id, Refusal::Refused(reason.clone()));
                } else if !self.desired.is_buried(tomb) {
                    let carried = serde_json::to_vec(&part.carried).unwrap_or_default();
                    self.settle_replica(part.volume, item, carried);
                }
            }
        }
    }

    fn settle_replica(&mut self, volume: VolumeId, item: &ReplicaItem, carried: Vec<u8>) {
        let revision = self.desired.generation();
        let Some(pool) = self.pools.open(item.pool) else { return };
        let blocks = blocks(item.size);
        let Some(found) = pool.replica(item.id) else {
            if item.must_exist {
                self.refused.insert(item.id, Refusal::Missing);
            } else if !self.refused.contains_key(&item.id) {
                let new = NewReplica {
                    replica: item.id,
                    volume,
                    blocks,
                    thin: item.thin,
                    birth: self.desired.mark(),
                    carried: (revision, carried),
                    origin: item.origin.map(|snapshot| Origin { replica: None, snapshot }),
                };
                self.begin(item.pool, Work::Create(item.id), Request::Create(Box::new(new)));
            }
            return;
        };
        let (is_grown, is_carried) = (found.blocks >= blocks, found.carried.1 == carried);
        self.refused.remove(&item.id);
        if !is_grown {
            let request = Request::Resize { replica: item.id, blocks };
            self.begin(item.pool, Work::Grow(item.id), request);
        }
        if !is_carried {
            let request = Request::Carry { replica: Some(item.id), revision, bytes: carried };
            self.begin(item.pool, Work::Carry(item.id), request);
        }
        if let Some(admission) = item.admission {
            let known = self.replicas.homes.get_mut(&item.id);
            if let Some(home) = known.filter(|home| home.machine.header().epoch <= admission.epoch)
            {
                home.admitted = admission.node;
                self.admit(item.id, admission.epoch);
                self.open_to(item.id);
            }
        }
    }

    /// Lets in the admitted node's target, and nobody else.
    fn open_to(&mut self, replica: ReplicaId) {
        let Some(home) = self.replicas.homes.get(&replica) else { return };
        let hosts = home.admitted.iter().map(|node| names::nqn(node.0)).collect();
        if let Some(subsystem) = self.front.subsystem_of(Whom::Replica(replica)) {
            self.front.port.set_hosts(subsystem, &Hosts::Only(hosts));
        }
    }

    /// Makes a machine for every replica in the pool that has none, and exports it.
    pub(super) fn adopt_replicas(&mut self, pool: PoolId) {
        let Some(open) = self.pools.open(pool) else { return };
        let mut found = Vec::new();
        for state in open.replicas() {
            if self.replicas.homes.contains_key(&state.replica) {
                continue;
            }
            let of = open.snapshots().filter(|snapshot| snapshot.replica == state.replica);
            let snapshots = of.map(frozen).collect();
            let machine = mirror::Replica::import(
                model::InstanceId(uuid::Uuid::new_v4()),
                self.identity.boot,
                mirror::Geometry::default(),
                state.header.clone(),
                snapshots,
            );
            found.push((state.replica, state.blocks, replicas::Home::new(machine, pool)));
        }
        for (replica, blocks, home) in found {
            self.replicas.homes.insert(replica, home);
            let subsystem = Subsystem {
                nqn: names::nqn(replica.0),
                serial: names::serial(replica.0),
                hosts: Hosts::Only(BTreeSet::default()),
                namespace: Namespace {
                    uuid: replica.0,
                    nguid: *replica.0.as_bytes(),
                    blocks,
                    is_thin: true,
                    ana: nvme::wire::log::Ana::Optimized,
                },
                first_cntlid: 1,
                cntlids: 4000,
                kind: nvme::target::Kind::Replica,
            };
            if let Some(id) = self.front.port.add_subsystem(subsystem) {
                self.front.exports.insert(id, Export::Replica(replica));
            }
        }
    }

    /// Ends every session of a replica that is to go.
    fn release_replica(&mut self, replica: ReplicaId) {
        self.cut_replica(replica);
        if let Some(subsystem) = self.front.subsystem_of(Whom::Replica(replica)) {
            self.front.port.remove_subsystem(subsystem);
            self.front.exports.remove(&subsystem);
        }
        self.replicas.homes.remove(&replica);
    }

    fn settle_targets(&mut self) {
        let parts: Vec<_> = self
            .desired
            .volumes()
            .filter_map(|part| {
                Some((part.volume, part.target.clone()?, model::unmet(&part.needs).is_none()))
            })
            .collect();
        for (volume, item, is_known) in parts {
            let running = self.targets.homes.get(&volume).map(|home| home.machine.epoch());
            match running {
                Some(epoch) if epoch == item.epoch => {
                    self.update_target(volume, &item);
                    continue;
                }
                Some(epoch) if epoch > item.epoch => continue,
                Some(_) => self.drop_target(volume),
                None => {}
            }
            let ended = self.ended.get(&volume).copied().unwrap_or(Epoch::ZERO);
            let is_ours = item.instance == self.identity.instance;
            if item.serve && is_ours && ended < item.epoch && is_known {
                self.start_target(volume, item);
            }
        }
    }

    /// Targets let their hosts go, flush and have it written down; then pools are left clean.
    fn stop(&mut self, reply: oneshot::Sender<()>) {
        if let Some(stopping) = &mut self.stopping {
            stopping.replies.push(reply);
            return;
        }
        let until = Instant::now() + TARGETS_END_WITHIN;
        self.stopping = Some(Stopping { replies: vec![reply], stage: Leaving::Targets { until } });
        self.next_tick = self.next_tick.min(until);
        let homes = self.targets.homes.iter();
        let items = homes.map(|(volume, home)| (*volume, home.item.clone()));
        for (volume, item) in items.collect::<Vec<_>>() {
            self.update_target(volume, &TargetItem { serve: false, ..item });
        }
    }

    /// Goes on to the pools when every target has ended, or has had its time.
    pub(super) fn leave(&mut self) {
        let Some(Stopping { stage: Leaving::Targets { until }, .. }) = self.stopping else {
            return;
        };
        let mut homes = self.targets.homes.values();
        if homes.all(|home| home.machine.is_over()) || Instant::now() >= until {
            self.leave_pools();
        }
    }

    fn leave_pools(&mut self) {
        let volumes: Vec<_> = self.targets.homes.keys().copied().collect();
        for volume in volumes {
            self.drop_target(volume);
        }
        let replicas: Vec<_> = self.replicas.homes.keys().copied().collect();
        for replica in replicas {
            self.release_replica(replica);
        }
        let pools: Vec<_> = self
            .pools
            .homes
            .keys()
            .copied()
            .filter(|pool| self.pools.open(*pool).is_some())
            .collect();
        if let Some(stopping) = &mut self.stopping {
            stopping.stage = Leaving::Pools { left: pools.len() };
        }
        for pool in pools {
            self.begin(pool, Work::Export(pool), Request::Export);
        }
    }
}

pub(super) fn blocks(size: Bytes) -> u64 {
    size.0.div_ceil(block::BLOCK as u64)
}

fn frozen(found: pool::SnapshotState) -> mirror::Frozen {
    let pool::SnapshotState { snapshot, attempt, roster, blocks, name, .. } = found;
    mirror::Frozen { snapshot, attempt, roster, blocks, name }
}
