//! Copies of snapshots.

use alloc::collections::BTreeSet;

use model::{Bytes, SnapshotSeen};

use crate::{
    check_commit_seen,
    scene::{Machines, SNAPSHOT, Scene, attempt, bury_copy, must_name, node, replica},
};

const NAME: &str = "snapshots";

/// RC-4: a dropped copy does not take the last copy of a snapshot along.
#[test]
fn the_last_copy_of_a_snapshot_stays() {
    let mut scene = Scene::surplus().stopped().with_snapshot();
    let drop = |scene: &Scene, number| {
        let mut writes = scene.edit(|volume, membership| {
            volume.layout.replicas.retain(|other| other.id != replica(number));
            membership.children.remove(&replica(number));
            membership.roster = membership.roster.next();
        });
        writes.push(bury_copy(number));
        writes
    };
    scene.breaks(NAME, &drop(&scene, 1));
    scene.legal(&drop(&scene, 2));
}

#[test]
fn a_snapshot_becomes_ready_with_a_copy() {
    let scene = Scene::founded().with_snapshot();
    scene.breaks(NAME, &scene.edit_snapshot(|snapshot| snapshot.layout.copies.clear()));
}

#[test]
fn a_copy_of_a_snapshot_holds_it() {
    let mut scene = Scene::founded().with_snapshot();
    let writes = scene.edit_snapshot(|snapshot| {
        snapshot.layout.copies = BTreeSet::from([replica(1), replica(2)]);
    });
    let commit = scene.apply(scene.leader, &writes);
    let mut machines = Machines::of(&scene.records);
    must_name(NAME, &check_commit_seen(&scene.records, &commit, &machines.seen()));
    let inventory = machines.inventories.get_mut(&node(2)).unwrap();
    let held = SnapshotSeen { name: "s".into(), attempt: attempt(9), size: Bytes::gib(1) };
    inventory.replicas.get_mut(&replica(2)).unwrap().snapshots.insert(SNAPSHOT, held);
    assert_eq!(check_commit_seen(&scene.records, &commit, &machines.seen()), []);
}
