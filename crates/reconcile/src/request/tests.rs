//! When a user hears what of a request.

use plan::Refusal;

use crate::{
    Event, Outcome,
    limits::REQUEST_TRIES,
    rig::{NODE, World},
};

fn is_cordoned(world: &World) -> bool {
    world.reconciler.world().node(NODE).is_some_and(|view| view.record.spec.cordoned)
}

/// ST-7: what was accepted is durable, and read back at once.
#[test]
fn a_request_is_answered_when_this_controller_sees_it_stored() {
    let mut world = World::with_node();
    world.watches = false;
    world.cordon(true);
    assert_eq!(world.replies, []);
    world.watch();
    assert!(is_cordoned(&world));
    assert!(matches!(world.replies[..], [Ok(_)]), "{:?}", world.replies);
}

#[test]
fn a_request_for_what_is_so_already_is_accepted_and_writes_nothing() {
    let mut world = World::with_node();
    world.cordon(false);
    assert!(matches!(world.replies[..], [Ok(_)]), "{:?}", world.replies);
    assert_eq!(world.commits, []);
}

/// Another write came first: the request is judged again by the world as it is then, so often and
/// not more.
#[test]
fn a_request_that_lost_a_race_is_tried_again_when_the_world_moved_on() {
    let mut world = World::with_node();
    world.outcome = Some(Outcome::Refused);
    world.cordon(true);
    assert_eq!((world.commits.len(), world.replies.len()), (1, 0));
    world.tell(Event::Tick);
    assert_eq!(world.commits.len(), 1, "nothing is known yet that would change it");
    for tries in 2..=REQUEST_TRIES {
        world.write(&model::Txn::default());
        assert_eq!(world.commits.len(), usize::try_from(tries).unwrap());
    }
    assert!(matches!(world.replies[..], [Err(Refusal::Conflict { .. })]), "{:?}", world.replies);
}

/// ST-6: without the store, or the lead, there is a clear error.
#[test]
fn a_request_without_store_or_lead_is_refused_by_that_name() {
    let mut world = World::with_node();
    world.outcome = Some(Outcome::Unavailable);
    world.cordon(true);
    assert_eq!(world.replies, [Err(Refusal::StoreUnavailable)]);
    world.replies.clear();
    world.outcome = Some(Outcome::Unknown);
    world.cordon(true);
    assert_eq!(world.replies, [], "it may have been written");
    world.reconciler.resign();
    world.tell(Event::Tick);
    world.cordon(true);
    assert_eq!(world.replies, [Err(Refusal::NotLeading), Err(Refusal::NotLeading)]);
    assert!(!is_cordoned(&world));
}
