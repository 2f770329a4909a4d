//! The rules of a node: gone and back, forgotten, tombstones, orphans.

use fixtures::Scene;
use model::{Key, Millis, Record, Revision, Subject};
use plan::World;

use crate::{check_lines, check_plans, settled};

#[track_caller]
fn check(text: &str, expect: &[&str]) {
    check_plans(text, |subject| matches!(subject, Subject::Node(_)), expect);
}

#[test]
fn a_dead_node_is_noted_and_so_is_its_return() {
    check("node a dead", &["a: MarkNodeGone (Lost(NodeDead))"]);
    check("node a dead gone=900s", &[]);
    check("node a gone=900s", &["a: MarkNodeReturned (Observed)"]);
    check("node a unknown gone=900s", &["a waits: NodeHeard a"]);
}

/// OP-2: a node's record goes when nothing refers to it any more.
#[test]
fn a_forgotten_node_goes_when_it_is_empty() {
    check(
        "node a forgotten dead gone=1s; node b; pool a1 b1; volume v 1G x1: b1",
        &["a waits: NodeEmptied a"],
    );
    check(
        "node a forgotten dead gone=1s; node b; pool b1; volume v 1G x1 on=a: b1",
        &["a waits: NodeEmptied a"],
    );
    check("node a forgotten dead gone=1s; tombstone a: target v@1", &["a: ForgetNode (Asked)"]);
}

/// OP-2: everything that waited for it goes on.
#[test]
fn a_forgotten_node_leaves_nothing_behind() {
    let lab = settled(
        "node a forgotten dead gone=1s; node b c; pool a1 b1 c1; host h; \
         volume v 1G x2 publish=h on=a: a1, b1; tombstone a: replica w/a1",
    );
    check_lines(&lab.waits(), &[], "a forgotten node");
    assert!(!lab.world.nodes.contains_key(&lab.names.node("a")));
    assert!(!lab.world.pools.contains_key(&lab.names.pool("a1")));
    assert!(lab.records.tombstones.is_empty());
}

/// LC-5: tombstones go when they are observed done, under a parent that is present.
#[test]
fn a_tombstone_goes_when_its_work_is_seen_done() {
    check(
        "node a; pool a1; tombstone a: replica v/a1, target v@1",
        &["a: ClearTombstones [Target v, 1, Replica v/a1, a1] (Observed)"],
    );
    check(
        "node a; pool a1; tombstone a: replica v/a1 there",
        &["a waits: TombstoneDone a Replica v/a1 a1"],
    );
    check(
        "node a; pool a1 importing; tombstone a: replica v/a1",
        &["a waits: TombstoneDone a Replica v/a1 a1"],
    );
    check(
        "node a behind; pool a1; tombstone a: replica v/a1",
        &["a waits: TombstoneDone a Replica v/a1 a1"],
    );
    check(
        "node a dead gone=1s; pool a1; tombstone a: replica v/a1",
        &["a waits: TombstoneDone a Replica v/a1 a1"],
    );
    check(
        "node a; pool a1; tombstone a: target v@1 there",
        &["a waits: TombstoneDone a Target v 1"],
    );
    check(
        "node a; volume v 1G x1 on=a epoch=2:; tombstone a: target v@1",
        &["a: ClearTombstones [Target v, 1] (Observed)"],
    );
    check(
        "node a; pool a1; volume v 1G x1: a1; tombstone a: snapshot s/v/a1 there",
        &["a waits: TombstoneDone a Snapshot s v/a1 a1"],
    );
    check(
        "node a; pool a1; volume v 1G x1: a1; tombstone a: snapshot s/v/a1",
        &["a: ClearTombstones [Snapshot s, v/a1, a1] (Observed)"],
    );
    check("node a; tombstone a: pool a9", &["a: ClearTombstones [Pool a9] (Observed)"]);
    check(
        "node a; tombstone a: replica v/gone",
        &["a: ClearTombstones [Replica v/gone, gone] (Observed)"],
    );
}

/// RC-6: a controller that heard of a snapshot's copy before it heard of its record does not take
/// the copy for an orphan later.
#[test]
fn a_snapshot_whose_record_is_heard_after_its_copy_is_no_orphan() {
    let Scene { mut world, names, engines, .. } =
        Scene::new("node a; pool a1; volume v 1G x1: a1; snapshot s of v: a1");
    let (node, key) = (names.node("a"), Key::Snapshot(names.snapshot("s")));
    let record = Record::Snapshot(Box::new(world.snapshots[&names.snapshot("s")].clone()));
    let hear = |world: &mut World, sequence: u64, has_snapshot: bool| {
        let mut inventory = engines[&node].clone();
        inventory.sequence += sequence;
        if !has_snapshot {
            inventory.replicas.values_mut().for_each(|replica| replica.snapshots.clear());
        }
        world.observe(inventory);
    };
    world.remove(&key);
    hear(&mut world, 1, false);
    hear(&mut world, 2, true);
    assert_eq!(world.node(node).unwrap().orphans.len(), 1, "the record is not known yet");
    world.put(&key, record, Revision(1));
    world.now = world.now + model::limits::ORPHAN_GRACE + Millis(1);
    hear(&mut world, 3, true);
    let plan = plan::plan(&world, Subject::Node(node));
    assert_eq!((plan.step, plan.waits), (None, Vec::new()));
}

/// RC-6: an orphan is left alone for a time and until a second look.
#[test]
fn an_orphan_is_collected_after_its_grace_and_a_second_look() {
    check("node a; pool a1; orphan a: v/a1 since=900s", &["a waits: OrphanGrace 1020s"]);
    check("node a; pool a1; orphan a: v/a1 since=800s once", &["a waits: OrphanGrace 920s"]);
    check(
        "node a; pool a1; orphan a: v/a1 since=800s",
        &["a: CollectOrphan Replica v/a1 a1 (AbsenceProven)"],
    );
}

/// RC-6: a node that may be gone for ever gives no second look, and nobody waits for one.
#[test]
fn an_orphan_of_a_dead_node_is_not_waited_for() {
    for looks in ["since=900s", "since=800s once", "since=800s"] {
        check(&format!("node a dead gone=900s; pool a1; orphan a: v/a1 {looks}"), &[]);
        check(
            &format!("node a unknown; pool a1; orphan a: v/a1 {looks}"),
            &["a waits: NodeHeard a"],
        );
    }
}

/// RC-6, M-23: only where absence proves deletion.
#[test]
fn an_orphan_that_the_store_may_have_lost_is_kept() {
    check(
        "node a; pool a1; orphan a: v/a1 born=none",
        &["a waits: OrphanUnproven v/a1 \"it has no mark of any store\""],
    );
    check(
        "node a; pool a1; orphan a: v/a1 born=former",
        &["a waits: OrphanUnproven v/a1 \"it comes from before a recovery\""],
    );
    check(
        "node a; pool a1; orphan a: v/a1 born=forgotten",
        &["a waits: OrphanUnproven v/a1 \"it was away for longer than the store remembers\""],
    );
    check(
        "node a; pool a1; orphan a: v/a1 born=foreign",
        &["a waits: OrphanUnproven v/a1 \"it belongs to another store than this one\""],
    );
    check(
        "node a; pool a1 mark=none; orphan a: v/a1",
        &["a waits: OrphanUnproven v/a1 \"it has no mark of any store\""],
    );
    check(
        "node a; pool a1 mark=former; orphan a: v/a1",
        &["a waits: OrphanUnproven v/a1 \"it comes from before a recovery\""],
    );
    check(
        "node a; pool a1; orphan a: v/a1; quarantined volume v",
        &["a waits: OrphanUnproven v/a1 \"volume/v is quarantined and may name it\""],
    );
}

/// RC-6: a target that the layout has gone past is only in the way.
#[test]
fn an_orphaned_target_is_collected_when_its_epoch_is_over() {
    check(
        "node a b; pool b1; volume v 1G x1 epoch=3: b1; orphan a: v@2",
        &["a: CollectOrphan Target v 2 (AbsenceProven)"],
    );
    check("node a b; pool b1; volume v 1G x1 epoch=3: b1; orphan a: v@3", &[]);
    check("node a; orphan a: v@2", &["a: CollectOrphan Target v 2 (AbsenceProven)"]);
    check("node a; orphan a: v@2; quarantined volume v", &[]);
}

#[test]
fn an_orphan_that_its_node_cannot_be_told_of_is_kept() {
    check(
        "node a; pool a1; orphan a: v/a9",
        &["a waits: OrphanUnproven v/a9 \"its pool is in no record\""],
    );
    check(
        "node a; pool a1 forgotten; orphan a: v/a1",
        &["a waits: OrphanUnproven v/a1 \"its pool is in no record\""],
    );
    check("node a forgotten; pool a1; orphan a: v/a1", &["a waits: NodeEmptied a"]);
}

/// RC-6: the whole way of an orphan.
#[test]
fn an_orphan_is_buried_removed_and_forgotten() {
    let lab = settled("node a; pool a1; orphan a: v/a1 since=1000s once");
    check_lines(
        &lab.log,
        &[
            "a: CollectOrphan Replica v/a1 a1 (AbsenceProven)",
            "a: ClearTombstones [Replica v/a1, a1] (Observed)",
        ],
        "an orphan",
    );
    check_lines(&lab.waits(), &[], "an orphan");
}
