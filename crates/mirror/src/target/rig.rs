//! A target with one copy and a store that may be away.

use alloc::{boxed::Box, string::String, vec, vec::Vec};

use model::{
    AttemptId, Bytes, ChildItem, Epoch, HostId, InstanceId, Membership, Millis, NodeId, ReplicaId,
    Reserved, Roster, SnapshotId, SnapshotItem, TargetItem, Time, VolumeId,
};
use pool::Header;

use crate::{
    Answer, Command, Geometry, HostResult, Input, Output, Phase, Request, Seat, State, StoreAnswer,
    StoreRequest, Target, Throttle, Times,
};

pub(super) const REPLICA: ReplicaId = ReplicaId::from_u128(1);
const HOST: HostId = HostId::from_u128(2);

pub(super) struct World {
    pub(super) target: Target<()>,
    now: Time,
    pub(super) store: Membership,
    pub(super) is_store_up: bool,
    intact: bool,
    kept: Roster,
    pub(super) replies: Vec<u64>,
    pub(super) closed: Vec<u64>,
    /// Regions that the replica was told are clean, one list after the other.
    pub(super) cleaned: Vec<Vec<u64>>,
    /// What its copy answers to a snapshot; `None` while it does not answer.
    pub(super) snapshot_answer: Option<Answer<()>>,
    pub(super) unanswered: Vec<(u64, u64)>,
}

pub(super) fn reserved(lasts: bool) -> Reserved {
    Reserved { lasts, state: String::from("01") }
}

fn item() -> TargetItem {
    let node = NodeId::from_u128(3);
    TargetItem {
        epoch: Epoch(1),
        instance: InstanceId::from_u128(4),
        serve: true,
        size: Bytes(1 << 30),
        children: vec![ChildItem { replica: REPLICA, node, rebuild: true, retire: false }],
        hosts: [HOST].into(),
        snapshots: Vec::new(),
    }
}

/// A target that serves: the record was as given, its copy intact or not.
pub(super) fn serving(store: Membership, intact: bool) -> World {
    serving_from(store, intact, Roster(1))
}

/// The same with a replica that keeps this roster.
pub(super) fn serving_from(mut store: Membership, intact: bool, kept: Roster) -> World {
    store.epoch = Epoch(1);
    let seat = Seat {
        volume: store.volume,
        instance: InstanceId::from_u128(4),
        node: NodeId::from_u128(3),
        times: Times::default(),
        geometry: Geometry::default(),
        throttle: Throttle::default(),
    };
    let (now, mut out) = (Time(1_000), Vec::new());
    let target = Target::start(seat, item(), now, &mut out);
    let (replies, closed) = (Vec::new(), Vec::new());
    let cleaned = Vec::new();
    let mut world = World {
        target,
        now,
        store,
        is_store_up: true,
        intact,
        kept,
        replies,
        closed,
        cleaned,
        snapshot_answer: Some(Answer::Done),
        unanswered: Vec::new(),
    };
    world.follow(out);
    world.later(Millis(5_000));
    assert_eq!(*world.target.phase(), Phase::Serving);
    for session in [10, 11] {
        world.tell(Input::HostOpened { session, host: HOST });
    }
    world
}

impl World {
    pub(super) fn tell(&mut self, input: Input<()>) {
        let mut out = Vec::new();
        self.target.handle(self.now, input, &mut out);
        self.follow(out);
    }

    pub(super) fn later(&mut self, by: Millis) {
        self.now = self.now + by;
        self.tell(Input::Tick);
    }

    fn follow(&mut self, out: Vec<Output<()>>) {
        for output in out {
            match output {
                Output::Send { child, session, tag, request } => {
                    if let Request::Clean { regions } = &request {
                        self.cleaned.push(regions.clone());
                    }
                    match self.answer(&request) {
                        Some(answer) => {
                            self.tell(Input::Answer { child, session, tag, answer });
                        }
                        None => self.unanswered.push((session, tag)),
                    }
                }
                Output::AskStore(StoreRequest::Read) => {
                    self.ask(StoreAnswer::Record(self.store.clone()));
                }
                Output::AskStore(StoreRequest::Swap(record)) => {
                    assert_eq!(record.revision, self.store.revision);
                    if self.is_store_up {
                        let revision = record.revision.next();
                        self.store = Membership { revision, ..*record };
                        self.ask(StoreAnswer::Committed(revision));
                    } else {
                        self.ask(StoreAnswer::Unknown);
                    }
                }
                Output::Reply(reply) => {
                    assert_eq!(reply.result, HostResult::Done);
                    self.replies.push(reply.tag);
                }
                Output::CloseHost { session } => self.closed.push(session),
                _ => {}
            }
        }
    }

    fn ask(&mut self, answer: StoreAnswer) {
        let answer = if self.is_store_up { answer } else { StoreAnswer::Unknown };
        self.tell(Input::Store(answer));
    }

    fn answer(&self, request: &Request<()>) -> Option<Answer<()>> {
        match request {
            Request::Fence { .. } => {}
            Request::Snapshot(_) => return self.snapshot_answer.clone(),
            _ => return Some(Answer::Done),
        }
        let instance = InstanceId::from_u128(5);
        let roster = self.kept;
        let (header, snapshots) = (Header { roster, ..Header::default() }, Vec::new());
        let state = State { instance, header, intact: self.intact, snapshots };
        Some(Answer::Fenced(Box::new(state)))
    }

    /// The copy takes the snapshot at last.
    pub(super) fn answer_snapshots(&mut self) {
        for (session, tag) in core::mem::take(&mut self.unanswered) {
            self.tell(Input::Answer { child: REPLICA, session, tag, answer: Answer::Done });
        }
    }

    pub(super) fn want_snapshot(&mut self, attempt: AttemptId) {
        let (snapshot, name) = (SnapshotId::from_u128(6), String::from("s"));
        let snapshots = vec![SnapshotItem { snapshot, name, attempt }];
        self.tell(Input::Config(TargetItem { snapshots, ..item() }));
    }

    pub(super) fn reserve(&mut self, session: u64, tag: u64) {
        let command = Command::Reserve(reserved(true));
        self.tell(Input::Command { session, tag, command });
    }
}

pub(super) fn founded() -> Membership {
    Membership::founded(VolumeId::from_u128(9), [REPLICA])
}
