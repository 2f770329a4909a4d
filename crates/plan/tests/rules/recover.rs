//! Rebuilding the records from what the pools carry.

use std::collections::BTreeSet;

use fixtures::{Lab, Scene};
use invariants::{Author, Records, check_all};
use model::{Key, Record, Revision, Write};
use plan::{Brought, Recovery, recover};

use crate::check_lines;

const OLD: &str = "node a b c; pool a1 b1 c1; host h; \
                   volume v 1G x2 publish=h on=a epoch=3: a1, b1; snapshot s of v: a1, b1";

/// What a recovery would write, key by key, and what it leaves out.
fn lines(scene: &Scene, recovery: &Recovery) -> Vec<String> {
    let writes = recovery.txns.iter().flat_map(|txn| &txn.writes);
    let written = writes.map(|write| match write {
        Write::Put { key, .. } => format!("put {key}"),
        Write::Delete { key } => format!("delete {key}"),
    });
    let left_out = recovery.left_out.iter().map(|words| format!("left out: {words}"));
    written.chain(left_out).map(|line| scene.names.readable(&line)).collect()
}

#[track_caller]
fn check(text: &str, returned: &[&str], accepted: &[&str], expect: &[&str]) -> (Scene, Recovery) {
    let scene = Scene::new(text).with_store_lost(returned);
    assert!(scene.world.read_only().is_some());
    let accepted: BTreeSet<_> = accepted.iter().map(|name| scene.names.volume(name)).collect();
    let recovery = recover(&scene.world, scene.names.era("newest"), &accepted).unwrap();
    check_lines(&lines(&scene, &recovery), expect, text);
    (scene, recovery)
}

/// OP-5, M-18: everything is rebuilt from what the pools carry.
#[test]
fn with_every_healthy_member_here_everything_comes_back() {
    check(
        OLD,
        &["a", "b", "c"],
        &[],
        &[
            "put pool/a1",
            "put name/pool/a1",
            "put pool/b1",
            "put name/pool/b1",
            "put pool/c1",
            "put name/pool/c1",
            "put volume/v",
            "put membership/v",
            "put name/volume/v",
            "put snapshot/s",
            "put name/snapshot/s",
            "put cluster",
        ],
    );
}

/// OP-5, M-27: a volume whose newest copy is away waits, or is named by a person.
#[test]
fn a_volume_whose_healthy_member_is_missing_waits_for_it() {
    check(
        OLD,
        &["a", "c"],
        &[],
        &[
            "put pool/a1",
            "put name/pool/a1",
            "put pool/c1",
            "put name/pool/c1",
            "put cluster",
            "left out: volume v: pool b1 held newer data and is not here; bring it back, or \
             recover with data loss accepted for it",
        ],
    );
    check(
        OLD,
        &["a", "c"],
        &["v"],
        &[
            "put pool/a1",
            "put name/pool/a1",
            "put pool/c1",
            "put name/pool/c1",
            "put volume/v",
            "put membership/v",
            "put name/volume/v",
            "put snapshot/s",
            "put name/snapshot/s",
            "put cluster",
        ],
    );
}

/// M-27: one copy went on alone and is offline: the stale ones do not know better.
#[test]
fn stale_copies_are_not_promoted_by_a_recovery() {
    let text = "node a b c; pool a1 b1 c1; volume v 1G x3 epoch=2 roster=3: \
                a1, b1 faulted roster=2, c1 faulted roster=2";
    check(
        text,
        &["b", "c"],
        &[],
        &[
            "put pool/b1",
            "put name/pool/b1",
            "put pool/c1",
            "put name/pool/c1",
            "put cluster",
            "left out: volume v: pool a1 held newer data and is not here; bring it back, or \
             recover with data loss accepted for it",
        ],
    );
    let (scene, recovery) = check(
        text,
        &["b", "c"],
        &["v"],
        &[
            "put pool/b1",
            "put name/pool/b1",
            "put pool/c1",
            "put name/pool/c1",
            "put volume/v",
            "put membership/v",
            "put name/volume/v",
            "put cluster",
        ],
    );
    let membership =
        recovery.txns.iter().flat_map(|txn| &txn.writes).find_map(|write| match write {
            Write::Put { value: Record::Membership(membership), .. } => Some(membership.clone()),
            _ => None,
        });
    let healthy: Vec<_> = membership.unwrap().healthy().collect();
    // Both remember the same roster: they are resynced with each other before they are trusted.
    assert_eq!(healthy, [scene.names.replica("v/b1"), scene.names.replica("v/c1")]);
}

#[test]
fn a_volume_that_was_being_deleted_stays_deleted() {
    check(
        "node a; pool a1; volume v 1G x1 deleting: a1",
        &["a"],
        &[],
        &[
            "put pool/a1",
            "put name/pool/a1",
            "put cluster",
            "left out: volume v: it was being deleted",
        ],
    );
}

/// OP-4: a store that agrees with its pools has nothing to recover.
#[test]
fn nothing_is_recovered_without_a_dispute() {
    let scene = Scene::new(OLD);
    assert!(recover(&scene.world, scene.names.era("newest"), &BTreeSet::new()).is_err());
}

/// A store that lost its newest history, in which there was a snapshot and nothing else.
const LOST_A_SNAPSHOT: &str = "node a b; pool a1 b1 mark=lost; \
                               volume v 1G x2 epoch=3: a1, b1; snapshot s of v: a1, b1";

#[track_caller]
fn check_without_snapshots(text: &str, expect: &[&str]) {
    let mut scene = Scene::new(text);
    scene.world.snapshots.clear();
    assert!(scene.world.read_only().is_some());
    let recovery = recover(&scene.world, scene.names.era("newest"), &BTreeSet::new()).unwrap();
    check_lines(&lines(&scene, &recovery), expect, text);
}

/// M-01, OP-5: the store knows the volume as it is, and not its snapshot, which was taken later.
#[test]
fn a_snapshot_that_the_store_lost_alone_is_brought_back() {
    check_without_snapshots(LOST_A_SNAPSHOT, &["put snapshot/s", "put cluster"]);
}

/// OP-5, LC-5: a snapshot that was deleted, and that its engines did not remove yet, stays deleted.
#[test]
fn a_snapshot_that_is_to_be_removed_is_not_recovered() {
    let removed = "tombstone a: snapshot s/v/a1; tombstone b: snapshot s/v/b1";
    check_without_snapshots(&format!("{LOST_A_SNAPSHOT}; {removed}"), &["put cluster"]);
}

/// OP-5: a dry run tells, thing by thing, what would be written and why.
#[test]
fn a_recovery_tells_each_of_its_steps_with_a_reason() {
    let told = |returned: &[&str], accepted: &[&str]| {
        let scene = Scene::new(OLD).with_store_lost(returned);
        let accepted: BTreeSet<_> = accepted.iter().map(|name| scene.names.volume(name)).collect();
        let recovery = recover(&scene.world, scene.names.era("newest"), &accepted).unwrap();
        let line =
            |step: &Brought| format!("{}: {}, because {}", step.about, step.action, step.why);
        let lines = recovery.steps.iter().map(|step| scene.names.readable(&line(step)));
        lines.collect::<Vec<_>>()
    };
    let unknown = "its disks carry it and the store does not know it";
    let pool = |name: &str, node: &str| {
        format!("pool {name}: bring its record back, on node {node}, because {unknown}")
    };
    let era = "cluster: start a new era, in which the controller may change things, because the \
               pools know more than this store does, or another one";
    let all = [
        pool("a1", "a"),
        pool("b1", "b"),
        pool("c1", "c"),
        "volume v: write its record as its copies have it: pool a1, pool b1, because its copies \
         carry it and the store does not know it"
            .into(),
        "snapshot s: bring its record back, because its copies carry it and the store does not \
         know it"
            .into(),
        era.into(),
    ];
    assert_eq!(told(&["a", "b", "c"], &[]), all);
    assert_eq!(told(&["a", "c"], &[]), [pool("a1", "a"), pool("c1", "c"), era.into()]);
    let accepted = told(&["a", "c"], &["v"]);
    assert!(accepted[2].ends_with("the loss of newer data that is not here was accepted"));
}

/// OP-5: what came back is served again, after a resync, and keeps every promise.
#[test]
fn a_recovered_volume_is_served_again() {
    let mut scene = Scene::new(OLD).with_store_lost(&["a", "b", "c"]);
    let era = scene.names.era("newest");
    let recovery = recover(&scene.world, era, &BTreeSet::new()).unwrap();
    commit(&mut scene, &recovery);
    assert_eq!(scene.world.read_only(), None);
    assert_eq!(check_all(&scene.records), []);
    let mut lab = Lab::from(scene);
    lab.heal();
    lab.settle().unwrap_or_else(|why| panic!("{why}\n{:#?}", lab.log));
    check_lines(
        &lab.log,
        &[
            "v: IssueTarget a a 5 (NeededFor(Hosts))",
            "v: StartTarget (Observed)",
            "v: ConfirmTarget (Observed)",
        ],
        "a recovery",
    );
}

/// Commits a recovery as the store would.
fn commit(scene: &mut Scene, recovery: &Recovery) {
    let records: &mut Records = &mut scene.records;
    for txn in &recovery.txns {
        let revision: Revision = scene.world.revision.next();
        scene.world.revision = revision;
        records.apply(revision, Author::Recovery, &txn.writes);
        for write in &txn.writes {
            let Write::Put { key, value: record, .. } = write else { continue };
            let mut record = record.clone();
            record.set_revision(revision);
            let key: &Key = key;
            scene.world.put(key, record, revision);
        }
    }
}

/// OP-5, LC-5: a pool that was deleted, and that its engine could not erase yet, stays deleted.
#[test]
fn a_pool_that_is_to_be_erased_is_not_recovered() {
    let mut scene = Scene::new("node a; tombstone a: pool a1");
    let (node, pool) = (scene.names.node("a"), scene.names.pool("a1"));
    let seen = model::PoolSeen {
        health: model::PoolHealth::Refused { reason: "its disk is away".into() },
        capacity: model::Bytes::ZERO,
        used: model::Bytes::ZERO,
        reserved: model::Bytes::ZERO,
        mark: None,
        carried: None,
    };
    let mut inventory = scene.world.node(node).unwrap().inventory.clone().unwrap();
    inventory.pools.insert(pool, seen);
    inventory.sequence += 1;
    scene.world.observe(inventory);
    let era = scene.names.era("newest");
    let refused = recover(&scene.world, era, &BTreeSet::new()).unwrap_err();
    assert!(refused.to_string().contains("nothing to recover"), "{refused}");
}
