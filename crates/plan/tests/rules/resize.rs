//! Growing: first the replicas, then what the target shows.

use crate::{check_lines, check_volumes as check, settled};

#[test]
fn copies_grow_first_and_the_target_shows_it_after_all_have() {
    let v = "node a b; pool a1 b1 100G; volume v 20G x2";
    check(&format!("{v} size=10G: a1, b1"), &["v: Grow 20G (Asked)"]);
    check(&format!("{v} exposed=10G: a1, b1 size=10G"), &["v waits: GrowthSeen v/b1 20G"]);
    check(&format!("{v} exposed=10G: a1, b1"), &["v: Expose 20G (Observed)"]);
}

#[test]
fn growing_waits_for_room_of_a_thick_volume_alone() {
    let nodes = "node a b; pool a1 100G; pool b1 15G;";
    check(&format!("{nodes} volume v 20G x2 size=10G: a1, b1"), &["v waits: NoRoomToGrow b1 10G"]);
    check(&format!("{nodes} volume v 20G x2 thin size=10G: a1, b1"), &["v: Grow 20G (Asked)"]);
}

#[test]
fn a_lost_copy_does_not_hold_growth_up() {
    check(
        "node a; node b dead; pool a1 b1; \
         volume v 20G x2 exposed=10G: a1, b1 size=10G gone=1s after=2000s",
        &["v: Expose 20G (Observed)", "v waits: ReplicaReturns v/b1 2000s"],
    );
    check(
        "node a; node b unknown; pool a1 b1; volume v 20G x2 exposed=10G: a1, b1 size=10G",
        &["v waits: GrowthSeen v/b1 20G"],
    );
}

#[test]
fn growth_comes_to_rest_at_the_new_size() {
    let lab =
        settled("node a b; pool a1 b1; host h; volume v 20G x2 size=10G publish=h on=a: a1, b1");
    check_lines(&lab.log, &["v: Grow 20G (Asked)", "v: Expose 20G (Observed)"], "growth");
}
