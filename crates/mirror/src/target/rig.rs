//! A target, replicas that answer when a test lets them, and a store that may be away.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec,
    vec::Vec,
};

use block::Bitmap;
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
const NODE: NodeId = NodeId::from_u128(3);
const INSTANCE: InstanceId = InstanceId::from_u128(4);

pub(super) struct World {
    pub(super) target: Target<()>,
    now: Time,
    pub(super) store: Membership,
    pub(super) is_store_up: bool,
    intact: bool,
    /// The roster that the replicas keep.
    pub(super) kept: Roster,
    /// Regions that they may differ in.
    pub(super) dirty: Bitmap,
    pub(super) replies: Vec<u64>,
    pub(super) closed: Vec<u64>,
    /// Regions that the replica was told are clean, one list after the other.
    pub(super) cleaned: Vec<Vec<u64>>,
    /// What replicas answer to a snapshot.
    pub(super) snapshot_answer: Answer<()>,
    /// Which process of a replica answers, if not the first.
    pub(super) instances: BTreeMap<ReplicaId, InstanceId>,
    /// Replicas that hang up instead of being fenced.
    pub(super) refuses: BTreeSet<ReplicaId>,
    /// Requests that are not answered before `answer_held`.
    pub(super) holds: fn(&Request<()>) -> bool,
    /// Of those: replica, session, tag.
    pub(super) held: Vec<(ReplicaId, u64, u64)>,
}

pub(super) fn reserved(lasts: bool) -> Reserved {
    Reserved { lasts, state: String::from("01") }
}

pub(super) fn item(store: &Membership) -> TargetItem {
    let child = |replica: &ReplicaId| {
        let (replica, node) = (*replica, NODE);
        ChildItem { replica, node, rebuild: true, retire: false }
    };
    TargetItem {
        epoch: Epoch(1),
        instance: INSTANCE,
        serve: true,
        size: Bytes(1 << 30),
        children: store.children.keys().map(child).collect(),
        hosts: [HOST].into(),
        snapshots: Vec::new(),
    }
}

/// A target that serves: the record was as given, its copy intact or not.
pub(super) fn serving(store: Membership, intact: bool) -> World {
    serving_from(store, intact, Roster(1))
}

/// The same with a replica that keeps this roster.
pub(super) fn serving_from(store: Membership, intact: bool, kept: Roster) -> World {
    let (mut world, out) = World::started(store);
    (world.intact, world.kept) = (intact, kept);
    world.follow(out);
    world.later(Millis(5_000));
    assert_eq!(*world.target.phase(), Phase::Serving);
    for session in [10, 11] {
        world.tell(Input::HostOpened { session, host: HOST });
    }
    world
}

impl World {
    /// A target of every replica of the record, and what it asks for first: to be followed once
    /// the world is as the test wants it.
    pub(super) fn started(mut store: Membership) -> (Self, Vec<Output<()>>) {
        store.epoch = Epoch(1);
        let seat = Seat {
            volume: store.volume,
            instance: INSTANCE,
            node: NODE,
            times: Times::default(),
            geometry: Geometry::default(),
            throttle: Throttle::default(),
        };
        let (now, mut out) = (Time(1_000), Vec::new());
        let target = Target::start(seat, item(&store), now, &mut out);
        let world = Self {
            target,
            now,
            store,
            is_store_up: true,
            intact: true,
            kept: Roster(1),
            dirty: Bitmap::default(),
            replies: Vec::new(),
            closed: Vec::new(),
            cleaned: Vec::new(),
            snapshot_answer: Answer::Done,
            instances: BTreeMap::new(),
            refuses: BTreeSet::new(),
            holds: |_| false,
            held: Vec::new(),
        };
        (world, out)
    }

    pub(super) fn tell(&mut self, input: Input<()>) {
        let mut out = Vec::new();
        self.target.handle(self.now, input, &mut out);
        self.follow(out);
    }

    pub(super) fn later(&mut self, by: Millis) {
        self.now = self.now + by;
        self.tell(Input::Tick);
    }

    pub(super) fn follow(&mut self, out: Vec<Output<()>>) {
        for output in out {
            match output {
                Output::Send { child, session, tag, request } => {
                    self.hear(child, session, tag, &request);
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

    fn hear(&mut self, child: ReplicaId, session: u64, tag: u64, request: &Request<()>) {
        if (self.holds)(request) {
            return self.held.push((child, session, tag));
        }
        let answer = match request {
            Request::Fence { .. } if self.refuses.contains(&child) => {
                return self.tell(Input::ChildClosed { child, session });
            }
            Request::Fence { .. } => {
                let first = InstanceId::from_u128(5);
                let instance = self.instances.get(&child).copied().unwrap_or(first);
                let (roster, dirty) = (self.kept, self.dirty.clone());
                let header = Header { roster, dirty, ..Header::default() };
                let (intact, is_in_use, snapshots) = (self.intact, false, Vec::new());
                let state = State { instance, header, intact, is_in_use, snapshots };
                Answer::Fenced(Box::new(state))
            }
            Request::Snapshot(_) => self.snapshot_answer.clone(),
            Request::Clean { regions, .. } => {
                self.cleaned.push(regions.clone());
                Answer::Done
            }
            _ => Answer::Done,
        };
        self.tell(Input::Answer { child, session, tag, answer });
    }

    /// What was held is answered at last, and nothing more is held.
    pub(super) fn answer_held(&mut self) {
        self.holds = |_| false;
        for (child, session, tag) in core::mem::take(&mut self.held) {
            self.tell(Input::Answer { child, session, tag, answer: Answer::Done });
        }
    }

    pub(super) fn want_snapshot(&mut self, attempt: AttemptId) {
        let (snapshot, name) = (SnapshotId::from_u128(6), String::from("s"));
        let snapshots = vec![SnapshotItem { snapshot, name, attempt }];
        self.tell(Input::Config(TargetItem { snapshots, ..item(&self.store) }));
    }

    pub(super) fn reserve(&mut self, session: u64, tag: u64) {
        let command = Command::Reserve(reserved(true));
        self.tell(Input::Command { session, tag, command });
    }
}

pub(super) fn founded() -> Membership {
    Membership::founded(VolumeId::from_u128(9), [REPLICA])
}
