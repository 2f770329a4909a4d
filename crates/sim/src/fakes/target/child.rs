//! The target's side of its sessions with copies.

use std::collections::{BTreeMap, VecDeque};

use model::{AttemptId, NodeId, ReplicaId, SnapshotId, Time};

use super::{CHILD_TIMEOUT, Phase, REOPEN_AFTER, Target};
use crate::{
    ChildDone, ChildError, ChildOp, ChildReply, ChildRequest, Ctx, Header, Message, Party,
    fakes::disk::BLOCKS,
};

#[derive(Debug)]
pub(super) struct Child {
    pub(super) node: NodeId,
    pub(super) link: Link,
    /// Blocks that were copied to it since it was opened or since a resync began.
    pub(super) copied: [bool; BLOCKS],
    pub(super) frozen: BTreeMap<SnapshotId, AttemptId>,
    /// Images on their way to it.
    pub(super) arriving: BTreeMap<SnapshotId, AttemptId>,
    /// Its pool took no more.
    pub(super) is_full: bool,
}

#[derive(Debug)]
pub(super) enum Link {
    Closed { until: Time },
    Opening { session: u64, sent: Time },
    Open { session: u64, next: u32, pending: VecDeque<Pending> },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    sequence: u32,
    sent: Time,
    purpose: Purpose,
}

/// What an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Write {
        block: usize,
    },
    Read {
        number: u64,
    },
    CopyRead {
        block: usize,
    },
    CopyWrite {
        block: usize,
    },
    Roster,
    Freeze,
    Thaw,
    /// The images of one copy are read, to be brought to those that lack them.
    ImagesRead,
    ImagesWritten,
}

impl Child {
    pub(super) fn is_open(&self) -> bool {
        matches!(self.link, Link::Open { .. })
    }

    pub(super) fn percent(&self) -> u8 {
        let done = self.copied.iter().filter(|copied| **copied).count();
        u8::try_from(done * 100 / BLOCKS).unwrap_or(100)
    }
}

impl Target {
    /// The config's list of children; sessions of those that stay are kept.
    pub(super) fn name_children(&mut self) {
        let item = &self.item;
        self.children.retain(|id, _| item.children.iter().any(|child| child.replica == *id));
        for child in &item.children {
            self.children.entry(child.replica).or_insert_with(|| Child {
                node: child.node,
                link: Link::Closed { until: Time(0) },
                copied: [false; BLOCKS],
                frozen: BTreeMap::new(),
                arriving: BTreeMap::new(),
                is_full: false,
            });
        }
        let unwritten = item.children.iter().filter(|child| !child.rebuild || child.retire);
        let unwritten = unwritten.map(|child| child.replica);
        let unwritten: Vec<_> =
            unwritten.filter(|id| !self.record.is_recorded_healthy(*id)).collect();
        for id in unwritten {
            self.withdraw_copies(id);
        }
    }

    pub(super) fn is_open(&self, id: ReplicaId) -> bool {
        self.children.get(&id).is_some_and(Child::is_open)
    }

    /// Sends the new epoch; the answer opens the session.
    pub(super) fn open(&mut self, ctx: &mut Ctx<'_>, id: ReplicaId) {
        self.numbers += 1;
        let session = self.numbers;
        let Some(child) = self.children.get_mut(&id) else { return };
        child.link = Link::Opening { session, sent: ctx.now };
        let node = child.node;
        self.send_child(ctx, node, id, session, 0, ChildOp::Fence);
    }

    pub(super) fn ask(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: ReplicaId,
        op: ChildOp,
        purpose: Purpose,
    ) -> bool {
        let Some(child) = self.children.get_mut(&id) else { return false };
        let node = child.node;
        let Link::Open { session, next, pending } = &mut child.link else { return false };
        let (session, sequence) = (*session, *next);
        *next += 1;
        pending.push_back(Pending { sequence, sent: ctx.now, purpose });
        self.send_child(ctx, node, id, session, sequence, op);
        true
    }

    fn send_child(
        &self,
        ctx: &mut Ctx<'_>,
        node: NodeId,
        replica: ReplicaId,
        session: u64,
        sequence: u32,
        op: ChildOp,
    ) {
        let (volume, epoch) = (self.volume, self.epoch);
        let request = ChildRequest { session, sequence, volume, replica, epoch, op };
        ctx.send(Party::Node(node), Message::Child(request));
    }

    pub fn on_child(&mut self, ctx: &mut Ctx<'_>, reply: ChildReply) {
        if let Err(ChildError::Stale { epoch }) = reply.result
            && epoch >= self.epoch
        {
            self.self_fence(ctx);
            return;
        }
        let Some(child) = self.children.get_mut(&reply.replica) else { return };
        match &mut child.link {
            Link::Opening { session, .. } if *session == reply.session => match reply.result {
                Ok(ChildDone::Header(header)) => self.opened(ctx, reply.replica, header),
                _ => self.lose(ctx, reply.replica),
            },
            Link::Open { session, pending, .. } if *session == reply.session => {
                match pending.pop_front() {
                    Some(first) if first.sequence == reply.sequence => {
                        self.answered(ctx, reply.replica, first, reply.result);
                    }
                    _ => self.lose(ctx, reply.replica),
                }
            }
            _ => return,
        }
        self.advance(ctx);
    }

    fn opened(&mut self, ctx: &mut Ctx<'_>, id: ReplicaId, header: Header) {
        if header.roster > self.record.roster {
            let reason = "the record is older than a copy: the store lost history";
            self.fail(ctx, reason);
            return;
        }
        let Some(child) = self.children.get_mut(&id) else { return };
        let Link::Opening { session, .. } = child.link else { return };
        child.link = Link::Open { session, next: 1, pending: VecDeque::new() };
        child.frozen = header.snapshots;
        child.copied = [false; BLOCKS];
        ctx.out.changed = true;
        if self.phase == Phase::Fencing {
            self.advance_fencing(ctx, false);
        }
    }

    fn answered(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: ReplicaId,
        pending: Pending,
        result: Result<ChildDone, ChildError>,
    ) {
        let purpose = pending.purpose;
        let full = matches!(result, Err(ChildError::NoSpace));
        if let Some(child) = self.children.get_mut(&id) {
            // One block may fit where the next does not: it is full until all of it is there.
            let is_full = full || (child.is_full && child.copied != [true; BLOCKS]);
            ctx.out.changed |= child.is_full != is_full;
            child.is_full = is_full;
        }
        if let (true, Purpose::Write { block }, Some(child)) =
            (full, purpose, self.children.get_mut(&id))
        {
            child.copied[block] = false;
        }
        match (purpose, result) {
            (Purpose::Write { block }, Err(ChildError::NoSpace)) => self.write_full(block, id),
            (Purpose::Freeze, Err(ChildError::NoSpace)) => self.freeze_failed(id),
            (_, Err(_)) => self.lose(ctx, id),
            (Purpose::Write { block }, Ok(_)) => self.wrote(block, id),
            (Purpose::Read { number }, Ok(done)) => self.read(ctx, number, id, &done),
            (Purpose::CopyRead { block }, Ok(ChildDone::Value(value))) => {
                self.copy_read(ctx, block, value);
            }
            (Purpose::CopyWrite { block }, Ok(_)) => self.copy_written(ctx, block, id),
            (Purpose::Roster, Ok(_)) => self.rostered(id),
            (Purpose::Freeze, Ok(_)) => self.frozen(id),
            (Purpose::ImagesRead, Ok(ChildDone::Frozen(images))) => self.images(ctx, &images),
            (Purpose::ImagesWritten, Ok(_)) => self.images_written(id),
            (Purpose::Thaw | Purpose::CopyRead { .. } | Purpose::ImagesRead, Ok(_)) => {}
        }
    }

    /// The copy cannot be used. If it is recorded healthy, nothing is acknowledged from here on
    /// until its exclusion is recorded.
    pub(super) fn lose(&mut self, ctx: &mut Ctx<'_>, id: ReplicaId) {
        let Some(child) = self.children.get_mut(&id) else { return };
        child.link = Link::Closed { until: ctx.now + REOPEN_AFTER };
        child.copied = [false; BLOCKS];
        child.arriving.clear();
        self.forget_in_lanes(id);
        self.forget_in_reads(id);
        self.forget_in_change(id);
        self.forget_in_freeze(id);
        ctx.out.changed = true;
        if self.phase == Phase::Fencing {
            self.advance_fencing(ctx, false);
        }
    }

    pub fn on_node_reset(&mut self, ctx: &mut Ctx<'_>, node: NodeId) {
        let lost: Vec<_> = self
            .children
            .iter()
            .filter(|(_, child)| child.node == node && !matches!(child.link, Link::Closed { .. }))
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            self.lose(ctx, id);
        }
        self.advance(ctx);
    }

    pub(super) fn beat_children(&mut self, ctx: &mut Ctx<'_>) {
        let late = |sent: Time| ctx.now.since(sent) > CHILD_TIMEOUT;
        let silent: Vec<_> = self
            .children
            .iter()
            .filter(|(_, child)| match &child.link {
                Link::Closed { .. } => false,
                Link::Opening { sent, .. } => late(*sent) && self.phase != Phase::Fencing,
                Link::Open { pending, .. } => pending.front().is_some_and(|p| late(p.sent)),
            })
            .map(|(id, _)| *id)
            .collect();
        for id in silent {
            self.lose(ctx, id);
        }
        if self.is_serving() {
            self.reopen(ctx);
        }
    }

    /// Copies that may be rebuilt are opened, again and again.
    fn reopen(&mut self, ctx: &mut Ctx<'_>) {
        let wanted: Vec<_> = self
            .item
            .children
            .iter()
            .filter(|item| item.rebuild && !item.retire)
            .map(|item| item.replica)
            .filter(|id| !self.record.is_recorded_healthy(*id))
            .filter(|id| {
                let link = self.children.get(id).map(|child| &child.link);
                matches!(link, Some(Link::Closed { until }) if *until <= ctx.now)
            })
            .collect();
        for id in wanted {
            self.open(ctx, id);
        }
    }
}
