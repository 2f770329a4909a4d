//! Each broken brain is caught, by promises that are not about it.
//!
//! The first seed is one that caught it when the test was written; rules change, so others follow.

use super::{BrokenBrain, Sound, broken_brains, catch};
use crate::Options;

/// Tried after the first one.
const SEEDS: core::ops::RangeInclusive<u64> = 1..=40;

/// The real brain runs each seed once for all tests.
static SOUND: Sound =
    Sound::new(Options { trace: false, patience: None, real_nodes: None, asks_unchecked: false });

fn check(name: &str, first: u64) {
    let brains: Vec<BrokenBrain> = broken_brains();
    let broken = brains.iter().find(|brain| brain.name == name).expect("a brain of that name");
    let seeds = core::iter::once(first).chain(SEEDS);
    let caught = catch(broken, seeds, &SOUND);
    assert!(caught.is_some(), "nothing catches {broken:?}");
}

macro_rules! caught {
    ($($test:ident: $name:literal from $seed:literal;)*) => {
        $(
            #[test]
            fn $test() {
                check($name, $seed);
            }
        )*

        #[test]
        fn every_broken_brain_has_a_test() {
            let tested = [$($name),*];
            let untested = |brain: &&BrokenBrain| !tested.contains(&brain.name.as_str());
            assert!(broken_brains().iter().find(untested).is_none());
        }
    };
}

caught! {
    a_brain_that_drops_the_last_copy_is_caught: "drops-the-last-copy" from 1;
    a_brain_that_promotes_by_itself_is_caught: "promotes-by-itself" from 1;
    a_brain_that_retires_good_copies_is_caught: "retires-good-copies" from 1;
    a_brain_that_trusts_every_copy_is_caught: "trusts-every-copy" from 1;
    a_brain_that_confirms_the_unserved_is_caught: "confirms-the-unserved" from 1;
    a_brain_that_forgets_the_fence_is_caught: "forgets-the-fence" from 1;
    a_brain_that_jumps_a_stage_is_caught: "jumps-a-stage" from 1;
    a_brain_that_leaves_hosts_behind_is_caught: "leaves-hosts-behind" from 2;
    a_brain_that_raises_half_an_epoch_is_caught: "raises-half-an-epoch" from 1;
    a_brain_that_starts_unfenced_is_caught: "starts-unfenced" from 1;
    a_brain_that_admits_a_second_host_is_caught: "admits-a-second-host" from 9;
    a_brain_that_publishes_the_unserved_is_caught: "publishes-the-unserved" from 1;
    a_brain_that_releases_hosts_early_is_caught: "releases-hosts-early" from 6;
    a_brain_that_retries_failures_is_caught: "retries-failures" from 1;
    a_brain_that_clears_tombstones_unseen_is_caught: "clears-tombstones-unseen" from 1;
    a_brain_that_deletes_on_absence_is_caught: "deletes-on-absence" from 27;
    a_brain_that_deletes_unasked_is_caught: "deletes-unasked" from 1;
    a_brain_that_skips_tombstones_is_caught: "skips-tombstones" from 1;
    a_brain_that_takes_unreadable_for_deleted_is_caught: "takes-unreadable-for-deleted" from 1;
    a_brain_that_exposes_early_is_caught: "exposes-early" from 2;
    a_brain_that_finishes_snapshots_early_is_caught: "finishes-snapshots-early" from 1;
    a_brain_that_places_beside_itself_is_caught: "places-beside-itself" from 1;
    a_brain_that_reuses_ids_is_caught: "reuses-ids" from 1;
    a_brain_that_spends_space_twice_is_caught: "spends-space-twice" from 7;
    a_brain_that_acts_on_a_lost_lease_is_caught: "acts-on-a-lost-lease" from 1;
    a_brain_that_answers_too_soon_is_caught: "answers-too-soon" from 1;
    a_brain_that_steals_the_guard_is_caught: "steals-the-guard" from 1;
    a_brain_that_hears_once_is_caught: "hears-once" from 1;
    a_brain_that_kills_on_taking_office_is_caught: "kills-on-taking-office" from 1;
    a_brain_that_tells_hosts_nothing_is_caught: "tells-hosts-nothing" from 1;
    a_brain_that_trusts_stale_inventories_is_caught: "trusts-stale-inventories" from 1;
    a_brain_that_never_rests_is_caught: "never-rests" from 1;
    a_brain_that_revives_the_dead_is_caught: "revives-the-dead" from 1;
}
