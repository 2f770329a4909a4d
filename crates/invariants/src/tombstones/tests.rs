//! Burials: of everything that goes, and of nothing that stays.

use model::{Buried, Epoch, Key, Write};

use crate::{
    check_commit_seen,
    scene::{
        Machines, SNAPSHOT, Scene, VOLUME, bury, bury_copy, copy, must_name, node, pool, replica,
    },
};

const NAME: &str = "tombstones";

/// LC-5: one commit removes a volume and buries each of its copies and its target.
#[test]
fn a_deleted_volume_is_buried_whole() {
    let mut scene = Scene::serving();
    scene.ask_to_delete();
    scene.clone().legal(&scene.delete());
    let graves = scene.delete().len() - 3;
    assert_eq!(graves, 3, "two copies and a target");
    for index in 3..3 + graves {
        let mut writes = scene.delete();
        writes.remove(index);
        scene.breaks(NAME, &writes);
    }
}

/// What lies on hardware that was written off needs no grave.
#[test]
fn nothing_is_buried_on_forgotten_hardware() {
    let mut scene = Scene::founded();
    scene.forget_pool(2);
    scene.ask_to_delete();
    let mut writes = scene.delete();
    writes.retain(
        |write| !matches!(write, Write::Put { key: Key::Tombstone(at, _), .. } if *at == node(2)),
    );
    scene.legal(&writes);
}

/// HA-5: an old target stays on the list until its node is told.
#[test]
fn an_old_target_is_listed_or_buried() {
    let mut scene = Scene::serving();
    scene.breaks(
        NAME,
        &scene.edit(|volume, membership| {
            crate::scene::issue(volume, membership, 2, 2);
            volume.layout.old_targets.clear();
        }),
    );
    scene.legal(&scene.issue(2, 2));
    let mut writes = scene.edit(|volume, _| volume.layout.old_targets.clear());
    scene.breaks(NAME, &writes);
    writes.push(bury(1, Buried::Target { volume: VOLUME, epoch: Epoch(1) }));
    scene.legal(&writes);
}

#[test]
fn nothing_wanted_is_buried() {
    let mut scene = Scene::serving().with_snapshot();
    let target = Buried::Target { volume: VOLUME, epoch: Epoch(1) };
    let snapshot = Buried::Snapshot { snapshot: SNAPSHOT, replica: replica(1), pool: pool(1) };
    let wanted =
        [bury_copy(1), bury(1, target), bury(1, snapshot), bury(1, Buried::Pool { pool: pool(1) })];
    for write in wanted {
        scene.breaks(NAME, &[write]);
    }
    scene.legal(&[bury_copy(3)]);
    scene.breaks(NAME, &scene.edit(|volume, _| volume.layout.replicas.push(copy(3))));
}

/// LC-5, OP-2: the graves of a node go with it.
#[test]
fn a_tombstone_has_a_node() {
    let mut scene = Scene::empty();
    scene.breaks(NAME, &[bury_copy(7)]);
    scene.legal(&[bury_copy(4)]);
    scene.breaks(NAME, &[Write::delete(Key::Node(node(4)))]);
}

/// A pool that is removed is destroyed by its node, unless it was forgotten.
#[test]
fn a_removed_pool_is_buried() {
    let mut scene = Scene::empty();
    let mut writes =
        alloc::vec![Write::delete(Key::Pool(pool(4))), Write::delete(Key::name("pool", "p4"))];
    scene.breaks(NAME, &writes);
    writes.push(bury(4, Buried::Pool { pool: pool(4) }));
    scene.legal(&scene.edit_pool(4, |pool| {
        pool.spec.deleting = true;
        pool.meta.spec_revision += 1;
    }));
    scene.legal(&writes);
}

#[test]
fn a_removed_snapshot_is_buried_on_each_of_its_copies() {
    let mut scene = Scene::founded().with_snapshot();
    let mut writes = alloc::vec![
        Write::delete(Key::Snapshot(SNAPSHOT)),
        Write::delete(Key::name("snapshot", "s"))
    ];
    scene.breaks(NAME, &writes);
    let buried = Buried::Snapshot { snapshot: SNAPSHOT, replica: replica(1), pool: pool(1) };
    writes.push(bury(1, buried));
    scene.legal(&scene.edit_snapshot(|snapshot| {
        snapshot.spec.deleting = true;
        snapshot.meta.spec_revision += 1;
    }));
    scene.legal(&writes);
}

/// A tombstone goes when what it names is gone from the disk, not before.
#[test]
fn a_tombstone_stays_until_it_is_done() {
    let mut scene = Scene::founded();
    let mut machines = Machines::of(&scene.records);
    scene.ask_to_delete();
    scene.legal(&scene.delete());
    let buried = Buried::Replica { replica: replica(1), pool: pool(1) };
    let commit = scene.apply(scene.leader, &[Write::delete(Key::Tombstone(node(1), buried))]);
    must_name(NAME, &check_commit_seen(&scene.records, &commit, &machines.seen()));
    machines.inventories.get_mut(&node(1)).unwrap().replicas.clear();
    assert_eq!(check_commit_seen(&scene.records, &commit, &machines.seen()), []);
}
