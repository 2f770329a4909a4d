//! The rules of a snapshot.

use model::Subject;

use crate::{check_lines, check_plans, settled};

const V: &str = "node a b; pool a1 b1; volume v 10G x2 on=a";

#[track_caller]
fn check(text: &str, expect: &[&str]) {
    check_plans(text, |subject| matches!(subject, Subject::Snapshot(_)), expect);
}

#[test]
fn a_snapshot_is_ready_when_every_healthy_copy_has_it() {
    check(
        &format!("{V}: a1, b1; snapshot s of v taking: a1, b1"),
        &["s: FinishSnapshot v/a1 v/b1 10G (Observed)"],
    );
    check(&format!("{V}: a1, b1; snapshot s of v taking: a1"), &["s waits: SnapshotTaken s 1060s"]);
    check(
        &format!("{V}: a1, b1 faulted; snapshot s of v taking: a1"),
        &["s: FinishSnapshot v/a1 10G (Observed)"],
    );
    check(
        &format!("{V} resync=a1: a1, b1; snapshot s of v taking: a1, b1"),
        &["s waits: SnapshotTaken s 1060s"],
    );
    check(
        &format!("{V} starting: a1, b1; snapshot s of v taking: a1, b1"),
        &["s waits: SnapshotTaken s 1060s"],
    );
}

/// Seed 55000711: replicas were seen to hold an attempt that their target was taking back, and the
/// newer membership record no longer counted the one that lacked it.
#[test]
fn a_snapshot_is_ready_only_when_its_target_says_that_it_was_taken() {
    check(
        &format!("{V}: a1, b1; snapshot s of v taking unreported: a1, b1"),
        &["s waits: SnapshotTaken s 1060s"],
    );
    check(
        &format!("{V}: a1, b1 faulted; snapshot s of v taking unreported: a1"),
        &["s waits: SnapshotTaken s 1060s"],
    );
}

/// LC-4: a snapshot that fails, or is not taken in time, is recorded so.
#[test]
fn a_snapshot_fails_by_its_target_or_its_deadline() {
    check(
        &format!("{V}: a1, b1; snapshot s of v taking by=1000s: a1"),
        &["s: FailSnapshot \"it was not taken by its deadline\" (Deadline)"],
    );
    check(
        &format!("{V} failed-snapshot=s: a1, b1; snapshot s of v taking: a1"),
        &["s: FailSnapshot \"a replica could not take it\" (Observed)"],
    );
}

#[test]
fn a_snapshot_is_deleted_when_asked_or_with_its_volume() {
    check(
        &format!("{V}: a1, b1; snapshot s of v deleting: a1, b1"),
        &["s: DeleteSnapshot (Asked)"],
    );
    check(
        &format!("{V} deleting: a1, b1; snapshot s of v: a1, b1"),
        &["s: DeleteSnapshot (Asked)"],
    );
}

#[test]
fn the_record_of_copies_follows_what_is_there() {
    check(
        &format!("{V}: a1, b1; snapshot s of v recorded=a1: a1, b1"),
        &["s: UpdateCopies v/a1 v/b1 (Observed)"],
    );
    check(
        &format!("{V}: a1, b1; snapshot s of v recorded=a1+x1: a1"),
        &["s: UpdateCopies v/a1 (Observed)"],
    );
    check(&format!("{V}: a1, b1; snapshot s of v recorded=a1+b1: a1"), &[]);
    check(&format!("{V}: a1, b1; snapshot s of v recorded=a1:"), &[]);
}

/// A volume that nobody has published gets a target for as long as the snapshot takes.
#[test]
fn a_snapshot_of_an_idle_volume_brings_its_own_target() {
    let lab =
        settled("node a b; pool a1 b1; volume v 10G x2: a1, b1; snapshot s of v taking by=1060s:");
    check_lines(
        &lab.log,
        &[
            "v: IssueTarget a a 1 (NeededFor(Snapshot))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
            "s: FinishSnapshot v/a1 v/b1 10G (Observed)",
            "v: StopTarget (Unneeded)",
            "v: RemoveTarget (Observed)",
        ],
        "a snapshot",
    );
    let copies = &lab.world.snapshots[&lab.names.snapshot("s")].layout.copies;
    assert_eq!(copies.len(), 2);
}

#[test]
fn a_failed_snapshot_leaves_nothing_on_the_copies() {
    let lab = settled(
        "node a b; pool a1 b1; volume v 10G x2 on=a failed-snapshot=s: a1, b1; \
         snapshot s of v taking: a1",
    );
    check_lines(
        &lab.log,
        &[
            "s: FailSnapshot \"a replica could not take it\" (Observed)",
            "a: ClearTombstones [Snapshot s, v/a1, a1] (Observed)",
            "b: ClearTombstones [Snapshot s, v/b1, b1] (Observed)",
            "v: StopTarget (Unneeded)",
            "v: RemoveTarget (Observed)",
        ],
        "a failed snapshot",
    );
}
