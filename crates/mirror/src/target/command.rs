//! What hosts ask, and everything else that takes its turn under the lock.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use block::{BLOCK, Durability, Extent};
use model::{FlushMark, HostId, Membership, ReplicaId, Reserved, Time};

use super::{
    Event, Output, Phase, Target, Turn,
    child::{Child, Stand},
    clean::Cleaning,
    copy::Copy,
    flush::Flushing,
    read::Reading,
    write::Writing,
};
use crate::Fault;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command<D> {
    Read {
        extent: Extent,
    },
    Write {
        extent: Extent,
        data: D,
        durability: Durability,
    },
    /// Deallocate or write zeroes: reads as zeros from now on.
    Zero {
        extent: Extent,
        durability: Durability,
    },
    Flush,
    /// Keep this in the record.
    Reserve(Reserved),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostReply<D> {
    pub session: u64,
    pub tag: u64,
    pub result: HostResult<D>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostResult<D> {
    Done,
    Data(D),
    Failed(HostFault),
}

/// In the words of the protocol that hosts speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostFault {
    /// Past the end of the volume.
    OutOfRange,
    /// Every replica is full.
    NoSpace,
    /// It could not be written, or what was acknowledged before may be gone.
    WriteFault,
    /// No replica can read it.
    Unreadable,
}

/// Whom to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    pub(super) session: u64,
    pub(super) tag: u64,
    pub(super) host: HostId,
    pub(super) arrived: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Op<D> {
    /// Whose it is: a host is not gone while a command of its is under way.
    pub(super) host: Option<HostId>,
    /// Nobody, once it is answered or the host is gone; and for what the target does by itself.
    pub(super) asker: Option<Asker>,
    pub(super) work: Work<D>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work<D> {
    Write(Writing<D>),
    Read(Reading<D>),
    Flush(Flushing),
    Copy(Copy),
    Clean(Cleaning),
}

impl<D: Clone> Target<D> {
    pub(super) fn command(
        &mut self,
        turn: &mut Turn<'_, D>,
        session: u64,
        tag: u64,
        command: Command<D>,
    ) -> Event {
        let Some(host) = self.hosts.host(session) else {
            if matches!(command, Command::Reserve(_)) {
                let result = HostResult::Failed(HostFault::WriteFault);
                turn.put(Output::Reply(HostReply { session, tag, result }));
            }
            turn.put(Output::CloseHost { session });
            return Event::Change;
        };
        let asker = Asker { session, tag, host, arrived: turn.now };
        match command {
            Command::Flush => {
                self.host_flush(turn, asker, host);
                return Event::Change;
            }
            Command::Reserve(wanted) => {
                self.host_reserve(asker, wanted);
                return Event::Change;
            }
            Command::Read { extent } if self.is_inside(extent) => {
                self.host_read(turn, asker, extent);
            }
            Command::Write { extent, data, durability } if self.is_inside(extent) => {
                self.host_write(turn, asker, Writing::new(extent, Some(data), durability));
            }
            Command::Zero { extent, durability } if self.is_inside(extent) => {
                self.host_write(turn, asker, Writing::new(extent, None, durability));
            }
            _ => reply(turn, asker, HostResult::Failed(HostFault::OutOfRange)),
        }
        Event::Data
    }

    pub(super) const fn blocks(&self) -> u64 {
        self.item.size.0 / BLOCK as u64
    }

    fn is_inside(&self, extent: Extent) -> bool {
        let end = extent.start.checked_add(u64::from(extent.blocks));
        extent.blocks > 0 && end.is_some_and(|end| end <= self.blocks())
    }

    pub(super) fn new_op(&mut self, asker: Option<Asker>, work: Work<D>) -> u64 {
        if self.ops.is_empty() && self.children.values().all(|child| child.sent.is_empty()) {
            // Numbers need to differ only among what is under way, here or at a child.
            self.next_op = 0;
        }
        let id = self.next_op;
        self.next_op += 1;
        let host = asker.map(|asker| asker.host);
        self.ops.insert(id, Op { host, asker, work });
        id
    }

    /// Begun now if nothing is in its way, else in its turn.
    pub(super) fn enqueue(&mut self, turn: &mut Turn<'_, D>, id: u64) {
        if !self.queue.is_empty() || !self.try_start(turn, id) {
            self.queue.push_back(id);
        }
    }

    pub(super) fn start_queued(&mut self, turn: &mut Turn<'_, D>) {
        if self.queue.is_empty() || self.is_gated() || !self.is_serving() {
            return;
        }
        let waiting: Vec<_> = core::mem::take(&mut self.queue).into();
        let mut ahead: Vec<Extent> = Vec::new();
        let mut still = VecDeque::new();
        for id in waiting {
            let Some(extent) = self.ops.get(id).and_then(Op::extent) else { continue };
            // Whoever came first goes first, so that a long one is not passed by for ever.
            let is_behind = ahead.iter().any(|other| other.overlaps(&extent));
            if is_behind || !self.try_start(turn, id) {
                ahead.push(extent);
                still.push_back(id);
            }
        }
        still.append(&mut self.queue);
        self.queue = still;
    }

    fn try_start(&mut self, turn: &mut Turn<'_, D>, id: u64) -> bool {
        if self.is_gated() || self.is_frozen() || !self.is_serving() {
            return false;
        }
        let Some(extent) = self.ops.get(id).and_then(Op::extent) else { return true };
        if !self.lock.take(extent) {
            return false;
        }
        match self.ops.get(id).map(|op| &op.work) {
            Some(Work::Write(_)) => self.start_write(turn, id),
            Some(Work::Copy(_)) => self.start_fetch(turn, id),
            _ => self.lock.release(extent),
        }
        true
    }

    /// The arrival of the oldest command of a host that waits.
    pub(super) fn oldest_command(&self) -> Option<Time> {
        self.ops.values().find_map(|op| op.asker.map(|asker| asker.arrived))
    }

    pub(super) fn is_started(&self) -> bool {
        matches!(self.phase, Phase::Settling { .. } | Phase::Serving | Phase::Stopping)
    }

    /// The record without what only the store gives.
    /// As it is, with what its healthy members have flushed since.
    pub(super) fn record_to_change(&self) -> Membership {
        let mut record = self.record.clone();
        for (id, mark) in self.flush_marks() {
            let known = record.flushed.entry(id).or_default();
            *known = (*known).max(mark);
        }
        record.flushed.retain(|id, _| record.children.contains_key(id));
        record
    }

    /// What those that count have flushed.
    pub(super) fn flush_marks(&self) -> BTreeMap<ReplicaId, FlushMark> {
        let counts = |child: &&Child<D>| matches!(child.stand, Stand::Healthy | Stand::Joining);
        let counting = self.children.values().filter(counts);
        counting.map(|child| (child.id, child.flushed)).collect()
    }
}

impl<D> Op<D> {
    /// What it holds the lock of.
    pub(super) const fn extent(&self) -> Option<Extent> {
        match &self.work {
            Work::Write(writing) => Some(writing.extent),
            Work::Copy(copy) => Some(copy.extent),
            Work::Read(_) | Work::Flush(_) | Work::Clean(_) => None,
        }
    }
}

pub(super) fn reply<D>(turn: &mut Turn<'_, D>, asker: Asker, result: HostResult<D>) {
    let Asker { session, tag, .. } = asker;
    turn.put(Output::Reply(HostReply { session, tag, result }));
}

impl From<Fault> for HostFault {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NoSpace => Self::NoSpace,
            _ => Self::WriteFault,
        }
    }
}
