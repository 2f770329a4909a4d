//! Replicas that come one after the other.

use alloc::{boxed::Box, collections::BTreeSet, vec, vec::Vec};

use model::{
    Bytes, ChildItem, Epoch, InstanceId, Membership, NodeId, ReplicaId, TargetItem, Time, VolumeId,
};
use pool::Header;

use crate::{
    Answer, Geometry, Input, Output, Phase, Request, Seat, State, StoreAnswer, StoreRequest,
    Target, Throttle, Times,
};

const EARLY: ReplicaId = ReplicaId::from_u128(1);
const LATE: ReplicaId = ReplicaId::from_u128(2);
const NODE: NodeId = NodeId::from_u128(3);

/// A target whose second replica refuses at first, and whose first replica flushes slowly.
struct World {
    target: Target<()>,
    now: Time,
    store: Membership,
    refuses: BTreeSet<ReplicaId>,
    /// Flushes that are not answered yet: replica, session, tag.
    held: Vec<(ReplicaId, u64, u64)>,
    holds_flushes: bool,
}

impl World {
    fn start() -> Self {
        let (volume, instance) = (VolumeId::from_u128(9), InstanceId::from_u128(4));
        let child = |replica| ChildItem { replica, node: NODE, rebuild: true, retire: false };
        let item = TargetItem {
            epoch: Epoch(1),
            instance,
            serve: true,
            size: Bytes(1 << 24),
            children: vec![child(EARLY), child(LATE)],
            hosts: [].into(),
            snapshots: Vec::new(),
        };
        let seat = Seat {
            volume,
            instance,
            node: NODE,
            times: Times::default(),
            geometry: Geometry::default(),
            throttle: Throttle::default(),
        };
        let store = Membership { epoch: Epoch(1), ..Membership::founded(volume, [EARLY, LATE]) };
        let (now, mut out) = (Time(1_000), Vec::new());
        let target = Target::start(seat, item, now, &mut out);
        let (refuses, held) = ([LATE].into(), Vec::new());
        let mut world = Self { target, now, store, refuses, held, holds_flushes: true };
        world.follow(out);
        world
    }

    fn tell(&mut self, input: Input<()>) {
        let mut out = Vec::new();
        self.target.handle(self.now, input, &mut out);
        self.follow(out);
    }

    fn later(&mut self, by: model::Millis) {
        self.now = self.now + by;
        self.tell(Input::Tick);
    }

    fn follow(&mut self, out: Vec<Output<()>>) {
        for output in out {
            match output {
                Output::Send { child, session, tag, request } => {
                    self.hear(child, session, tag, &request);
                }
                Output::AskStore(StoreRequest::Read) => {
                    self.tell(Input::Store(StoreAnswer::Record(self.store.clone())));
                }
                Output::AskStore(StoreRequest::Swap(record)) => {
                    let revision = self.store.revision.next();
                    self.store = Membership { revision, ..*record };
                    self.tell(Input::Store(StoreAnswer::Committed(revision)));
                }
                _ => {}
            }
        }
    }

    fn hear(&mut self, child: ReplicaId, session: u64, tag: u64, request: &Request<()>) {
        let answer = match request {
            Request::Fence { .. } if self.refuses.contains(&child) => {
                return self.tell(Input::ChildClosed { child, session });
            }
            Request::Fence { .. } => {
                let instance = InstanceId::from_u128(5);
                let (header, snapshots) = (Header::default(), Vec::new());
                Answer::Fenced(Box::new(State { instance, header, intact: true, snapshots }))
            }
            Request::Flush if self.holds_flushes => {
                return self.held.push((child, session, tag));
            }
            _ => Answer::Done,
        };
        self.tell(Input::Answer { child, session, tag, answer });
    }

    fn end_flushes(&mut self) {
        self.holds_flushes = false;
        for (child, session, tag) in core::mem::take(&mut self.held) {
            self.tell(Input::Answer { child, session, tag, answer: Answer::Done });
        }
    }
}

/// The pool of one replica is opened a moment after the other's, and the first flush takes longer.
#[test]
fn a_replica_that_is_fenced_during_the_flush_takes_part_and_nothing_waits_for_ever() {
    let mut world = World::start();
    assert_eq!(*world.target.phase(), Phase::Flushing);
    world.refuses.clear();
    world.later(Times::default().retry);
    assert_eq!(*world.target.phase(), Phase::Flushing);
    assert_eq!(world.held.iter().map(|held| held.0).collect::<Vec<_>>(), [EARLY, LATE]);
    world.end_flushes();
    world.later(Times::default().lease_over);
    assert_eq!(*world.target.phase(), Phase::Serving);
    assert!(world.store.is_healthy(EARLY) && world.store.is_healthy(LATE));
}

/// The claim begins again when a replica is lost, while the flush of another is still under way:
/// the late answer to that one says nothing of what a host wrote since.
#[test]
fn a_flush_from_before_the_claim_began_again_answers_no_hosts_flush() {
    let mut world = World::start();
    world.refuses.clear();
    world.later(Times::default().retry);
    let lost = world.held.iter().position(|held| held.0 == LATE).unwrap();
    let (child, session, _) = world.held.remove(lost);
    world.refuses.insert(LATE);
    world.tell(Input::ChildClosed { child, session });
    while *world.target.phase() != Phase::Flushing {
        world.later(Times::default().retry);
    }
    let flushes: Vec<_> = world.held.iter().map(|held| held.0).collect();
    assert_eq!(flushes, [EARLY], "one at a time, whoever asks");
}
