//! Replicas that return while others are lost.

use model::{InstanceId, Membership, Millis, ReplicaId, Roster, VolumeId};

use super::super::rig::World;
use crate::{Input, Phase, Request, Times};

const STAYS: ReplicaId = ReplicaId::from_u128(1);
const LEAVES: ReplicaId = ReplicaId::from_u128(2);
const RETURNS: ReplicaId = ReplicaId::from_u128(3);

/// A target that serves without the third replica.
fn degraded() -> World {
    let mut store = Membership::founded(VolumeId::from_u128(9), [STAYS, LEAVES, RETURNS]);
    store.roster = Roster(1);
    let (mut world, out) = World::started(store);
    world.refuses.insert(RETURNS);
    world.follow(out);
    world.later(Millis(5_000));
    assert_eq!(*world.target.phase(), Phase::Serving);
    assert!(!world.store.is_recorded_healthy(RETURNS));
    world
}

/// Its process is gone: nobody answers there any more.
fn kill(world: &mut World, replica: ReplicaId) {
    world.refuses.insert(replica);
    world.tell(Input::ChildClosed { child: replica, session: 0 });
    world.later(Times::default().retry);
}

/// RC-4: it is to be copied whole, and the survivors are told so first; the loss of one of them in
/// that moment does not keep it out for ever.
#[test]
fn a_replica_that_returns_while_another_one_is_lost_is_copied_to() {
    let mut world = degraded();
    world.holds = |request| matches!(request, Request::Roster { .. });
    world.refuses.clear();
    // Not the one that the target knows of it.
    world.kept = Roster(7);
    world.later(Millis(5_000));
    assert!(!world.held.is_empty(), "the survivors are told what it lacks");
    kill(&mut world, LEAVES);
    assert!(!world.store.is_recorded_healthy(LEAVES));
    world.held.retain(|(replica, ..)| *replica != LEAVES);
    world.answer_held();
    world.later(Millis(5_000));
    assert!(world.target.seen().children[&RETURNS].copied.is_some());
}

/// HA-2: no replica that the target still has can go on, so the next target must.
#[test]
fn a_target_whose_last_replica_restarted_fails_though_another_is_not_excluded_yet() {
    let mut world = degraded();
    world.is_store_up = false;
    kill(&mut world, LEAVES);
    assert!(world.store.is_recorded_healthy(LEAVES), "its exclusion is not recorded");
    world.instances.insert(STAYS, InstanceId::from_u128(6));
    world.tell(Input::ChildClosed { child: STAYS, session: 0 });
    world.later(Times::default().retry);
    assert!(matches!(world.target.phase(), Phase::Failed(_)), "{:?}", world.target.phase());
}
