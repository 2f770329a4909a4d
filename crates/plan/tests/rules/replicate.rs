//! Keeping the number of healthy copies.

use crate::{check_volumes as check, settled};

/// RC-4: with one copy left only a restart is waited for, with more a reboot or a repair.
#[test]
fn the_fewer_copies_are_left_the_shorter_a_lost_one_may_stay_away() {
    check(
        "node a; node b dead; pool a1 b1; volume v 10G x2: a1, b1",
        &["v: MarkGone v/b1 1020s (Lost(NodeDead))"],
    );
    check(
        "node a c; node b dead; pool a1 b1 c1; volume v 10G x3: a1, b1, c1",
        &["v: MarkGone v/b1 1300s (Lost(NodeDead))"],
    );
    check(
        "node a c d; node b dead; pool a1 b1 c1 d1; volume v 10G x4: a1, b1, c1, d1",
        &["v: MarkGone v/b1 1900s (Lost(NodeDead))"],
    );
    check(
        "node a; node b dead; pool a1 b1; volume v 10G x2 wait=7s: a1, b1",
        &["v: MarkGone v/b1 1007s (Lost(NodeDead))"],
    );
}

/// RC-4: what cannot come back is not waited for.
#[test]
fn a_copy_that_will_not_return_is_replaced_at_once() {
    check(
        "node a b; pool a1; pool b1 missing; volume v 10G x2: a1, b1",
        &["v: MarkGone v/b1 1000s (Lost(PoolMissing))"],
    );
    check(
        "node a b; pool a1 b1; volume v 10G x2: a1, b1 missing",
        &["v: MarkGone v/b1 1000s (Lost(ReplicaMissing))"],
    );
    check(
        "node a b; pool a1 b1; volume v 10G x2: a1, b1 absent",
        &["v: MarkGone v/b1 1000s (Lost(ReplicaMissing))"],
    );
    check(
        "node a; node b forgotten; pool a1 b1; volume v 10G x2: a1, b1",
        &["v: MarkGone v/b1 1000s (Lost(Forgotten))"],
    );
    check(
        "node a b; pool a1; pool b1 forgotten; volume v 10G x2: a1, b1",
        &["v: MarkGone v/b1 1000s (Lost(Forgotten))"],
    );
}

#[test]
fn a_copy_of_which_nothing_is_known_is_not_lost() {
    check("node a; node b unknown; pool a1 b1; volume v 10G x2: a1, b1", &[]);
    check("node a; node b unheard; pool a1 b1; volume v 10G x2: a1, b1", &[]);
    check("node a b; pool a1; pool b1 importing; volume v 10G x2: a1, b1", &[]);
    check("node a; node b behind; pool a1 b1; volume v 10G x2: a1, b1 absent", &[]);
}

/// RC-4: while it may return in time, nothing is copied.
#[test]
fn a_lost_copy_is_waited_for_and_then_replaced() {
    let nodes = "node a c; node b dead; pool a1 b1 c1;";
    check(
        &format!("{nodes} volume v 10G x2: a1, b1 faulted gone=990s after=1010s"),
        &["v waits: ReplicaReturns v/b1 1010s"],
    );
    check(
        &format!("{nodes} volume v 10G x2: a1, b1 faulted gone=970s after=990s"),
        &["v: PlaceReplica v/c1 (Degraded 1 2)"],
    );
}

/// RC-4, M-16: the only other node of its zone takes the place of a copy that is given up.
#[test]
fn a_copy_on_a_dead_node_does_not_hold_its_zone() {
    let nodes = "node a zone=x; node b dead zone=y; node c zone=y; pool a1 b1 c1;";
    check(
        &format!("{nodes} volume v 10G x2 spread=zone: a1, b1 faulted gone=970s after=990s"),
        &["v: PlaceReplica v/c1 (Degraded 1 2)"],
    );
}

#[test]
fn a_copy_that_is_back_is_marked_so() {
    check(
        "node a b; pool a1 b1; volume v 10G x2: a1, b1 gone=990s after=1010s",
        &["v: MarkReturned v/b1 (Observed)"],
    );
}

/// RC-4: a copy that comes back in time keeps its place: the target's dirty map decides how much.
#[test]
fn a_copy_that_returned_in_time_is_rebuilt_where_it_is() {
    check(
        "node a b c; pool a1 b1 c1; volume v 10G x2: a1, b1 faulted",
        &["v: GrantRebuild v/b1 (Degraded 1 2)"],
    );
}

#[test]
fn a_spare_is_placed_only_beside_a_good_copy() {
    check(
        "node a c; node b dead; pool a1 b1 c1; \
         volume v 10G x2: a1 faulted, b1 gone=900s after=920s",
        &["v waits: NoHealthyCopy [b1]"],
    );
}

#[test]
fn without_a_place_for_a_spare_the_reasons_are_counted() {
    check(
        "node a d; node c cordoned; node b dead; pool a1 b1 c1; pool d1 5G; \
         volume v 10G x2: a1, b1 faulted gone=900s after=920s",
        &["v waits: NoRoom 10G [(\"not online\", 1), (\"cordoned, drained or leaving\", 1), \
             (\"on a node that has a copy\", 1), (\"without room\", 1)]"],
    );
}

#[test]
fn scaling_up_places_one_more() {
    check(
        "node a b c; pool a1 b1 c1; volume v 10G x3: a1, b1",
        &["v: PlaceReplica v/c1 (Degraded 2 3)"],
    );
}

#[test]
fn a_copy_that_is_being_made_counts_already() {
    check(
        "node a b c; pool a1 b1 c1; volume v 10G x3 epoch=1: a1, b1, c1 creating absent outsider",
        &["v waits: ReplicaMade v/c1 c"],
    );
}

#[test]
fn a_rebuild_is_granted_to_a_made_copy_and_ends_with_it() {
    let nodes = "node a b c; pool a1 b1 c1;";
    check(
        &format!("{nodes} volume v 10G x2 epoch=1: a1, b1 outsider"),
        &["v: GrantRebuild v/b1 (Degraded 1 2)"],
    );
    check(
        &format!("{nodes} volume v 10G x2 on=a: a1, b1 faulted rebuilding copied=40"),
        &["v waits: CopyRuns v/b1 40"],
    );
    check(
        &format!("{nodes} volume v 10G x2 on=a: a1, b1 rebuilding"),
        &["v: EndRebuild v/b1 (Observed)"],
    );
    check(
        "node a c; node b dead; pool a1 b1 c1; \
         volume v 10G x2 on=a: a1, b1 faulted rebuilding gone=990s after=1010s",
        &["v: EndRebuild v/b1 (Lost(NodeDead))"],
    );
}

#[test]
fn a_resync_keeps_its_slots_until_it_is_over() {
    check("node a b; pool a1 b1; volume v 10G x2 on=a resync=a1: a1, b1 rebuilding", &[]);
}

/// RS-2: the copies are trusted again before the target of a resync goes, or a lost source would be
/// a lost volume.
#[test]
fn a_resync_is_finished_though_nobody_has_the_volume() {
    check(
        "node a b; pool a1 b1; volume v 10G x2 unclean epoch=1 resync=a1: a1, b1",
        &["v: IssueTarget a a 2 (NeededFor(Repair))"],
    );
    check("node a b; pool a1 b1; volume v 10G x2 on=a resync=a1: a1, b1", &[]);
}

#[test]
fn nothing_is_granted_beyond_the_number_wanted() {
    check(
        "node a b c; pool a1 b1 c1; volume v 10G x2: a1, b1, c1 faulted retiring",
        &["v: IssueTarget a a 1 (NeededFor(Repair))"],
    );
    check(
        "node a b c; pool a1 b1 c1; volume v 10G x2 on=a: a1, b1, c1 faulted",
        &["v: StopTarget (Unneeded)"],
    );
}

/// M-19: the slots of the cluster and of each node are limited, and some are kept for volumes
/// with one copy left.
#[test]
fn rebuild_slots_are_limited_and_some_kept_for_the_endangered() {
    use std::fmt::Write;
    let mut text = String::from("node a b c d e; pool a1 b1 c1 d1 e1 1000G;");
    // Three into each of four nodes: twelve of sixteen slots.
    for (index, pool) in ["b1", "c1", "d1", "e1"].iter().cycle().take(12).enumerate() {
        write!(text, "volume busy{index} 1G x2 on=a: a1, {pool} faulted rebuilding;").unwrap();
    }
    let waiting = "volume v 1G x3: a1, b1, c1 faulted; volume w 1G x2: a1, b1 faulted";
    let scene = fixtures::Scene::new(&format!("{text}{waiting}"));
    let of = |name| scene.plan(model::Subject::Volume(scene.names.volume(name)));
    crate::check_lines(&of("v"), &["v waits: RebuildSlot 2"], waiting);
    crate::check_lines(&of("w"), &["w: GrantRebuild w/b1 (Degraded 1 2)"], waiting);
    let full = "volume more 1G x2 on=a: a1, b1 faulted rebuilding; volume w 1G x2: a1, b1 faulted";
    let scene = fixtures::Scene::new(&format!("{text}{full}"));
    let w = scene.plan(model::Subject::Volume(scene.names.volume("w")));
    crate::check_lines(&w, &["w waits: RebuildSlot 1"], full);
}

/// RC-4: the whole way of a lost copy, to a healthy volume and no target left behind.
#[test]
fn a_lost_copy_is_replaced_in_full_and_everything_comes_to_rest() {
    let lab = settled("node a c; node b dead gone=1s; pool a1 b1 c1; volume v 10G x2: a1, b1");
    crate::check_lines(
        &lab.log,
        &[
            "v: MarkGone v/b1 1020s (Lost(NodeDead))",
            "v: PlaceReplica v/c1 (Degraded 1 2)",
            "v: ConfirmReplicas [v/c1] (Observed)",
            "v: GrantRebuild v/c1 (Degraded 1 2)",
            "v: IssueTarget a a 1 (NeededFor(Repair))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: EndRebuild v/c1 (Observed)",
            "v: StopTarget (Unneeded)",
            "v: RemoveTarget (Observed)",
            "v: DropReplica v/b1 (Surplus 2)",
        ],
        "the way of a spare",
    );
    crate::check_lines(&lab.waits(), &["b waits: TombstoneDone b Replica v/b1 b1"], "the rest");
}
