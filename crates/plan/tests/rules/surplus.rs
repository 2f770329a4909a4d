//! Copies that are no longer wanted.

use crate::{check_volumes as check, settled};

#[test]
fn scaling_down_drops_the_copy_in_the_fullest_pool() {
    check(
        "node a b c; pool a1 b1 100G; pool c1 50G; volume v 10G x2: a1, b1, c1",
        &["v: DropReplica v/c1 (Surplus 2)"],
    );
}

#[test]
fn an_unhealthy_surplus_copy_goes_before_a_healthy_one() {
    check(
        "node a b c; pool a1 b1 c1; volume v 10G x2: a1 faulted, b1, c1",
        &["v: DropReplica v/a1 (Surplus 2)"],
    );
}

/// RC-4: a target that runs takes a copy out of the membership before it is dropped.
#[test]
fn under_a_target_a_copy_is_retired_then_dropped() {
    let nodes = "node a b c; pool a1 b1 c1; host h;";
    check(
        &format!("{nodes} volume v 10G x2 publish=h on=a: a1, b1, c1"),
        &["v: RetireReplica v/c1 (Surplus 2)"],
    );
    check(
        &format!("{nodes} volume v 10G x2 publish=h on=a: a1, b1, c1 retiring"),
        &["v waits: OthersHealthy v/c1"],
    );
    check(
        &format!("{nodes} volume v 10G x2 publish=h on=a roster=2: a1, b1, c1 retiring outsider"),
        &["v: DropReplica v/c1 (Surplus 2)"],
    );
}

#[test]
fn a_copy_goes_only_when_the_others_know_the_newest_roster() {
    check(
        "node a b c; pool a1 b1 c1; host h; \
         volume v 10G x2 publish=h on=a roster=2: a1, b1 roster=1, c1 retiring outsider",
        &["v waits: OthersHealthy v/c1"],
    );
}

#[test]
fn a_copy_stays_until_the_target_knows_that_it_goes() {
    check(
        "node b c; node a behind; pool a1 b1 c1; host h; \
         volume v 10G x2 publish=h on=a: a1, b1, c1 retiring outsider",
        &["v waits: OthersHealthy v/c1"],
    );
}

/// RC-4: after an unclean stop nobody knows which copy is intact: a target is started to tell.
#[test]
fn no_copy_recorded_healthy_is_dropped_from_an_unclean_record() {
    check(
        "node a b c; pool a1 b1 c1; volume v 10G x2 unclean epoch=1: a1, b1, c1",
        &["v: RetireReplica v/c1 (Surplus 2)"],
    );
}

#[test]
fn a_retiring_copy_that_is_needed_again_is_kept() {
    check(
        "node a c; node b dead; pool a1 b1 c1; host h; volume v 10G x2 publish=h on=a: \
         a1, b1 faulted gone=990s after=1010s, c1 retiring",
        &["v: KeepReplica v/c1 (Degraded 1 2)", "v waits: ReplicaReturns v/b1 1010s"],
    );
}

/// RC-4: a copy that a drain retires is kept once the other, which was to stay, is lost.
#[test]
fn the_last_good_copy_is_kept_though_its_node_is_drained() {
    let nodes = "node a draining; node c; pool a1 b1; host h; volume v 10G x2 publish=h on=c:";
    let keeps = "v: KeepReplica v/a1 (Degraded 0 2)";
    check(
        &format!("node b dead; {nodes} a1 retiring, b1 gone=990s after=1010s"),
        &[
            keeps,
            "v waits: ReplicaReturns v/b1 1010s",
            "v waits: NoRoom 10G [(\"not online\", 1), (\"cordoned, drained or leaving\", 1)]",
        ],
    );
    check(
        &format!("node b forgotten; {nodes} a1 retiring, b1 gone=990s after=1000s"),
        &[keeps, "v waits: NoRoom 10G [(\"cordoned, drained or leaving\", 2)]"],
    );
}

/// RC-4: the last healthy copy is never dropped.
#[test]
fn the_last_good_copy_never_goes() {
    check(
        "node a b; pool a1 b1; volume v 10G x1: a1, b1 faulted",
        &["v: DropReplica v/b1 (Surplus 1)"],
    );
    check(
        "node a draining; pool a1; volume v 10G x1: a1",
        &["v waits: NoRoom 10G [(\"cordoned, drained or leaving\", 1)]"],
    );
    check(
        "node a b; node c dead; pool a1 b1 c1; volume v 10G x1: c1 gone=1s after=2s",
        &["v waits: NoHealthyCopy [c1]"],
    );
}

/// HA-8: a drained node's copies are replaced first and dropped after that.
#[test]
fn a_drained_copy_is_replaced_before_it_goes() {
    let nodes = "node a draining; node b c; pool a1 b1 c1;";
    check(&format!("{nodes} volume v 10G x2: a1, b1"), &["v: PlaceReplica v/c1 (Degraded 2 2)"]);
    check(
        &format!("{nodes} volume v 10G x2 epoch=1: a1, b1, c1 outsider"),
        &["v: GrantRebuild v/c1 (Degraded 1 2)"],
    );
    check(
        &format!("{nodes} volume v 10G x2 epoch=1: a1, b1, c1"),
        &["v: DropReplica v/a1 (Draining a)"],
    );
    let lab = settled(&format!("{nodes} volume v 10G x2: a1, b1"));
    crate::check_lines(
        &lab.log,
        &[
            "v: PlaceReplica v/c1 (Degraded 2 2)",
            "v: ConfirmReplicas [v/c1] (Observed)",
            "v: GrantRebuild v/c1 (Degraded 1 2)",
            "v: IssueTarget b b 1 (NeededFor(Repair))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "v: EndRebuild v/c1 (Observed)",
            "v: StopTarget (Unneeded)",
            "v: RemoveTarget (Observed)",
            "v: DropReplica v/a1 (Draining a)",
            "a: ClearTombstones [Replica v/a1, a1] (Observed)",
        ],
        "a drain",
    );
    crate::check_lines(&lab.waits(), &[], "a drain");
}

#[test]
fn a_drain_that_is_cancelled_gives_the_unfinished_copy_up() {
    check(
        "node a b c; pool a1 b1 c1; volume v 10G x2 epoch=1: a1, b1, c1 faulted",
        &["v: DropReplica v/c1 (Surplus 2)"],
    );
}

/// OP-2: with its hardware forgotten a copy goes as soon as another is good, and nobody is told.
#[test]
fn a_forgotten_copy_goes_and_its_node_with_it() {
    let scene = "node a c; node b forgotten; pool a1 b1 c1; volume v 10G x2 epoch=1:";
    check(
        &format!("{scene} a1, b1 faulted gone=900s after=900s, c1 creating absent outsider"),
        &["v: DropReplica v/b1 (Lost(Forgotten))", "v waits: ReplicaMade v/c1 c"],
    );
    let lab = settled(&format!("{scene} a1, b1"));
    crate::check_lines(
        &lab.log,
        &[
            "v: IssueTarget a a 2 (NeededFor(Repair))",
            "v: StartTarget (Observed)",
            "v: MarkGone v/b1 1000s (Lost(Forgotten))",
            "v: ConfirmTarget (Observed)",
            "v: PlaceReplica v/c1 (Degraded 1 2)",
            "v: ConfirmReplicas [v/c1] (Observed)",
            "v: GrantRebuild v/c1 (Degraded 1 2)",
            "v: RetireReplica v/b1 (Lost(Forgotten))",
            "v: EndRebuild v/c1 (Observed)",
            "v: DropReplica v/b1 (Lost(Forgotten))",
            "b1: ForgetPool (Asked)",
            "v: StopTarget (Unneeded)",
            "b: ForgetNode (Asked)",
            "v: RemoveTarget (Observed)",
        ],
        "a forgotten node",
    );
    crate::check_lines(&lab.waits(), &[], "a forgotten node");
}

#[test]
fn a_copy_missing_from_its_pool_goes_by_the_word_of_a_target() {
    check(
        "node a b c; pool a1 b1 c1; volume v 10G x2 epoch=1: \
         a1, b1 missing gone=900s after=900s, c1 creating absent outsider",
        &["v: IssueTarget a a 2 (NeededFor(Repair))", "v waits: ReplicaMade v/c1 c"],
    );
    check(
        "node a b c; pool a1 b1 c1; volume v 10G x2 epoch=1: \
         a1, b1 missing faulted gone=900s after=900s, c1 creating absent outsider",
        &["v: DropReplica v/b1 (Lost(ReplicaMissing))", "v waits: ReplicaMade v/c1 c"],
    );
}

#[test]
fn the_last_copy_of_a_snapshot_stays() {
    let pools = "pool a1 b1 100G; pool c1 50G;";
    check(
        &format!("node a b c; {pools} volume v 10G x2: a1, b1, c1; snapshot s of v: c1"),
        &["v: DropReplica v/b1 (Surplus 2)"],
    );
    check(
        &format!(
            "node a b; node c draining; {pools} volume v 10G x2: a1, b1, c1; snapshot s of v: c1"
        ),
        &["v waits: SnapshotKept v/c1 s"],
    );
}
