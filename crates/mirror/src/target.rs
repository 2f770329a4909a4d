//! A replicated target: one volume, served over its replicas.
//!
//! ```text
//! Reading ─▶ Fencing ─▶ Flushing ─▶ Claiming ─▶ Settling ─▶ Serving ─▶ Stopping ─▶ Stopped
//!    ▲          ▲           │           │
//!    │          └───────────┘ one left  │  ┌▶ Fenced   a higher epoch was seen
//!    └──────────────────────────────────┘  └▶ Failed   nothing more can be promised
//!         the record moved
//! ```
//! Fenced and failed ones never acknowledge anything again; they wait for the control plane.
//! One file per idea: how it starts (`claim`), its connections (`link`), what hosts ask (`command`,
//! `write`, `read`, `flush`), who counts (`groups`, `change`, `exclude`, `join`), and what goes on
//! behind (`copy`, `clean`, `snapshot`, `images`, `stop`).

mod change;
mod child;
mod claim;
mod clean;
mod command;
mod copy;
mod exclude;
mod flush;
mod groups;
mod hosts;
mod images;
mod join;
mod lease;
mod link;
mod pace;
mod read;
mod reserve;
mod restored;
#[cfg(test)]
mod rig;
mod seen;
mod snapshot;
mod stop;
mod write;

use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    vec::Vec,
};

use block::Bitmap;
use model::{
    AttemptId, Epoch, InstanceId, Membership, NodeId, ReplicaId, Revision, TargetItem, Time,
    VolumeId,
};

use self::{
    change::Change,
    child::{Child, Stand, Wish},
    command::Op,
    copy::Copying,
    flush::FlushCounter,
    groups::Groups,
    hosts::Hosts,
    pace::Pace,
    reserve::Reserving,
    snapshot::{Freeze, TakenSnapshots},
};
pub use self::{
    command::{Command, HostFault, HostReply, HostResult},
    seen::{Notice, Why},
};
use crate::{
    Answer, Geometry, Request, Throttle, Times,
    flaw::Flawed,
    in_flight::InFlight,
    lock::Lock,
    slots::{SlotMap, Slots},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input<D> {
    /// The config says something new about it.
    Config(TargetItem),
    HostOpened {
        session: u64,
        host: model::HostId,
    },
    HostClosed {
        session: u64,
    },
    Command {
        session: u64,
        tag: u64,
        command: Command<D>,
    },
    Answer {
        child: ReplicaId,
        session: u64,
        tag: u64,
        answer: Answer<D>,
    },
    ChildClosed {
        child: ReplicaId,
        session: u64,
    },
    /// To the one question that the store was asked.
    Store(StoreAnswer),
    /// Time has passed.
    Tick,
}

/// What a target asks of the store. It has one question at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreRequest {
    Read,
    /// In place of the record that was read at its revision.
    Swap(Box<Membership>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StoreAnswer {
    Record(Membership),
    /// It was committed at this revision.
    Committed(Revision),
    /// It was not: the record is another one.
    Conflict,
    /// Nobody knows, or nobody answered.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output<D> {
    /// Connect to the replica; what is sent meanwhile waits for the connection.
    Open {
        child: ReplicaId,
        node: NodeId,
        session: u64,
    },
    Close {
        child: ReplicaId,
        session: u64,
    },
    Send {
        child: ReplicaId,
        session: u64,
        tag: u64,
        request: Request<D>,
    },
    Reply(HostReply<D>),
    /// The host's connection is over: it may try another path. Nothing that it waits for is
    /// answered any more but what is to be reserved, while the target goes on.
    CloseHost {
        session: u64,
    },
    /// Answered by [`Input::Store`].
    AskStore(StoreRequest),
    /// What [`Target::seen`] says changed.
    Seen,
    Notice(Notice),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Reading,
    /// Waits for the replicas recorded healthy; after `until` for any of them.
    Fencing {
        until: Time,
    },
    /// What predecessors wrote to the fenced ones becomes durable.
    Flushing,
    Claiming,
    /// The roster goes to the replicas, and the lease of a predecessor runs out.
    Settling {
        until: Time,
    },
    Serving,
    Stopping,
    Stopped,
    Fenced,
    Failed(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target<D> {
    volume: VolumeId,
    epoch: Epoch,
    instance: InstanceId,
    node: NodeId,
    times: Times,
    geometry: Geometry,
    pace: Pace,
    item: TargetItem,
    phase: Phase,
    /// As last read or written.
    record: Membership,
    children: SlotMap<Child<D>>,
    groups: Groups,
    /// Recorded healthy and to be excluded.
    lost: Slots,
    /// Excluded in the store; the survivors do not all know yet.
    leaving: Slots,
    /// Fenced and flushed by the claim that is under way.
    claimed: Slots,
    /// Have noted that the target stops; nothing, while it does not or writes are under way.
    noted: Option<Slots>,
    change: Option<Change>,
    /// When the store is to be asked again.
    ask_again: Option<Time>,
    ops: InFlight<Op<D>>,
    next_op: u64,
    /// Operations that wait for the lock or the gate, in order.
    queue: VecDeque<u64>,
    lock: Lock,
    /// Regions that replicas have marked, and those touched since the last look at idle ones.
    dirty: Bitmap,
    touched: Bitmap,
    /// Of those the ones that the last look found idle, and that are still to be called clean.
    cleanable: Bitmap,
    look_at: Time,
    copying: Option<Copying>,
    hosts: Hosts,
    marks: FlushCounter,
    /// What hosts want to have reserved, in turn; the first may be on its way to the store.
    reserving: VecDeque<Reserving>,
    /// Some read waits for a child or for a lease.
    has_idle_reads: bool,
    freeze: Option<Freeze>,
    /// Snapshots of the config were not yet compared with those of the children.
    is_snapshot_due: bool,
    failed_snapshots: Vec<AttemptId>,
    /// Everybody who counts holds them, and the record would tell if one were set back.
    proven_snapshots: BTreeSet<AttemptId>,
    /// As told last.
    taken: TakenSnapshots,
    /// What [`Target::is_steady`] said when the last event was dealt with.
    is_resting: bool,
    flawed: Flawed,
}

/// What an event was to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Data of a host moved. Unless a child was lost by it, who counts and what goes on besides is
    /// as before.
    Data,
    /// Anything may follow from it.
    Change,
}

/// One turn: the time, and what comes out.
#[derive(Debug)]
struct Turn<'a, D> {
    now: Time,
    out: &'a mut Vec<Output<D>>,
}

impl<D> Turn<'_, D> {
    fn put(&mut self, output: Output<D>) {
        self.out.push(output);
    }

    fn tell(&mut self, notice: Notice) {
        self.out.push(Output::Notice(notice));
    }
}

/// Who runs it, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    pub volume: VolumeId,
    pub instance: InstanceId,
    pub node: NodeId,
    pub times: Times,
    pub geometry: Geometry,
    pub throttle: Throttle,
}

impl<D: Clone> Target<D> {
    /// Begins to claim the volume at once.
    pub fn start(seat: Seat, item: TargetItem, now: Time, out: &mut Vec<Output<D>>) -> Self {
        let mut target = Self {
            volume: seat.volume,
            epoch: item.epoch,
            instance: seat.instance,
            node: seat.node,
            times: seat.times,
            geometry: seat.geometry,
            pace: Pace::new(seat.throttle, now),
            phase: Phase::Reading,
            record: Membership::founded(seat.volume, []),
            children: SlotMap::default(),
            groups: Groups::default(),
            lost: Slots::NONE,
            leaving: Slots::NONE,
            claimed: Slots::NONE,
            noted: None,
            change: None,
            ask_again: None,
            ops: InFlight::default(),
            next_op: 0,
            queue: VecDeque::new(),
            lock: Lock::default(),
            dirty: Bitmap::new(),
            touched: Bitmap::new(),
            cleanable: Bitmap::new(),
            look_at: now + seat.times.idle,
            copying: None,
            hosts: Hosts::default(),
            marks: FlushCounter::default(),
            reserving: VecDeque::new(),
            has_idle_reads: false,
            freeze: None,
            is_snapshot_due: true,
            failed_snapshots: Vec::new(),
            proven_snapshots: BTreeSet::new(),
            taken: TakenSnapshots::new(),
            is_resting: false,
            flawed: Flawed::default(),
            item,
        };
        let turn = &mut Turn { now, out };
        target.name_children(turn);
        target.open_children(turn);
        turn.put(Output::AskStore(StoreRequest::Read));
        target
    }

    /// With one rule left out.
    #[cfg(feature = "flaws")]
    #[must_use]
    pub fn flawed(mut self, flaw: crate::Flaw) -> Self {
        self.flawed = Flawed::by(flaw);
        self
    }

    pub fn handle(&mut self, now: Time, input: Input<D>, out: &mut Vec<Output<D>>) {
        if self.is_over() {
            return self.refuse(input, out);
        }
        let turn = &mut Turn { now, out };
        match input {
            Input::Command { session, tag, command } => {
                return self.take_command(now, session, tag, command, out);
            }
            Input::Answer { child, session, tag, answer } => {
                return self.take_answer(now, child, session, tag, answer, out);
            }
            Input::Config(item) => self.configure(turn, item),
            Input::HostOpened { session, host } => self.host_opened(turn, session, host),
            Input::HostClosed { session } => self.host_closed(turn, session),
            Input::ChildClosed { child, session } => self.child_closed(turn, child, session),
            Input::Store(answer) => self.store_answered(turn, answer),
            Input::Tick => self.tick(turn),
        }
        self.follow(turn, Event::Change);
    }

    /// [`Input::Command`], without a move of the largest input.
    pub fn take_command(
        &mut self,
        now: Time,
        session: u64,
        tag: u64,
        command: Command<D>,
        out: &mut Vec<Output<D>>,
    ) {
        if self.is_over() {
            out.push(Output::CloseHost { session });
            return;
        }
        let turn = &mut Turn { now, out };
        let event = self.command(turn, session, tag, command);
        self.follow(turn, event);
    }

    /// [`Input::Answer`], without a move of the largest input.
    pub fn take_answer(
        &mut self,
        now: Time,
        child: ReplicaId,
        session: u64,
        tag: u64,
        answer: Answer<D>,
        out: &mut Vec<Output<D>>,
    ) {
        if self.is_over() {
            return;
        }
        let turn = &mut Turn { now, out };
        let event = self.answered(turn, child, session, tag, answer);
        self.follow(turn, event);
    }

    /// Everything that may go on after an event does.
    fn follow(&mut self, turn: &mut Turn<'_, D>, event: Event) {
        // A write that had failed on one child is judged when the last one has answered well.
        let has_lost = !self.lost.is_empty() || !matches!(self.phase, Phase::Serving);
        if self.is_resting && event == Event::Data && !has_lost {
            debug_assert!(self.is_steady(), "moving data changes nobody's standing");
            debug_assert!(self.taken == self.taken_snapshots(), "nor what they hold");
            self.start_queued(turn);
            return;
        }
        self.advance(turn);
        self.is_resting = self.is_steady();
        // It follows from much that is not told for itself: who counts, what they hold, the config.
        let taken = self.taken_snapshots();
        if taken != self.taken {
            self.taken = taken;
            turn.put(Output::Seen);
        }
    }

    /// Nothing is served any more: hosts are sent away, all else is late.
    fn refuse(&mut self, input: Input<D>, out: &mut Vec<Output<D>>) {
        match input {
            Input::HostOpened { session, .. } | Input::Command { session, .. } => {
                out.push(Output::CloseHost { session });
            }
            Input::Config(item) if !item.serve && self.phase != Phase::Stopped => {
                self.phase = Phase::Stopped;
                out.push(Output::Seen);
            }
            _ => {}
        }
    }

    /// Everything that may go on now does.
    fn advance(&mut self, turn: &mut Turn<'_, D>) {
        if self.is_over() {
            return;
        }
        if self.is_steady() {
            self.start_queued(turn);
            return;
        }
        if !matches!(self.phase, Phase::Serving) {
            self.advance_claim(turn);
        }
        self.advance_change(turn);
        self.advance_freeze(turn);
        self.advance_stop(turn);
        self.start_copies(turn);
        self.start_queued(turn);
    }

    /// Hosts are served and nothing else goes on, nor could begin: of all that `advance` looks for
    /// only queued commands may be there.
    fn is_steady(&self) -> bool {
        let is_plain = |child: &Child<D>| match child.stand {
            Stand::Healthy => child.wish != Wish::Retire && child.lacks.is_empty(),
            Stand::Absent => !child.is_open(),
            Stand::Greeting | Stand::Imaging | Stand::Rebuilding | Stand::Joining => false,
        };
        matches!(self.phase, Phase::Serving)
            && self.item.serve
            && self.change.is_none()
            && self.lost.or(self.leaving).is_empty()
            && self.freeze.is_none()
            && !self.is_snapshot_due
            && self.copying.is_none()
            && self.reserving.is_empty()
            && self.record.resync_source.is_none()
            && !self.record.unflushed_lost
            && self.children.values().all(is_plain)
            && self.is_every_member_known()
    }

    fn tick(&mut self, turn: &mut Turn<'_, D>) {
        self.tick_links(turn);
        if self.ask_again.is_some_and(|at| at <= turn.now) {
            self.ask_again = None;
            turn.put(Output::AskStore(StoreRequest::Read));
        }
        self.tick_reads(turn);
        self.tick_reserve(turn);
        self.tick_clean(turn);
        let oldest = self.oldest_command();
        if oldest.is_some_and(|at| turn.now.since(at) >= self.times.hold) {
            self.fail(turn, "a host's command could not be answered in time");
        }
    }

    /// When [`Input::Tick`] is due next, if nothing comes before.
    pub fn next_deadline(&self) -> Option<Time> {
        if self.is_over() {
            return None;
        }
        let phase = match self.phase {
            Phase::Fencing { until } | Phase::Settling { until } => Some(until),
            _ => None,
        };
        let hold = self.oldest_command().map(|at| at + self.times.hold);
        let look = (!self.dirty.is_empty()).then_some(self.look_at);
        let links = self.children.values().filter_map(|child| child.deadline(&self.times)).min();
        let pace = self.pace.deadline(self.copying.is_some());
        [phase, hold, look, links, self.ask_again, pace, self.reserve_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    pub const fn record(&self) -> &Membership {
        &self.record
    }

    /// Answers hosts.
    pub const fn is_serving(&self) -> bool {
        matches!(self.phase, Phase::Serving | Phase::Stopping)
    }

    /// Nothing will come of it any more.
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Stopped | Phase::Fenced | Phase::Failed(_))
    }

    fn self_fence(&mut self, turn: &mut Turn<'_, D>) {
        turn.tell(Notice::SelfFenced);
        self.end(turn, Phase::Fenced);
    }

    fn fail(&mut self, turn: &mut Turn<'_, D>, reason: &'static str) {
        self.end(turn, Phase::Failed(reason));
    }

    /// Connections close; nothing is acknowledged from here on.
    fn end(&mut self, turn: &mut Turn<'_, D>, phase: Phase) {
        for session in self.hosts.take_sessions() {
            turn.put(Output::CloseHost { session });
        }
        for child in self.children.values_mut() {
            child.close(turn);
            child.forget_all();
        }
        self.phase = phase;
        self.change = None;
        self.freeze = None;
        self.copying = None;
        self.reserving.clear();
        self.ops.clear();
        self.queue.clear();
        self.lock = Lock::default();
        turn.put(Output::Seen);
    }
}
