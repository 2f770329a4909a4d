//! Stopping in the middle of something.

use model::{Membership, ReplicaId, Roster, TargetItem, VolumeId};

use super::super::rig::{World, item};
use crate::{Input, Phase, Request};

const REPLICAS: [ReplicaId; 2] = [ReplicaId::from_u128(1), ReplicaId::from_u128(2)];

/// ST-5: whoever hears first that the target is gone, and only then that it had claimed the record,
/// must not take the record for its own.
#[test]
fn a_target_that_stops_during_a_recovery_gives_its_record_back() {
    let mut store = Membership::founded(VolumeId::from_u128(9), REPLICAS);
    (store.clean, store.roster) = (false, Roster(1));
    let (mut world, out) = World::started(store);
    world.dirty = block::Bitmap::full(1);
    // It is told to stop before anything is copied.
    world.holds = |request| matches!(request, Request::Roster { .. });
    world.follow(out);
    assert!(world.store.owner.is_some(), "{:?}", world.target.phase());
    assert!(world.store.resync_source.is_some());
    let wanted = TargetItem { serve: false, ..item(&world.store) };
    world.tell(Input::Config(wanted));
    world.answer_held();
    world.later(crate::Times::default().lease_over);
    assert_eq!(*world.target.phase(), Phase::Stopped);
    assert_eq!(world.store.owner, None);
    assert!(world.store.resync_source.is_some() && !world.store.clean, "the next one goes on");
}
