//! A replicated target inside an engine: a small but honest mirror after `engine.md` §2.6.
//!
//! ```text
//! Reading ─▶ Fencing ─▶ Claiming ─▶ Settling ─▶ Serving ─▶ Stopping ─▶ Stopped
//!    ▲          │           │                      │
//!    └──────────┴───────────┘ not enough copies,   ├─▶ Fenced   a higher epoch was seen
//!                             or the record moved  └─▶ Failed   nothing more can be promised
//! ```
//! Fenced and failed ones never acknowledge anything again. Regions, bitmaps and flushes are left
//! to the real mirror: a copy is always whole here.

mod change;
mod child;
mod claim;
mod copy;
mod io;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use model::{
    AttemptId, ChildSeen, Epoch, HostId, Membership, Millis, NodeId, ReplicaId, TargetHealth,
    TargetItem, TargetSeen, Time, VolumeId,
};

use self::{
    change::Change,
    child::Child,
    io::{Lane, Reading},
    snapshot::Freeze,
};
use crate::{
    Call, Caller, Ctx, Message, Party, PathReply, PathResult, StoreOp, fakes::disk::BLOCKS,
};

/// A read completes only if every copy answered a request sent less than this long ago.
pub const READ_LEASE: Millis = Millis(1_000);
/// The lease and the drift of two clocks.
pub const READ_LEASE_OVER: Millis = Millis(1_100);
/// A copy that does not answer in this time is lost.
const CHILD_TIMEOUT: Millis = Millis(1_000);
/// How long a claim waits for copies that do not answer.
const FENCE_TIMEOUT: Millis = Millis(1_500);
/// An answer of the store that is not here by then is asked for again.
const STORE_TIMEOUT: Millis = Millis(1_000);
/// Acknowledgements are held this long; two thirds of a host's patience would be twenty seconds.
const HOLD_MAX: Millis = Millis(10_000);
/// A copy that was lost is opened again after this time.
const REOPEN_AFTER: Millis = Millis(1_500);
/// A session without traffic is over.
const KEEP_ALIVE: Millis = Millis(5_000);

#[derive(Debug)]
pub struct Target {
    pub volume: VolumeId,
    pub epoch: Epoch,
    pub phase: Phase,
    node: NodeId,
    item: TargetItem,
    /// As last read or written.
    pub record: Membership,
    children: BTreeMap<ReplicaId, Child>,
    change: Option<Change>,
    lanes: [Lane; BLOCKS],
    reads: BTreeMap<u64, Reading>,
    sessions: BTreeMap<(HostId, u64), Time>,
    freeze: Option<Freeze>,
    failed_snapshots: Vec<AttemptId>,
    held_since: Option<Time>,
    /// Not before this time may it serve: an isolated predecessor may still read until then.
    serves_at: Time,
    asked_at: Time,
    /// The store's answer that is awaited.
    asked: u64,
    numbers: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for the record.
    Reading,
    /// Waits for the copies that are recorded healthy.
    Fencing,
    /// Its claim is on its way to the store.
    Claiming,
    /// The roster is on its way to the copies; then the read lease of a predecessor runs out.
    Settling,
    Serving,
    Stopping,
    Stopped,
    Fenced,
    Failed(String),
}

impl Target {
    pub fn start(volume: VolumeId, node: NodeId, item: TargetItem, ctx: &mut Ctx<'_>) -> Self {
        let mut target = Self {
            volume,
            epoch: item.epoch,
            phase: Phase::Reading,
            node,
            item,
            record: Membership::founded(volume, []),
            children: BTreeMap::new(),
            change: None,
            lanes: Default::default(),
            reads: BTreeMap::new(),
            sessions: BTreeMap::new(),
            freeze: None,
            failed_snapshots: Vec::new(),
            held_since: None,
            serves_at: ctx.now,
            asked_at: ctx.now,
            asked: 0,
            numbers: 0,
        };
        target.name_children();
        target.read_record(ctx);
        ctx.out.changed = true;
        target
    }

    /// The config says something new about it.
    pub fn update(&mut self, ctx: &mut Ctx<'_>, item: &TargetItem) {
        if self.item == *item {
            return;
        }
        let named = |id: &ReplicaId| item.children.iter().any(|child| child.replica == *id);
        let dropped: Vec<_> = self.children.keys().copied().filter(|id| !named(id)).collect();
        for id in dropped {
            // Nothing waits for the answers of a copy that is gone.
            self.lose(ctx, id);
        }
        self.item = item.clone();
        self.name_children();
        self.drop_admission();
        let left: Vec<_> =
            self.sessions.keys().copied().filter(|(h, _)| !item.hosts.contains(h)).collect();
        for (host, session) in left {
            self.close_session(ctx, host, session);
        }
        if !item.serve {
            match self.phase {
                Phase::Reading | Phase::Fencing | Phase::Fenced | Phase::Failed(_) => {
                    self.end(ctx, Phase::Stopped);
                }
                Phase::Serving => self.phase = Phase::Stopping,
                Phase::Claiming | Phase::Settling | Phase::Stopping | Phase::Stopped => {}
            }
        }
        ctx.out.changed = true;
        self.advance(ctx);
    }

    /// Stops at once, without a word to the store.
    pub fn close(&mut self, ctx: &mut Ctx<'_>) {
        self.end(ctx, Phase::Stopped);
    }

    pub fn beat(&mut self, ctx: &mut Ctx<'_>) {
        self.beat_claim(ctx);
        self.beat_children(ctx);
        self.beat_change(ctx);
        self.beat_sessions(ctx);
        self.beat_hold(ctx);
        self.start_copies(ctx);
        self.advance(ctx);
    }

    pub fn seen(&self) -> TargetSeen {
        let health = match &self.phase {
            Phase::Reading | Phase::Fencing | Phase::Claiming | Phase::Settling => {
                TargetHealth::Starting
            }
            Phase::Serving | Phase::Stopping | Phase::Stopped => TargetHealth::Serving,
            Phase::Fenced => TargetHealth::Fenced,
            Phase::Failed(reason) => TargetHealth::Failed { reason: reason.clone() },
        };
        let retired = |id: &ReplicaId| {
            let item = self.item.children.iter().find(|child| child.replica == *id);
            let admitting = self.change.as_ref().is_some_and(|change| change.admits(*id));
            item.is_none_or(|item| item.retire)
                && !self.record.is_recorded_healthy(*id)
                && !admitting
        };
        let kept = self.children.iter().filter(|(id, _)| !retired(id));
        let children = kept.map(|(id, child)| {
            let copying = self.is_copied_to(*id).then(|| child.percent());
            (*id, ChildSeen { copied: copying, is_full: child.is_full, instance: None })
        });
        TargetSeen {
            epoch: self.epoch,
            health,
            size: self.item.size,
            hosts: self.hosts(),
            children: children.collect(),
            failed_snapshots: self.failed_snapshots.clone(),
            taken_snapshots: self.taken_snapshots(),
        }
    }

    /// Hosts with an open session or commands that are not drained.
    pub fn hosts(&self) -> BTreeSet<HostId> {
        let sessions = self.sessions.keys().map(|(host, _)| *host);
        sessions.chain(self.lanes.iter().filter_map(Lane::unanswered)).collect()
    }

    pub fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving | Phase::Stopping)
    }

    /// It serves, and nothing holds its acknowledgements back.
    pub fn may_acknowledge(&self) -> bool {
        self.is_serving() && !self.is_held()
    }

    /// The copies whose answers an acknowledgement waits for.
    pub fn acknowledging(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.record.children.iter().filter(|(_, healthy)| **healthy).map(|(id, _)| *id)
    }

    /// Everything that may go on now does.
    fn advance(&mut self, ctx: &mut Ctx<'_>) {
        if !matches!(self.phase, Phase::Claiming | Phase::Settling) && !self.is_serving() {
            return;
        }
        self.finish_writes(ctx);
        self.advance_change(ctx);
        self.settle_claim(ctx);
        if self.is_serving() {
            self.advance_freeze(ctx);
            self.start_reads(ctx);
            self.start_writes(ctx);
        }
    }

    fn self_fence(&mut self, ctx: &mut Ctx<'_>) {
        let (volume, epoch) = (self.volume, self.epoch);
        ctx.note(|| format!("target {} {epoch} fenced", crate::names::label(volume.0)));
        self.end(ctx, Phase::Fenced);
    }

    fn fail(&mut self, ctx: &mut Ctx<'_>, reason: &str) {
        self.end(ctx, Phase::Failed(reason.into()));
    }

    fn end(&mut self, ctx: &mut Ctx<'_>, phase: Phase) {
        if matches!(self.phase, Phase::Stopped | Phase::Fenced) && phase != Phase::Stopped {
            return;
        }
        let open: Vec<_> = self.sessions.keys().copied().collect();
        for (host, session) in open {
            self.close_session(ctx, host, session);
        }
        self.phase = phase;
        self.change = None;
        self.freeze = None;
        self.lanes = Default::default();
        self.reads.clear();
        ctx.out.changed = true;
    }

    fn close_session(&mut self, ctx: &mut Ctx<'_>, host: HostId, session: u64) {
        if self.sessions.remove(&(host, session)).is_some() {
            self.reply(ctx, host, session, PathResult::Closed);
            ctx.out.changed = true;
        }
        for lane in &mut self.lanes {
            lane.forget(host, session);
        }
        self.reads.retain(|_, read| (read.host, read.session) != (host, session));
    }

    fn reply(&self, ctx: &mut Ctx<'_>, host: HostId, session: u64, result: PathResult) {
        let volume = self.volume;
        let reply = PathReply { session, volume, result };
        ctx.send(Party::Host(host), Message::PathReply(reply));
    }

    fn ask_store(&mut self, ctx: &mut Ctx<'_>, op: StoreOp) {
        self.numbers += 1;
        self.asked = self.numbers;
        self.asked_at = ctx.now;
        let caller = Caller::Target { volume: self.volume, epoch: self.epoch };
        let call = Call { caller, number: self.numbers };
        ctx.send(Party::Store, Message::ToStore { call, op });
    }

    fn beat_sessions(&mut self, ctx: &mut Ctx<'_>) {
        let silent = |heard: &Time| ctx.now.since(*heard) > KEEP_ALIVE;
        let over: Vec<_> =
            self.sessions.iter().filter(|(_, at)| silent(at)).map(|(key, _)| *key).collect();
        for (host, session) in over {
            self.close_session(ctx, host, session);
        }
    }

    fn beat_hold(&mut self, ctx: &mut Ctx<'_>) {
        if !self.is_serving() || !(self.is_held() || self.change.is_some()) {
            self.held_since = None;
            return;
        }
        let since = *self.held_since.get_or_insert(ctx.now);
        if ctx.now.since(since) > HOLD_MAX {
            self.fail(ctx, "a membership change could not be recorded in time");
        }
    }
}
