//! A replica as its target knows it: the connection, what is on its way to it, what it lacks.

use alloc::boxed::Box;

use block::Bitmap;
use model::{FlushMark, InstanceId, NodeId, ReplicaId, Roster, SnapshotId, Time};

use super::{Output, Turn, flush::Flushes, images::Imaging};
use crate::{Flaw, Request, State, Times, flaw::Flawed, in_flight::InFlight};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Child<D> {
    pub(super) id: ReplicaId,
    pub(super) node: NodeId,
    pub(super) wish: Wish,
    pub(super) link: Link,
    /// When the connection was lost, while it may still come back in time.
    pub(super) dropped: Option<Time>,
    /// The import of its pool that commands were sent to.
    pub(super) instance: Option<InstanceId>,
    /// It came back as another instance: what it had not flushed may be gone.
    pub(super) is_reborn: bool,
    /// As it was when it was fenced last.
    pub(super) state: Option<Box<State>>,
    pub(super) stand: Stand,
    /// Not yet answered, in the order of sending; sent again when the connection returns.
    pub(super) sent: InFlight<Sent<D>>,
    next_tag: u64,
    next_session: u64,
    /// The newest time of sending of a request that it has answered.
    pub(super) answered: Option<Time>,
    /// Regions written since its last flush began, and those that this flush covers.
    pub(super) cur: Bitmap,
    pub(super) prev: Bitmap,
    /// Regions that must be copied to it.
    pub(super) lacks: Bitmap,
    pub(super) flushes: Flushes,
    /// The newest roster that it is known to have.
    pub(super) roster: Roster,
    /// The last flush that it answered while it counted.
    pub(super) flushed: FlushMark,
    /// The least that it must have flushed when it is fenced: with less it was set back.
    pub(super) known: FlushMark,
    /// The roster that it had when it left: with this one, and all that is `known`, it may return
    /// for `lacks` alone.
    pub(super) base: Roster,
    pub(super) is_full: bool,
    /// While it stands there.
    pub(super) imaging: Option<Imaging>,
    /// A snapshot that it was brought: in what it lacks, it differs from that at most by writes
    /// that it got since.
    pub(super) since: Option<SnapshotId>,
}

/// What the config wants of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wish {
    Keep,
    /// It may be copied to, if it is not healthy.
    Rebuild,
    /// It is to leave.
    Retire,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Link {
    Closed { retry: Time },
    Opening { session: u64, since: Time },
    Open { session: u64 },
}

/// ```text
/// Absent ─▶ Greeting ─▶ Imaging ⇄ Rebuilding ─▶ Joining ─▶ Healthy ─▶ Absent
///    ▲          │          │          │           │
///    └──────────┴──────────┴──────────┴───────────┘ lost, or no longer wanted
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stand {
    /// It gets nothing.
    Absent,
    /// Fenced, and told who else is absent.
    Greeting,
    /// It gets the snapshots that it lacks, and nothing else: its blocks are those of the past.
    Imaging,
    /// It gets every write, and copies of what it lacks.
    Rebuilding,
    /// Acknowledgements wait for it; the store does not yet know.
    Joining,
    /// Recorded healthy.
    Healthy,
}

impl Stand {
    /// Connected, and nothing counts on it.
    pub(super) const fn is_guest(self) -> bool {
        matches!(self, Self::Greeting | Self::Imaging | Self::Rebuilding)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sent<D> {
    pub(super) purpose: Purpose,
    pub(super) request: Request<D>,
    pub(super) at: Time,
}

/// What an answer is for; numbers are those of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Write(u64),
    Read(u64),
    Fetch(u64),
    CopyWrite(u64),
    Clean(u64),
    Flush,
    Roster(Roster),
    /// The roster that makes it a member.
    Welcome,
    /// Who is absent, before its first write.
    Greet,
    Stop,
    Snapshot,
    SnapAbort,
    /// Which snapshots it has.
    Images,
    /// A snapshot that was brought to it is frozen.
    Image,
    /// Nothing waits for the answer but the lease.
    Ping,
}

impl<D> Child<D> {
    pub(super) fn new(id: ReplicaId, node: NodeId, now: Time, lacks: Bitmap) -> Self {
        Self {
            id,
            node,
            wish: Wish::Keep,
            link: Link::Closed { retry: now },
            dropped: None,
            instance: None,
            is_reborn: false,
            state: None,
            stand: Stand::Absent,
            sent: InFlight::default(),
            next_tag: 0,
            next_session: 0,
            answered: None,
            cur: Bitmap::new(),
            prev: Bitmap::new(),
            lacks,
            flushes: Flushes::default(),
            roster: Roster::ZERO,
            flushed: FlushMark::NONE,
            known: FlushMark::NONE,
            base: Roster::ZERO,
            is_full: false,
            imaging: None,
            since: None,
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self.link, Link::Open { .. })
    }

    pub(super) fn open(&mut self, turn: &mut Turn<'_, D>, epoch: model::Epoch) {
        let session = self.next_session;
        self.next_session += 1;
        self.link = Link::Opening { session, since: turn.now };
        let (child, node) = (self.id, self.node);
        turn.put(Output::Open { child, node, session });
        let request = Request::Fence { epoch };
        turn.put(Output::Send { child, session, tag: u64::MAX, request });
    }

    /// Ends the connection, if there is one; it may be tried again at once.
    pub(super) fn close(&mut self, turn: &mut Turn<'_, D>) {
        if let Link::Opening { session, .. } | Link::Open { session } = self.link {
            turn.put(Output::Close { child: self.id, session });
        }
        self.link = Link::Closed { retry: turn.now };
    }

    /// Nothing that was sent is waited for any more.
    pub(super) fn forget_all(&mut self) {
        self.sent.clear();
        self.flushes = Flushes::default();
    }

    pub(super) fn next_deadline_of_sent(&self, times: &Times) -> Option<Time> {
        self.sent.values().next().map(|sent| sent.at + times.child)
    }

    pub(super) fn deadline(&self, times: &Times) -> Option<Time> {
        let grace = self.dropped.map(|at| at + times.grace);
        let link = match self.link {
            Link::Closed { retry } => self.is_wanted().then_some(retry),
            Link::Opening { since, .. } => Some(since + times.child),
            Link::Open { .. } => self.next_deadline_of_sent(times),
        };
        grace.into_iter().chain(link).min()
    }

    /// A connection to it is of use.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.stand, Stand::Healthy | Stand::Joining) || self.wish == Wish::Rebuild
    }

    /// It returned with less than it once had: its disk is an older image of itself.
    pub(super) fn is_set_back(&self, flawed: Flawed) -> bool {
        let found = self.state.as_ref().map_or(FlushMark::NONE, |state| state.header.flushed);
        if flawed.leaves_out(Flaw::SetBackAccepted) {
            return false;
        }
        // Flaw::SetBackSameEpochAccepted: images of one target's time are told apart by numbers.
        if flawed.leaves_out(Flaw::SetBackSameEpochAccepted) {
            return found.epoch < self.known.epoch;
        }
        self.state.is_some() && found < self.known
    }

    /// A copy of the region is still to be made.
    pub(super) fn missing_copy(&self, region: u64) -> bool {
        self.lacks.contains(region)
            || (self.stand != Stand::Healthy
                && (self.cur.contains(region) || self.prev.contains(region)))
    }

    /// Everything that may be missing there if it loses what it did not flush.
    pub(super) fn missing(&self) -> Bitmap {
        let mut missing = self.lacks.clone();
        missing.merge(&self.cur);
        missing.merge(&self.prev);
        missing
    }
}

impl<D> Child<D> {
    /// It returned and is told who else is absent as soon as the survivors know what it lacks.
    pub(super) fn awaits_greeting(&self) -> bool {
        let is_greeted = self.sent.values().any(|sent| sent.purpose == Purpose::Greet);
        self.stand == Stand::Greeting && !is_greeted
    }
}

impl<D: Clone> Child<D> {
    /// Sent now, or when the connection is back.
    pub(super) fn send(&mut self, turn: &mut Turn<'_, D>, purpose: Purpose, request: Request<D>) {
        if self.sent.is_empty() {
            // Tags need to differ only among what is not answered.
            self.next_tag = 0;
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        if let Link::Open { session } = self.link {
            let request = request.clone();
            turn.put(Output::Send { child: self.id, session, tag, request });
        }
        self.sent.insert(tag, Sent { purpose, request, at: turn.now });
    }

    /// The connection is back, to the same instance: whatever was not answered goes again.
    pub(super) fn send_again(&mut self, turn: &mut Turn<'_, D>) {
        let Link::Open { session } = self.link else { return };
        let child = self.id;
        self.sent.each(|tag, sent| {
            sent.at = turn.now;
            let request = sent.request.clone();
            turn.put(Output::Send { child, session, tag, request });
        });
    }
}
