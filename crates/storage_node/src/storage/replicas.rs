//! Replicas: the machines, the sessions that targets have with them, and what they ask of pools.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::time::Duration;

use block::Buffer;
use mirror::{Answer, Frozen, Replica, ReplicaOutput, Request, State};
use model::{Epoch, NodeId, PoolId, ReplicaId, SnapshotId};
use nvme::{Code, Reply, Status};
use pool::Image;

use super::{PoolRequester, Storage};
use crate::{
    context::{ShardContext, Subject},
    message::{ChildAnswer, LocalTarget, Message},
    nvme_port::Export,
    params::NodeMutation,
    registry::Handle,
    replica_protocol,
};

#[derive(Debug)]
pub(crate) struct ReplicaEntry {
    pub(crate) machine: Replica<Buffer>,
    pub(crate) pool: Handle<PoolId>,
    /// The node whose target is let in.
    pub(crate) admitted: Option<NodeId>,
    pub(super) sessions: BTreeMap<u64, ReplicaSession>,
    /// Since when an epoch is being made durable, or what came before it is being drained.
    pub(crate) admitting_since: Option<Duration>,
    /// It may differ from its last report.
    pub(crate) is_touched: bool,
    /// Sessions that are gone, whose last operations may still be on the way to the disk.
    #[cfg(feature = "flaws")]
    gone: BTreeMap<u64, Epoch>,
}

/// A target's session with a replica.
#[derive(Debug)]
pub(super) struct ReplicaSession {
    /// A target of this node; else it came over the port.
    from: Option<LocalTarget>,
    /// What it fenced with.
    pub(super) epoch: Epoch,
    /// What the fence found, until a remote target asks for it.
    pub(super) state: Option<Box<State>>,
}

impl ReplicaSession {
    pub(super) const fn remote() -> Self {
        Self { from: None, epoch: Epoch::ZERO, state: None }
    }
}

impl Storage {
    /// Makes a machine for every replica in the pool that has none, and exports it.
    pub(crate) fn adopt_replicas(&mut self, cx: &mut ShardContext, pool: Handle<PoolId>) {
        let Some(open) = self.open_pool(pool.id) else { return };
        let mut found = Vec::new();
        for state in open.replicas() {
            if self.replicas.contains_key(&state.replica) {
                continue;
            }
            let of = open.snapshots().filter(|snapshot| snapshot.replica == state.replica);
            let snapshots: Vec<_> = of.map(frozen).collect();
            found.push((state.replica, state.blocks, state.header.clone(), snapshots));
        }
        for (replica, blocks, header, snapshots) in found {
            let instance = self.next_instance(cx);
            let (boot, geometry) = (cx.params.boot, cx.params.geometry);
            let machine = Replica::import(replica, instance, boot, geometry, header, snapshots);
            #[cfg(feature = "flaws")]
            let machine = match cx.params.mutations.mirror {
                Some(flaw) => machine.flawed(flaw),
                None => machine,
            };
            let mut entry = ReplicaEntry {
                machine,
                pool,
                admitted: None,
                sessions: BTreeMap::new(),
                admitting_since: None,
                is_touched: false,
                #[cfg(feature = "flaws")]
                gone: BTreeMap::new(),
            };
            cx.touch(&mut entry.is_touched, Subject::Replica(replica));
            let handle = self.replicas.insert(replica, entry);
            cx.port.export_replica(handle, blocks);
        }
    }

    pub(crate) fn ask_replica(
        &mut self,
        cx: &mut ShardContext,
        replica: Handle<ReplicaId>,
        session: u64,
        tag: u64,
        request: Request<Buffer>,
    ) {
        self.with_replica(cx, replica, |machine, out| machine.request(session, tag, request, out));
    }

    fn with_replica(
        &mut self,
        cx: &mut ShardContext,
        replica: Handle<ReplicaId>,
        act: impl FnOnce(&mut Replica<Buffer>, &mut Vec<ReplicaOutput<Buffer>>),
    ) {
        let Some(entry) = self.replicas.at_mut(replica) else { return };
        cx.touch(&mut entry.is_touched, Subject::Replica(replica.id));
        let was_admitting = entry.admitting_since.is_some();
        let mut out = core::mem::take(&mut cx.replica_outputs);
        act(&mut entry.machine, &mut out);
        // An epoch that is durable now may be what a config or a new pool waits for.
        entry.admitting_since = match (entry.is_admitting(), entry.admitting_since) {
            (false, _) => None,
            (true, since) => since.or(Some(cx.now)),
        };
        cx.needs_settling |= was_admitting && entry.admitting_since.is_none();
        for output in out.drain(..) {
            self.replica_says(cx, replica, output);
        }
        cx.replica_outputs = out;
    }

    /// A target of this node wants a session. It hears at once if it gets none.
    pub(crate) fn open_replica(
        &mut self,
        cx: &mut ShardContext,
        replica: ReplicaId,
        session: u64,
        from: LocalTarget,
    ) {
        let epoch = from.epoch;
        let entry = self.replicas.get_mut(&replica);
        let is_open = entry.as_ref().is_some_and(|entry| {
            entry.admitted == Some(cx.params.node) && !cx.faults.hidden.contains(&replica)
        });
        match entry.filter(|_| is_open) {
            Some(entry) => {
                let opened = ReplicaSession { from: Some(from), epoch, state: None };
                entry.sessions.insert(session, opened);
            }
            None => closed_to_target(cx, replica, from),
        }
    }

    pub(crate) fn replica_session_closed(
        &mut self,
        cx: &mut ShardContext,
        replica: ReplicaId,
        session: u64,
    ) {
        let handle = self.replicas.handle(replica);
        let Some(entry) = self.replicas.at_mut(handle) else { return };
        let closed = entry.sessions.remove(&session);
        entry.remember(session, closed.as_ref());
        self.with_replica(cx, handle, |machine, out| machine.closed(session, out));
    }

    /// Ends a session from the replica's side.
    fn end_replica_session(
        &mut self,
        cx: &mut ShardContext,
        replica: ReplicaId,
        session: u64,
        status: Code,
    ) {
        let entry = self.replicas.get(&replica);
        let from = entry.and_then(|entry| entry.sessions.get(&session)?.from);
        match from {
            Some(from) => {
                self.replica_session_closed(cx, replica, session);
                closed_to_target(cx, replica, from);
            }
            // Whatever it still waits for has no answer any more.
            None => cx.port.end_session(session, status.into()),
        }
    }

    /// Ends every session that it has.
    pub(crate) fn cut_replica(&mut self, cx: &mut ShardContext, replica: ReplicaId) {
        let Some(entry) = self.replicas.get(&replica) else { return };
        let sessions: Vec<u64> = entry.sessions.keys().copied().collect();
        for session in sessions {
            self.end_replica_session(cx, replica, session, Code::Inaccessible);
        }
    }

    /// Ends every session of a replica that is to go.
    pub(crate) fn release_replica(&mut self, cx: &mut ShardContext, replica: ReplicaId) {
        self.cut_replica(cx, replica);
        cx.port.withdraw(Export::Replica(replica));
        if self.replicas.remove(&replica).is_some() {
            cx.touched.push(Subject::Replica(replica));
        }
    }

    pub(crate) fn release_all(&mut self, cx: &mut ShardContext) {
        let replicas: BTreeSet<ReplicaId> = self.replicas.keys().copied().collect();
        for replica in replicas {
            self.release_replica(cx, replica);
        }
    }

    /// Lets in targets of this epoch on this node, and nobody older.
    pub(crate) fn admit(
        &mut self,
        cx: &mut ShardContext,
        replica: ReplicaId,
        admission: model::Admission,
    ) {
        let handle = self.replicas.handle(replica);
        let Some(entry) = self.replicas.at_mut(handle) else { return };
        if entry.machine.header().epoch > admission.epoch {
            return;
        }
        entry.admitted = admission.node;
        self.with_replica(cx, handle, |machine, out| machine.admit(admission.epoch, out));
        cx.port.set_replica_node(replica, admission.node);
    }

    fn replica_says(
        &mut self,
        cx: &mut ShardContext,
        replica: Handle<ReplicaId>,
        output: ReplicaOutput<Buffer>,
    ) {
        match output {
            ReplicaOutput::Disk { id, session, op } => {
                self.replica_disk(cx, replica, id, session, op);
            }
            ReplicaOutput::Reply { session, tag, answer } => {
                self.replica_replies(cx, replica, session, tag, answer);
            }
            ReplicaOutput::Close { session } => {
                self.end_replica_session(cx, replica.id, session, Code::ReservationConflict);
            }
        }
    }

    fn replica_replies(
        &mut self,
        cx: &mut ShardContext,
        replica: Handle<ReplicaId>,
        session: u64,
        tag: u64,
        answer: Answer<Buffer>,
    ) {
        let Some(entry) = self.replicas.at_mut(replica) else { return };
        let Some(known) = entry.sessions.get_mut(&session) else { return };
        #[cfg(feature = "flaws")]
        if matches!(answer, Answer::Fenced(_)) {
            cx.audit.push(crate::AuditEvent::Fenced { replica: replica.id, epoch: known.epoch });
        }
        if let Some(to) = known.from {
            let answer = ChildAnswer { to, child: replica.id, tag, answer };
            return cx.send(Message::ChildAnswer(answer));
        }
        let epoch = known.epoch;
        let result = match answer {
            Answer::Fenced(state) => {
                known.state = Some(state);
                Ok(Reply::Done)
            }
            Answer::Done => Ok(Reply::Done),
            Answer::Data(data) => Ok(Reply::Data(data)),
            // A remote target has the map already, and reads a snapshot.
            Answer::Pieces(pieces) => Ok(Reply::Data(super::replica_commands::joined(&pieces))),
            Answer::Images(list) => {
                let numbers = self.snapshot_numbers(replica.id);
                let number = |frozen: Frozen| Some((*numbers.get(&frozen.snapshot)?, frozen));
                let list: Vec<_> = list.into_iter().filter_map(number).collect();
                let refused = Status::new(Code::InternalError);
                replica_protocol::put_images(&list).map(Reply::Data).ok_or(refused)
            }
            Answer::Failed(fault) => Err(replica_protocol::status(fault, epoch)),
        };
        cx.port.answer(cx.now, tag, result);
    }

    fn replica_disk(
        &mut self,
        cx: &mut ShardContext,
        replica: Handle<ReplicaId>,
        id: u64,
        session: Option<u64>,
        op: pool::Request,
    ) {
        let Some(pool) = self.pool_for_io(cx, replica) else { return };
        let requester = self.requester(replica, id, session, &op);
        self.ask_pool(cx, pool, requester, op);
    }

    #[cfg(feature = "flaws")]
    fn requester(
        &self,
        replica: Handle<ReplicaId>,
        id: u64,
        session: Option<u64>,
        op: &pool::Request,
    ) -> PoolRequester {
        if !matches!(op, pool::Request::Write { .. } | pool::Request::Zero { .. }) {
            return PoolRequester::Replica { replica, id };
        }
        let entry = self.replicas.at(replica);
        let epoch = entry.zip(session).and_then(|(entry, by)| {
            let open = entry.sessions.get(&by).map(|session| session.epoch);
            open.or_else(|| entry.gone.get(&by).copied())
        });
        PoolRequester::Change { replica, id, epoch: epoch.unwrap_or(Epoch::ZERO) }
    }

    #[cfg(not(feature = "flaws"))]
    #[allow(clippy::unused_self, reason = "only a proof looks at sessions")]
    const fn requester(
        &self,
        replica: Handle<ReplicaId>,
        id: u64,
        _session: Option<u64>,
        _op: &pool::Request,
    ) -> PoolRequester {
        PoolRequester::Replica { replica, id }
    }

    /// The replica's own pool.
    fn pool_for_io(&self, cx: &ShardContext, replica: Handle<ReplicaId>) -> Option<Handle<PoolId>> {
        let own = self.replicas.at(replica)?.pool;
        if cx.params.mutations.leaves_out(NodeMutation::WrongPool) {
            let is_other = |pool: &&PoolId| **pool != own.id && self.open_pool(**pool).is_some();
            let other = self.pools.keys().find(is_other).copied();
            return Some(other.map_or(own, |other| self.pools.handle(other)));
        }
        Some(own)
    }

    pub(crate) fn replica_disk_done(
        &mut self,
        cx: &mut ShardContext,
        replica: Handle<ReplicaId>,
        id: u64,
        result: Result<pool::Reply, pool::Error>,
    ) {
        self.with_replica(cx, replica, |machine, out| machine.done(id, result, out));
    }

    /// The snapshot that a pool knows by this number.
    pub(super) fn numbered_snapshot(&self, replica: ReplicaId, number: u32) -> Option<SnapshotId> {
        let mut all = self.snapshot_numbers(replica).into_iter();
        all.find(|(_, known)| *known == number).map(|(snapshot, _)| snapshot)
    }

    fn snapshot_numbers(&self, replica: ReplicaId) -> BTreeMap<SnapshotId, u32> {
        let entry = self.replicas.get(&replica);
        let pool = entry.and_then(|entry| self.open_pool(entry.pool.id));
        let all = pool.into_iter().flat_map(pool::Pool::snapshots);
        let of = all.filter(|found| found.replica == replica);
        of.map(|found| (found.snapshot, found.number)).collect()
    }

    /// Runs of blocks that may differ from a snapshot, and whether there is data in them.
    pub(super) fn page_runs(
        &self,
        replica: ReplicaId,
        image: Image,
        since: Option<SnapshotId>,
        extent: block::Extent,
    ) -> Result<Vec<(block::Extent, bool)>, pool::Error> {
        let entry = self.replicas.get(&replica);
        let pool = entry.and_then(|entry| self.open_pool(entry.pool.id));
        pool.ok_or(pool::Error::NotFound)?.changes(image, since, extent)
    }
}

impl ReplicaEntry {
    #[cfg(feature = "flaws")]
    fn remember(&mut self, session: u64, closed: Option<&ReplicaSession>) {
        self.gone.extend(closed.map(|closed| (session, closed.epoch)));
    }

    #[cfg(not(feature = "flaws"))]
    #[allow(clippy::unused_self, reason = "only a proof looks at sessions that are gone")]
    const fn remember(&mut self, _session: u64, _closed: Option<&ReplicaSession>) {}

    fn is_admitting(&self) -> bool {
        !self.machine.is_faulted() && self.machine.admitted() != Some(self.machine.header().epoch)
    }
}

fn closed_to_target(cx: &mut ShardContext, child: ReplicaId, from: LocalTarget) {
    let session = from.session;
    cx.tell_target(from.key(), mirror::Input::ChildClosed { child, session });
}

fn frozen(found: pool::SnapshotState) -> Frozen {
    let pool::SnapshotState { snapshot, attempt, roster, blocks, name, .. } = found;
    Frozen { snapshot, attempt, roster, blocks, name }
}
