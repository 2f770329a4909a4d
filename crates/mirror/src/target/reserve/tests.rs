//! A target with one copy and a store that may be away.

use alloc::{boxed::Box, string::String, vec, vec::Vec};

use model::{
    Bytes, ChildItem, Epoch, HostId, InstanceId, Membership, Millis, NodeId, ReplicaId, Reserved,
    Revision, Roster, TargetItem, Time, VolumeId,
};
use pool::Header;

use crate::{
    Answer, Command, Geometry, HostResult, Input, Output, Phase, Request, Seat, State, StoreAnswer,
    Target, Throttle, Times,
};

const REPLICA: ReplicaId = ReplicaId::from_u128(1);
const HOST: HostId = HostId::from_u128(2);

struct World {
    target: Target<()>,
    now: Time,
    store: Membership,
    is_store_up: bool,
    intact: bool,
    kept: Roster,
    replies: Vec<u64>,
    closed: Vec<u64>,
}

fn reserved(lasts: bool) -> Reserved {
    Reserved { lasts, state: String::from("01") }
}

fn item() -> TargetItem {
    let node = NodeId::from_u128(3);
    TargetItem {
        epoch: Epoch(1),
        instance: InstanceId::from_u128(4),
        serve: true,
        size: Bytes(1 << 24),
        children: vec![ChildItem { replica: REPLICA, node, rebuild: true, retire: false }],
        hosts: [HOST].into(),
        snapshots: Vec::new(),
    }
}

/// A target that serves: the record was as given, its copy intact or not.
fn serving(store: Membership, intact: bool) -> World {
    serving_from(store, intact, Roster(1))
}

/// The same with a replica that keeps this roster.
fn serving_from(mut store: Membership, intact: bool, kept: Roster) -> World {
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
    let mut world = World { target, now, store, is_store_up: true, intact, kept, replies, closed };
    world.follow(out);
    world.later(Millis(5_000));
    assert_eq!(*world.target.phase(), Phase::Serving);
    for session in [10, 11] {
        world.tell(Input::HostOpened { session, host: HOST });
    }
    world
}

impl World {
    fn tell(&mut self, input: Input<()>) {
        let mut out = Vec::new();
        self.target.handle(self.now, input, &mut out);
        self.follow(out);
    }

    fn later(&mut self, by: Millis) {
        self.now = self.now + by;
        self.tell(Input::Tick);
    }

    fn follow(&mut self, out: Vec<Output<()>>) {
        for output in out {
            match output {
                Output::Send { child, session, tag, request } => {
                    let answer = self.answer(&request);
                    self.tell(Input::Answer { child, session, tag, answer });
                }
                Output::ReadRecord => self.ask(StoreAnswer::Record(self.store.clone())),
                Output::Commit { record, expected } => {
                    assert_eq!(expected, self.store.revision);
                    if self.is_store_up {
                        let revision = Revision(expected.0 + 1);
                        self.store = Membership { revision, ..record };
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

    fn answer(&self, request: &Request<()>) -> Answer<()> {
        let Request::Fence { .. } = request else { return Answer::Done };
        let instance = InstanceId::from_u128(5);
        let roster = self.kept;
        let (header, snapshots) = (Header { roster, ..Header::default() }, Vec::new());
        Answer::Fenced(Box::new(State { instance, header, intact: self.intact, snapshots }))
    }

    fn reserve(&mut self, session: u64, tag: u64) {
        let command = Command::Reserve(reserved(true));
        self.tell(Input::Command { session, tag, command });
    }
}

fn founded() -> Membership {
    Membership::founded(VolumeId::from_u128(9), [REPLICA])
}

#[test]
fn what_is_reserved_is_answered_when_the_store_has_it() {
    let mut world = serving(founded(), true);
    world.reserve(10, 1);
    assert_eq!(world.store.reserved, Some(reserved(true)));
    assert_eq!(world.replies, [1]);
}

#[test]
fn only_the_host_that_reserves_waits_for_a_store_that_is_away() {
    let mut world = serving(founded(), true);
    world.is_store_up = false;
    world.reserve(10, 1);
    assert_eq!((&world.store.reserved, world.replies.len()), (&None, 0));
    world.later(Times::default().hold);
    assert_eq!(world.closed, [10]);
    assert_eq!(*world.target.phase(), Phase::Serving);
    world.tell(Input::Command { session: 11, tag: 2, command: Command::Flush });
    assert_eq!(world.replies, [2]);
    // What was asked for counts once it is known, and whoever decides by it is told.
    world.is_store_up = true;
    world.later(Times::default().retry);
    assert_eq!(world.store.reserved, Some(reserved(true)));
    assert_eq!(world.replies, [2, 1]);
}

#[test]
fn a_loss_of_all_power_ends_what_was_not_to_outlive_it() {
    for (lasts, intact) in [(true, true), (true, false), (false, true), (false, false)] {
        let store = Membership { reserved: Some(reserved(lasts)), clean: false, ..founded() };
        let world = serving(store, intact);
        let is_kept = world.store.reserved == Some(reserved(lasts));
        assert_eq!(is_kept, lasts || intact, "lasts {lasts}, intact {intact}");
    }
}

/// A first target that died between its claim and its service had nothing to lose.
#[test]
fn a_volume_that_never_served_has_lost_nothing() {
    for (kept, is_lost) in [(Roster::ZERO, false), (Roster(1), true)] {
        let store = Membership { clean: false, ..founded() };
        let world = serving_from(store, false, kept);
        assert_eq!(world.store.unflushed_lost, is_lost, "{kept}");
    }
}
