//! Replicas that come one after the other.

use alloc::vec::Vec;

use model::{Membership, ReplicaId, Roster, VolumeId};

use super::super::rig::World;
use crate::{Input, Phase, Request, Times};

const EARLY: ReplicaId = ReplicaId::from_u128(1);
const LATE: ReplicaId = ReplicaId::from_u128(2);

/// A target whose second replica refuses at first, and whose first replica flushes slowly.
fn begun() -> World {
    let store = Membership::founded(VolumeId::from_u128(9), [EARLY, LATE]);
    let (mut world, out) = World::started(store);
    world.kept = Roster::ZERO;
    world.refuses.insert(LATE);
    world.holds = |request| matches!(request, Request::Flush { .. });
    world.follow(out);
    world
}

/// The pool of one replica is opened a moment after the other's, and the first flush takes longer.
#[test]
fn a_replica_that_is_fenced_during_the_flush_takes_part_and_nothing_waits_for_ever() {
    let mut world = begun();
    assert_eq!(*world.target.phase(), Phase::Flushing);
    world.refuses.clear();
    world.later(Times::default().retry);
    assert_eq!(*world.target.phase(), Phase::Flushing);
    assert_eq!(world.held.iter().map(|held| held.0).collect::<Vec<_>>(), [EARLY, LATE]);
    world.answer_held();
    world.later(Times::default().lease_over);
    assert_eq!(*world.target.phase(), Phase::Serving);
    assert!(world.store.is_healthy(EARLY) && world.store.is_healthy(LATE));
}

/// The claim begins again when a replica is lost, while the flush of another is still under way:
/// the late answer to that one says nothing of what a host wrote since.
#[test]
fn a_flush_from_before_the_claim_began_again_answers_no_hosts_flush() {
    let mut world = begun();
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
