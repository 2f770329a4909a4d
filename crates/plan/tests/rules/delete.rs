//! Deletion: one transaction, and it never gets stuck.

use fixtures::Scene;
use model::{Subject, Write};

use crate::{check_lines, check_volumes as check, settled};

/// LC-5: nobody waits for a node that may never return.
#[test]
fn a_volume_goes_at_once_whoever_is_away() {
    check(
        "node a; node b dead; pool a1 b1; volume v 1G x2 deleting on=a: a1, b1",
        &["v: DeleteVolume (Asked)"],
    );
    check(
        "node a b unknown; pool a1 b1; volume v 1G x2 deleting: a1, b1",
        &["v: DeleteVolume (Asked)"],
    );
}

/// LC-5: one transaction removes the volume and writes a tombstone for each thing it had.
#[test]
fn everything_it_had_is_buried_with_it() {
    let scene = Scene::new(
        "node a c; node b dead; node d forgotten; pool a1 b1 c1 d1; \
         volume v 1G x3 deleting on=a epoch=3 old=c@1: a1, b1, d1",
    );
    let subject = Subject::Volume(scene.names.volume("v"));
    let step = plan::plan(&scene.world, subject).step.unwrap();
    let txn = plan::apply(&scene.world, &step).unwrap();
    let mut lines: Vec<String> = txn
        .writes
        .iter()
        .map(|write| match write {
            Write::Put { key, .. } => format!("put {key}"),
            Write::Delete { key } => format!("delete {key}"),
        })
        .map(|line| scene.names.readable(&line))
        .collect();
    lines.sort();
    check_lines(
        &lines,
        &[
            "delete membership/v",
            "delete volume/v",
            "put tombstone/a/replica/v/a1/a1",
            "put tombstone/a/target/v/3",
            "put tombstone/b/replica/v/b1/b1",
            "put tombstone/c/target/v/1",
        ],
        "a deletion",
    );
}

#[test]
fn its_snapshots_go_first() {
    let text = "node a; node b dead gone=1s; pool a1 b1; volume v 1G x2 deleting: a1, b1; \
                snapshot s of v: a1, b1";
    check(text, &["v waits: SnapshotDeleted s"]);
    let lab = settled(text);
    check_lines(
        &lab.log,
        &[
            "s: DeleteSnapshot (Asked)",
            "a: ClearTombstones [Snapshot s, v/a1, a1] (Observed)",
            "v: DeleteVolume (Asked)",
            "a: ClearTombstones [Replica v/a1, a1] (Observed)",
        ],
        "a deletion",
    );
    check_lines(&lab.waits(), &["b waits: TombstoneDone b Replica v/b1 b1"], "a deletion");
}

/// LC-5, M-07: a node that returns after the deletion finds its tombstones.
#[test]
fn a_node_that_returns_removes_what_was_deleted_meanwhile() {
    let mut lab = settled("node a; node b dead; pool a1 b1; volume v 1G x2 deleting: a1, b1");
    lab.heal();
    lab.settle().unwrap();
    check_lines(
        &lab.log,
        &[
            "b: MarkNodeGone (Lost(NodeDead))",
            "v: DeleteVolume (Asked)",
            "a: ClearTombstones [Replica v/a1, a1] (Observed)",
            "b: MarkNodeReturned (Observed)",
            "b: ClearTombstones [Replica v/b1, b1] (Observed)",
        ],
        "a return",
    );
    check_lines(&lab.waits(), &[], "a return");
}
