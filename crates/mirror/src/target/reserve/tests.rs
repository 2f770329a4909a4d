//! What a host reserves, with a store that may be away.

use model::Membership;

use super::super::rig::{founded, reserved, serving, serving_from};
use crate::{Command, Input, Phase, Times};

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
    for (kept, is_lost) in [(model::Roster::ZERO, false), (model::Roster(1), true)] {
        let store = Membership { clean: false, ..founded() };
        let world = serving_from(store, false, kept);
        assert_eq!(world.store.unflushed_lost, is_lost, "{kept}");
    }
}
