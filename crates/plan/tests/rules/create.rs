//! From promised replicas to made ones.

use crate::check_volumes as check;

const NODES: &str = "node a b c; pool a1 b1 c1 100G;";

#[test]
fn a_copy_that_is_observed_is_confirmed() {
    check(
        &format!("{NODES} volume v 10G x2 creating: a1 creating, b1 creating"),
        &["v: ConfirmReplicas [v/a1, v/b1] (Observed)"],
    );
}

/// LC-1: the volume is created only once every first replica was observed.
#[test]
fn creation_waits_for_every_copy_and_then_ends() {
    check(
        &format!("{NODES} volume v 10G x2 creating: a1, b1 creating absent"),
        &["v waits: ReplicaMade v/b1 b"],
    );
    check(&format!("{NODES} volume v 10G x2 creating: a1, b1"), &["v: FinishCreation (Observed)"]);
}

#[test]
fn a_report_from_before_the_record_says_nothing_about_a_copy() {
    check(
        "node a; node b behind; pool a1 b1; volume v 10G x2 creating: a1, b1 creating absent",
        &["v waits: ReplicaMade v/b1 b"],
    );
}

#[test]
fn a_blank_copy_that_is_refused_or_lost_is_replaced_by_a_blank_one() {
    check(
        &format!("{NODES} volume v 10G x2 creating: a1, b1 creating refused"),
        &["v: ReplaceBlank v/b1 v/c1 (Lost(Refused))"],
    );
    check(
        "node a c; node b dead; pool a1 b1 c1; \
         volume v 10G x2 creating: a1 creating absent, b1 creating absent",
        &["v: ReplaceBlank v/b1 v/c1 (Lost(NodeDead))", "v waits: ReplicaMade v/a1 a"],
    );
}

#[test]
fn a_blank_copy_without_another_place_waits_for_room() {
    check(
        "node a b; pool a1 b1; volume v 10G x2 creating: a1, b1 creating refused",
        &[
            "v: MarkGone v/b1 1000s (Lost(Refused))",
            "v waits: NoRoom 10G [(\"on a node that has a copy\", 2)]",
        ],
    );
}

#[test]
fn once_a_target_was_issued_no_copy_is_blank() {
    check(
        &format!("{NODES} volume v 10G x2 epoch=1: a1, b1 creating refused"),
        &["v: IssueTarget a a 2 (NeededFor(Repair))"],
    );
}

#[test]
fn a_refused_copy_of_a_snapshot_is_given_up_beside_a_made_one() {
    check(
        &format!(
            "{NODES} volume s 10G x2: a1, b1; snapshot snap of s: a1, b1; \
             volume v 10G x2 creating origin=snap: a1 creating, b1 creating refused"
        ),
        &["v: ConfirmReplicas [v/a1] (Observed)"],
    );
    check(
        &format!(
            "{NODES} volume s 10G x2: a1, b1; snapshot snap of s: a1, b1; \
             volume v 10G x2 creating origin=snap: a1, b1 creating refused"
        ),
        &["v: ReplaceBlank v/b1 nothing (Lost(Refused))"],
    );
    check(
        &format!(
            "{NODES} volume s 10G x2: a1, b1; snapshot snap of s: a1, b1; \
             volume v 10G x1 creating origin=snap: b1 creating refused"
        ),
        &["v: ReplaceBlank v/b1 v/a1 (Lost(Refused))"],
    );
}

/// M-16: a spare copy of a clone is rebuilt from its peers; its pool need not have the snapshot.
#[test]
fn a_clone_is_created_although_a_later_copy_is_not_made() {
    check(
        "node a b c; pool a1 b1 c1; volume w 1G x1: a1; snapshot s of w: a1; \
         volume v 1G x2 creating origin=s: a1, b1 outsider creating absent",
        &["v: FinishCreation (Observed)", "v waits: ReplicaMade v/b1 b"],
    );
}
