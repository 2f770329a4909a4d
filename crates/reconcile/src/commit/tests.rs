//! One commit per subject, and what becomes of it.

use alloc::string::ToString as _;

use model::Millis;

use crate::{
    Event, Outcome,
    rig::{NODE, PROCESS, World},
};

fn register(world: &mut World) {
    let (name, address) = ("n".to_string(), "127.0.0.1:1".to_string());
    world.tell(Event::NodeRegistered { node: NODE, name, address, instance: PROCESS });
}

/// A subject rests between its commit and the watch that shows it: the world is older than that.
#[test]
fn nothing_is_planned_of_a_subject_before_its_own_change_is_seen() {
    let mut world = World::leading();
    world.commits.clear();
    world.watches = false;
    register(&mut world);
    assert_eq!(world.commits.len(), 1);
    register(&mut world);
    world.pass(Millis(400));
    assert_eq!(world.commits.len(), 1, "it is on its way");
    world.watch();
    assert!(world.reconciler.world().node(NODE).is_some());
    assert_eq!(world.commits.len(), 1, "and was not needed again");
}

/// RC-1: whatever is refused or unavailable is tried again, unasked and not at once.
#[test]
fn a_commit_that_fails_is_planned_again_after_a_while() {
    for outcome in [Outcome::Refused, Outcome::Unavailable] {
        let mut world = World::leading();
        world.commits.clear();
        world.outcome = Some(outcome);
        register(&mut world);
        assert_eq!((world.commits.len(), world.reconciler.stats().conflicts), (1, 1));
        world.outcome = None;
        // Long before everything is looked at again anyhow.
        world.pass(Millis(500));
        assert!(world.reconciler.world().node(NODE).is_some(), "{outcome:?}");
    }
}
