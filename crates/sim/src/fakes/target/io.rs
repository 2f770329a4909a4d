//! Writes and reads of hosts.
//!
//! A lane is the lock of one block: held by one write or copy until every copy it was sent to has
//! finished or was dropped, also when its host is long gone.

use std::collections::{BTreeSet, VecDeque};

use model::{HostId, ReplicaId, Time};

use super::{Phase, READ_LEASE, Target, child::Purpose, copy::Copying};
use crate::{
    ChildDone, ChildOp, Ctx, PathOp, PathRequest, PathResult,
    fakes::{disk::BLOCKS, engine::Engine},
};

#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) active: Option<Active>,
    queue: VecDeque<HostWrite>,
}

#[derive(Debug)]
pub(super) enum Active {
    Write(Writing),
    Copy(Copying),
}

#[derive(Debug)]
pub(super) struct Writing {
    write: HostWrite,
    waiting: BTreeSet<ReplicaId>,
    /// Copies that had no room for it.
    full: BTreeSet<ReplicaId>,
    is_answered: bool,
}

#[derive(Clone, Copy, Debug)]
struct HostWrite {
    host: HostId,
    session: u64,
    tag: u64,
    value: u64,
}

#[derive(Debug)]
pub(super) struct Reading {
    pub(super) host: HostId,
    pub(super) session: u64,
    tag: u64,
    block: usize,
    asked: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    at: Time,
    waiting: BTreeSet<ReplicaId>,
    value: Option<u64>,
}

impl Lane {
    pub(super) fn is_idle(&self) -> bool {
        self.active.is_none()
    }

    /// The host of a write that is under way and not answered.
    pub(super) fn unanswered(&self) -> Option<HostId> {
        match &self.active {
            Some(Active::Write(writing)) if !writing.is_answered => Some(writing.write.host),
            _ => None,
        }
    }

    /// Writes that were not started go with their session.
    pub(super) fn forget(&mut self, host: HostId, session: u64) {
        self.queue.retain(|write| (write.host, write.session) != (host, session));
    }
}

impl Engine {
    pub(in crate::fakes) fn serve_path(
        &mut self,
        ctx: &mut Ctx<'_>,
        host: HostId,
        request: PathRequest,
    ) {
        let target = self.targets.get_mut(&request.volume);
        if let Some(target) = target.filter(|target| target.epoch == request.epoch) {
            target.on_path(ctx, host, request);
        } else if !matches!(request.op, PathOp::Disconnect) {
            let PathRequest { session, volume, .. } = request;
            let refused = matches!(request.op, PathOp::Connect);
            let result = if refused { PathResult::Refused } else { PathResult::Closed };
            let reply = crate::PathReply { session, volume, result };
            ctx.send(crate::Party::Host(host), crate::Message::PathReply(reply));
        }
    }
}

impl Target {
    pub fn on_path(&mut self, ctx: &mut Ctx<'_>, host: HostId, request: PathRequest) {
        let session = request.session;
        if let PathOp::Connect = request.op {
            self.connect(ctx, host, session);
            return;
        }
        let Some(heard) = self.sessions.get_mut(&(host, session)) else {
            self.reply(ctx, host, session, PathResult::Closed);
            return;
        };
        *heard = ctx.now;
        match request.op {
            PathOp::Connect => {}
            PathOp::Disconnect => {
                self.sessions.remove(&(host, session));
                self.lanes.iter_mut().for_each(|lane| lane.forget(host, session));
                self.reads.retain(|_, read| (read.host, read.session) != (host, session));
                ctx.out.changed = true;
            }
            PathOp::Ping => self.reply(ctx, host, session, PathResult::Pong),
            PathOp::Write { tag, block, value } => {
                self.lanes[block].queue.push_back(HostWrite { host, session, tag, value });
            }
            PathOp::Read { tag, block } => {
                self.numbers += 1;
                let read = Reading { host, session, tag, block, asked: None };
                self.reads.insert(self.numbers, read);
            }
        }
        self.advance(ctx);
    }

    fn connect(&mut self, ctx: &mut Ctx<'_>, host: HostId, session: u64) {
        if self.phase != Phase::Serving || !self.item.hosts.contains(&host) {
            self.reply(ctx, host, session, PathResult::Refused);
            return;
        }
        // One session per host: what is still on its way on an older one is not taken any more.
        let older: Vec<_> = self
            .sessions
            .keys()
            .copied()
            .filter(|(other, number)| *other == host && *number < session)
            .collect();
        for (host, older) in older {
            self.close_session(ctx, host, older);
        }
        if self.sessions.keys().any(|(other, _)| *other == host) {
            self.reply(ctx, host, session, PathResult::Refused);
            return;
        }
        self.sessions.insert((host, session), ctx.now);
        ctx.out.changed = true;
        self.reply(ctx, host, session, PathResult::Connected);
    }

    pub fn on_host_reset(&mut self, ctx: &mut Ctx<'_>, host: HostId) {
        let open: Vec<_> =
            self.sessions.keys().copied().filter(|(other, _)| *other == host).collect();
        for (host, session) in open {
            self.close_session(ctx, host, session);
        }
    }

    pub(super) fn start_writes(&mut self, ctx: &mut Ctx<'_>) {
        if self.change.is_some() || self.freeze.is_some() || self.is_held() {
            return;
        }
        for block in 0..BLOCKS {
            if !self.lanes[block].is_idle() {
                continue;
            }
            let Some(write) = self.lanes[block].queue.pop_front() else { continue };
            let to: Vec<_> = self
                .children
                .keys()
                .copied()
                .filter(|id| self.record.is_recorded_healthy(*id) || self.is_copied_to(*id))
                .collect();
            let mut waiting = BTreeSet::new();
            for id in to {
                let op = ChildOp::Write { block, value: write.value };
                if self.ask(ctx, id, op, Purpose::Write { block }) {
                    waiting.insert(id);
                }
            }
            let full = BTreeSet::new();
            let active = Writing { write, waiting, full, is_answered: false };
            self.lanes[block].active = Some(Active::Write(active));
        }
    }

    pub(super) fn wrote(&mut self, block: usize, id: ReplicaId) {
        if let Some(Active::Write(writing)) = &mut self.lanes[block].active {
            writing.waiting.remove(&id);
        }
    }

    pub(super) fn write_full(&mut self, block: usize, id: ReplicaId) {
        if let Some(Active::Write(writing)) = &mut self.lanes[block].active {
            writing.waiting.remove(&id);
            writing.full.insert(id);
        }
    }

    /// Acknowledges what every healthy copy has, and frees the lanes of what is all done.
    pub(super) fn finish_writes(&mut self, ctx: &mut Ctx<'_>) {
        for block in 0..BLOCKS {
            self.finish_write(ctx, block);
            let lane = &mut self.lanes[block];
            let over = match &lane.active {
                Some(Active::Write(writing)) => writing.is_answered && writing.waiting.is_empty(),
                Some(Active::Copy(copying)) => copying.is_over(),
                None => false,
            };
            if over {
                lane.active = None;
            }
        }
    }

    fn finish_write(&mut self, ctx: &mut Ctx<'_>, block: usize) {
        let healthy: BTreeSet<_> = self.acknowledging().collect();
        // During a resync only its source counts, which cannot be excluded for being full.
        let counted: BTreeSet<_> = self.record.healthy().collect();
        let held = self.is_held();
        let Some(Active::Write(writing)) = &mut self.lanes[block].active else { return };
        if writing.is_answered || writing.waiting.iter().any(|id| healthy.contains(id)) {
            return;
        }
        let write = writing.write;
        let full: Vec<_> = writing.full.iter().copied().collect();
        if counted.iter().all(|id| full.contains(id)) {
            writing.is_answered = true;
            // Copies that are being filled may have taken it: that block is copied to them again.
            for child in self.children.values_mut() {
                child.copied[block] = false;
            }
            let result = PathResult::NoSpace { tag: write.tag };
            self.reply(ctx, write.host, write.session, result);
            return;
        }
        if !full.is_empty() {
            writing.full.clear();
            for id in full {
                self.lose(ctx, id);
            }
            return;
        }
        if !held {
            writing.is_answered = true;
            let result = PathResult::Wrote { tag: write.tag };
            self.reply(ctx, write.host, write.session, result);
        }
    }

    pub(super) fn forget_in_lanes(&mut self, id: ReplicaId) {
        for lane in &mut self.lanes {
            match &mut lane.active {
                Some(Active::Write(writing)) => {
                    writing.waiting.remove(&id);
                    writing.full.remove(&id);
                }
                Some(Active::Copy(copying)) => copying.forget(id),
                None => {}
            }
        }
    }

    pub(super) fn start_reads(&mut self, ctx: &mut Ctx<'_>) {
        if self.is_held() {
            return;
        }
        let counted: Vec<_> = self.record.healthy().collect();
        let Some(source) = self.source() else { return };
        let idle: Vec<_> =
            self.reads.iter().filter(|(_, read)| read.asked.is_none()).map(|(n, _)| *n).collect();
        for number in idle {
            let Some(block) = self.reads.get(&number).map(|read| read.block) else { continue };
            let mut waiting = BTreeSet::new();
            for id in &counted {
                let op = if *id == source { ChildOp::Read { block } } else { ChildOp::Ping };
                if self.ask(ctx, *id, op, Purpose::Read { number }) {
                    waiting.insert(*id);
                }
            }
            if let Some(read) = self.reads.get_mut(&number) {
                read.asked = Some(Asked { at: ctx.now, waiting, value: None });
            }
        }
    }

    pub(super) fn read(&mut self, ctx: &mut Ctx<'_>, number: u64, id: ReplicaId, done: &ChildDone) {
        let held = self.is_held();
        let Some(read) = self.reads.get_mut(&number) else { return };
        let Some(asked) = &mut read.asked else { return };
        if !asked.waiting.remove(&id) {
            return;
        }
        if let ChildDone::Value(value) = done {
            asked.value = Some(*value);
        }
        if !asked.waiting.is_empty() {
            return;
        }
        // The lease is judged when the read completes: an answer that came late proves nothing.
        match asked.value {
            Some(value) if !held && ctx.now.since(asked.at) < READ_LEASE => {
                let (host, session, tag) = (read.host, read.session, read.tag);
                self.reads.remove(&number);
                self.reply(ctx, host, session, PathResult::Value { tag, value });
            }
            _ => read.asked = None,
        }
    }

    /// Reads that asked a copy which is gone begin again.
    pub(super) fn forget_in_reads(&mut self, id: ReplicaId) {
        for read in self.reads.values_mut() {
            if read.asked.as_ref().is_some_and(|asked| asked.waiting.contains(&id)) {
                read.asked = None;
            }
        }
    }

    /// Where reads and copies come from: here if possible.
    pub(super) fn source(&self) -> Option<ReplicaId> {
        let healthy = || self.record.healthy().filter(|id| self.is_open(*id));
        healthy().find(|id| self.is_local(*id)).or_else(|| healthy().next())
    }

    pub(super) fn is_local(&self, id: ReplicaId) -> bool {
        self.children.get(&id).is_some_and(|child| child.node == self.node)
    }
}
