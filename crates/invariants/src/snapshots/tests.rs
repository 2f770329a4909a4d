//! Copies of snapshots.

use crate::scene::{Scene, bury_copy, replica};

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
