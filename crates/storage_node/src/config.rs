//! Making the node what its config says: pools, tombstones, replicas, targets, in this order.
//!
//! Run whenever something changed; what is already so costs a look. Nothing is destroyed but for a
//! tombstone that names it, and what must exist is never made again. A pool that is slow delays
//! itself: a config is answered when its work is done, or has had its time.

use alloc::{
    boxed::Box,
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::time::Duration;

use model::{
    Buried, Bytes, NodeConfig, NodePart, PoolId, ReplicaId, ReplicaItem, Revision, VolumeId,
};
use pool::{NewReplica, Origin, Request};

use crate::{
    LogEvent, Ticket,
    context::{ShardContext, Subject},
    effect::Effect,
    nvme_port::Export,
    params::NodeMutation,
    storage::{Absence, PoolEntry, PoolRequester, PoolState, Storage},
    targets::Targets,
};

/// Something that a pool does because of the config. While it is under way it is not asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConfigWork {
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

/// A config waits this long for work that it began, and the work goes on after that: a disk that
/// hangs must not hold up what the controller wants of all others.
const WORK_PATIENCE: Duration = Duration::from_secs(1);

/// An early inventory waits this long for pools that were found at start.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// Why a replica that the config names is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaRefusal {
    Missing,
    Refused(String),
}

/// What came of the config so far.
#[derive(Debug, Default)]
pub(crate) struct ConfigProgress {
    /// What is missing or refused, by replica, with the reason.
    pub(crate) refused: BTreeMap<ReplicaId, ReplicaRefusal>,
    /// Work that a pool is doing, and since when.
    under_way: BTreeMap<ConfigWork, (PoolId, Duration)>,
    /// Work that a pool refused, and when.
    failed: BTreeMap<ConfigWork, Duration>,
    /// Configs whose work is under way, and since when: to be answered when it is done.
    applying: Vec<(Revision, Ticket, Duration)>,
    /// Who asked for an inventory too early, and when.
    pub(crate) pending_inventories: Vec<(Ticket, Duration)>,
    /// Exports of pools on the way out.
    pub(crate) exports_left: Option<usize>,
}

impl ConfigProgress {
    pub(crate) fn apply(
        &mut self,
        cx: &mut ShardContext,
        storage: &Storage,
        ticket: Ticket,
        config: NodeConfig,
    ) {
        let marked = storage.pools.keys().filter_map(|pool| storage.open_pool(*pool)?.mark());
        let eras: Vec<_> = marked.map(|mark| mark.era).collect();
        match cx.desired.take(config, eras.into_iter()) {
            Ok(generation) => {
                // There may be room now for what was refused before.
                self.refused.clear();
                self.failed.clear();
                self.applying.push((generation, ticket, cx.now));
                cx.needs_settling = true;
            }
            Err(error) => cx.put(Effect::Applied { ticket, result: Err(error) }),
        }
    }

    pub(crate) fn settle(
        &mut self,
        cx: &mut ShardContext,
        storage: &mut Storage,
        targets: &mut Targets,
    ) {
        if cx.is_stopping {
            return;
        }
        self.failed.retain(|_, at| cx.now < *at + ASK_AGAIN);
        self.settle_pools(cx, storage);
        self.bury(cx, storage, targets);
        self.settle_replicas(cx, storage);
        settle_targets(cx, targets);
        self.mark_settled(cx, storage);
        self.answer_applied(cx, storage);
    }

    /// Whether anything is due that no event will tell of.
    pub(crate) fn is_due(&self, cx: &ShardContext, storage: &Storage) -> bool {
        let generation = cx.desired.generation();
        storage.pools.values().any(|entry| entry.is_worth_a_look(generation, cx.now))
            || self.failed.values().any(|at| cx.now >= *at + ASK_AGAIN)
            || !self.applying.is_empty()
    }

    /// A pool that has done everything it was asked for is told of, with its replicas.
    fn mark_settled(&self, cx: &mut ShardContext, storage: &mut Storage) {
        let replicas = storage.replicas.values();
        let admitting = replicas.filter(|entry| entry.admitting_since.is_some());
        let admitting = admitting.map(|entry| entry.pool.id);
        let busy: Vec<PoolId> =
            self.under_way.values().map(|(pool, _)| *pool).chain(admitting).collect();
        storage.pools.each(|pool, entry| {
            let is_open = matches!(&entry.state, PoolState::Open(pool) if pool.fault().is_none());
            if is_open && !entry.is_settled && !busy.contains(&pool.id) {
                entry.is_settled = true;
                cx.touch(&mut entry.is_touched, Subject::Pool(pool.id));
            }
        });
    }

    /// A config is taken when nothing of it is under way but what takes long.
    fn answer_applied(&mut self, cx: &mut ShardContext, storage: &Storage) {
        if self.applying.is_empty() {
            return;
        }
        let admitting = storage.replicas.values().filter_map(|entry| entry.admitting_since);
        let work = self.under_way.values().map(|(_, began)| *began).chain(admitting);
        let now = cx.now;
        let is_patient = |began: &Duration| now < *began + WORK_PATIENCE;
        let waits_for_all = cx.params.mutations.leaves_out(NodeMutation::ApplyWaitsForEveryPool);
        let waited_for = work.filter(|began| waits_for_all || is_patient(began)).min();
        // Configs may follow one another faster than that, each with new work for a disk that
        // hangs: none waits longer than its own time for the work of those after it.
        for (generation, ticket, since) in core::mem::take(&mut self.applying) {
            if waited_for.is_some() && (waits_for_all || is_patient(&since)) {
                self.applying.push((generation, ticket, since));
                cx.wake_by(since + WORK_PATIENCE);
            } else {
                cx.put(Effect::Applied { ticket, result: Ok(generation) });
            }
        }
        if let Some(began) = waited_for.filter(|_| !self.applying.is_empty()) {
            cx.wake_by(began + WORK_PATIENCE);
        }
    }

    /// Pools that were found at start are being opened: the first inventory waits for them.
    pub(crate) fn is_looking(&self, cx: &ShardContext, storage: &Storage) -> bool {
        let since = self.pending_inventories.first().map_or(cx.now, |(_, since)| *since);
        cx.desired.mark().is_none()
            && cx.now < since + START_PATIENCE
            && storage.pools.values().any(PoolEntry::is_opening)
    }

    fn settle_pools(&mut self, cx: &mut ShardContext, storage: &mut Storage) {
        for desired in cx.desired.parts() {
            let NodePart::Pool(item) = &desired.part else { continue };
            let generation = cx.desired.generation();
            let entry = storage.pools.get(&item.id);
            if entry.is_none_or(|entry| entry.is_worth_a_look(generation, cx.now)) {
                let absence = if item.must_exist { Absence::Report } else { Absence::Format };
                storage.bring_pool(cx, item.id, &item.disks, absence);
                continue;
            }
            self.remember(cx, storage, item.id, &desired.carried);
        }
    }

    /// An open pool keeps its own record and the newest history that it has seen.
    fn remember(
        &mut self,
        cx: &mut ShardContext,
        storage: &mut Storage,
        id: PoolId,
        carried: &[u8],
    ) {
        let Some(pool) = storage.open_pool(id) else { return };
        let mark = cx.desired.mark().filter(|mark| pool.mark() != Some(*mark));
        let is_carried = pool.carried().1 == carried;
        if let Some(mark) = mark {
            self.begin(cx, storage, id, ConfigWork::Mark(id), Request::Mark { mark });
        }
        if !is_carried {
            let (revision, bytes) = (cx.desired.generation(), carried.to_vec());
            let request = Request::Carry { replica: None, revision, bytes };
            self.begin(cx, storage, id, ConfigWork::CarryPool(id), request);
        }
    }

    pub(crate) fn is_making(&self, replica: ReplicaId) -> bool {
        self.under_way.contains_key(&ConfigWork::Create(replica))
    }

    pub(crate) fn begin(
        &mut self,
        cx: &mut ShardContext,
        storage: &mut Storage,
        pool: PoolId,
        work: ConfigWork,
        request: Request,
    ) {
        if !self.failed.contains_key(&work) && !self.under_way.contains_key(&work) {
            self.under_way.insert(work, (pool, cx.now));
            let pool = storage.pools.handle(pool);
            storage.ask_pool(cx, pool, PoolRequester::Config(work), request);
        }
    }

    pub(crate) fn work_done(
        &mut self,
        cx: &mut ShardContext,
        storage: &mut Storage,
        pool: PoolId,
        work: ConfigWork,
        result: Result<pool::Reply, pool::Error>,
    ) {
        self.under_way.remove(&work);
        cx.needs_settling = true;
        match (work, result) {
            (ConfigWork::Create(replica), Ok(_)) => {
                cx.log(LogEvent::ReplicaCreated { pool, replica });
                storage.adopt_replicas(cx, storage.pools.handle(pool));
            }
            (ConfigWork::Create(replica), Err(error)) => {
                self.refused.insert(replica, ReplicaRefusal::Refused(error.to_string()));
            }
            (ConfigWork::Delete(replica), Ok(_)) => {
                cx.touched.push(Subject::Replica(replica));
                cx.log(LogEvent::ReplicaDestroyed { pool, replica });
            }
            (ConfigWork::Export(_), _) => {
                if let Some(entry) = storage.pools.get_mut(&pool) {
                    entry.state = PoolState::Exported;
                }
                self.exports_left = self.exports_left.map(|left| left.saturating_sub(1));
            }
            (ConfigWork::Grow(replica), Ok(_)) => {
                let state = storage.open_pool(pool).and_then(|pool| pool.replica(replica));
                if let Some(blocks) = state.map(|state| state.blocks) {
                    cx.port.resize(Export::Replica(replica), blocks);
                }
                cx.touched.push(Subject::Replica(replica));
            }
            (work, Err(error)) => {
                let (what, reason) = (format!("{work:?}"), error.to_string());
                cx.log(LogEvent::ConfigRefused { pool, what, reason });
                self.failed.insert(work, cx.now);
            }
            (ConfigWork::Carry(replica) | ConfigWork::DeleteSnapshot(replica, _), Ok(_)) => {
                cx.touched.push(Subject::Replica(replica));
            }
            (ConfigWork::Mark(_) | ConfigWork::CarryPool(_), Ok(_)) => {}
        }
    }

    fn bury(&mut self, cx: &mut ShardContext, storage: &mut Storage, targets: &mut Targets) {
        for buried in cx.desired.buried() {
            match buried {
                Buried::Target { volume, epoch } => targets.end(cx, volume, epoch),
                Buried::Snapshot { snapshot, replica, pool } => {
                    let open = storage.open_pool(pool);
                    let is_there = open.is_some_and(|pool| {
                        pool.snapshots().any(|s| s.snapshot == snapshot && s.replica == replica)
                    });
                    if is_there {
                        if let Some(entry) = storage.replicas.get_mut(&replica) {
                            entry.machine.forget_snapshot(snapshot);
                        }
                        let work = ConfigWork::DeleteSnapshot(replica, snapshot);
                        let request = Request::DeleteSnapshot { replica, snapshot };
                        self.begin(cx, storage, pool, work, request);
                    }
                }
                Buried::Replica { replica, pool } => {
                    let open = storage.open_pool(pool);
                    if open.is_some_and(|pool| pool.replica(replica).is_some()) {
                        storage.release_replica(cx, replica);
                        let (work, request) =
                            (ConfigWork::Delete(replica), Request::Delete { replica });
                        self.begin(cx, storage, pool, work, request);
                    }
                }
                Buried::Pool { pool } => storage.erase_pool(cx, pool),
            }
        }
    }

    fn settle_replicas(&mut self, cx: &mut ShardContext, storage: &mut Storage) {
        self.refused.retain(|_, refusal| matches!(refusal, ReplicaRefusal::Refused(_)));
        for desired in cx.desired.parts() {
            let NodePart::Volume(part) = &desired.part else { continue };
            let unmet = model::unmet(&part.needs);
            for item in &part.replicas {
                let tomb = Buried::Replica { replica: item.id, pool: item.pool };
                let Some(pool) = storage.open_pool(item.pool) else { continue };
                // One that is there goes on: nobody could fence it otherwise.
                let is_new = !item.must_exist && pool.replica(item.id).is_none();
                if let Some(reason) = unmet.as_ref().filter(|_| is_new) {
                    self.refused.insert(item.id, ReplicaRefusal::Refused(reason.clone()));
                } else if !cx.desired.is_buried(tomb) {
                    self.settle_replica(cx, storage, part.volume, item, &desired.carried);
                }
            }
        }
    }

    fn settle_replica(
        &mut self,
        cx: &mut ShardContext,
        storage: &mut Storage,
        volume: VolumeId,
        item: &ReplicaItem,
        carried: &[u8],
    ) {
        let revision = cx.desired.generation();
        let Some(pool) = storage.open_pool(item.pool) else { return };
        let blocks = blocks(item.size);
        let Some(found) = pool.replica(item.id) else {
            if item.must_exist {
                self.refused.insert(item.id, ReplicaRefusal::Missing);
            } else if !self.refused.contains_key(&item.id) {
                let new = NewReplica {
                    replica: item.id,
                    volume,
                    blocks,
                    thin: item.thin,
                    birth: cx.desired.mark(),
                    carried: (revision, carried.to_vec()),
                    origin: item.origin.map(|snapshot| Origin { replica: None, snapshot }),
                };
                let request = Request::Create(Box::new(new));
                self.begin(cx, storage, item.pool, ConfigWork::Create(item.id), request);
            }
            return;
        };
        let (is_grown, is_carried) = (found.blocks >= blocks, found.carried.1 == carried);
        self.refused.remove(&item.id);
        if !is_grown {
            let request = Request::Resize { replica: item.id, blocks };
            self.begin(cx, storage, item.pool, ConfigWork::Grow(item.id), request);
        }
        if !is_carried {
            let bytes = carried.to_vec();
            let request = Request::Carry { replica: Some(item.id), revision, bytes };
            self.begin(cx, storage, item.pool, ConfigWork::Carry(item.id), request);
        }
        if let Some(admission) = item.admission {
            storage.admit(cx, item.id, admission);
        }
    }
}

fn settle_targets(cx: &mut ShardContext, targets: &mut Targets) {
    for desired in cx.desired.parts() {
        let NodePart::Volume(part) = &desired.part else { continue };
        if let Some(item) = &part.target {
            let may_start = model::unmet(&part.needs).is_none();
            targets.settle(cx, part.volume, item.clone(), may_start);
        }
    }
}

fn blocks(size: Bytes) -> u64 {
    size.0.div_ceil(block::BLOCK as u64)
}
