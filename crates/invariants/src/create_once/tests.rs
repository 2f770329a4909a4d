//! What is made stays made.

use model::{Bytes, PoolStage, ReplicaStage, VolumeStage};

use crate::{
    check_commit_seen,
    scene::{Machines, Scene, must_name, replica},
};

const NAME: &str = "create_once";

/// A pool or copy that was observed once is never made again.
#[test]
fn what_was_made_is_not_made_again() {
    let scene = Scene::serving();
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.layout.replicas[0].stage = ReplicaStage::Creating;
        }),
    );
    scene.breaks(NAME, &scene.edit(|volume, _| volume.layout.stage = VolumeStage::Creating));
    scene.breaks(NAME, &scene.edit_pool(1, |pool| pool.layout.stage = PoolStage::Creating));
}

/// A retired copy may be kept after all.
#[test]
fn a_retiring_copy_may_stay() {
    let mut scene = Scene::surplus();
    for stage in [ReplicaStage::Retiring, ReplicaStage::Ready] {
        scene.legal(&scene.edit(|volume, _| volume.layout.replicas[2].stage = stage));
    }
}

#[test]
fn a_volume_grows_first_and_shows_it_then() {
    let mut scene = Scene::serving();
    scene.breaks(NAME, &scene.edit(|volume, _| volume.layout.exposed = Bytes::gib(2)));
    scene.legal(&scene.edit(|volume, _| volume.layout.size = Bytes::gib(2)));
    scene.legal(&scene.edit(|volume, _| volume.layout.exposed = Bytes::gib(2)));
    scene.breaks(NAME, &scene.edit(|volume, _| volume.layout.exposed = Bytes::gib(1)));
    scene.breaks(NAME, &scene.edit(|volume, _| volume.layout.size = Bytes::gib(1)));
}

/// Hosts are shown a size that every copy has.
#[test]
fn a_size_is_shown_once_every_copy_has_it() {
    let mut scene = Scene::serving();
    let mut machines = Machines::of(&scene.records);
    scene.legal(&scene.edit(|volume, _| volume.layout.size = Bytes::gib(2)));
    let writes = scene.edit(|volume, _| volume.layout.exposed = Bytes::gib(2));
    let commit = scene.apply(scene.leader, &writes);
    must_name(NAME, &check_commit_seen(&scene.records, &commit, &machines.seen()));
    for (number, inventory) in (1..=2).zip(machines.inventories.values_mut()) {
        inventory.replicas.get_mut(&replica(number)).unwrap().size = Bytes::gib(2);
    }
    assert_eq!(check_commit_seen(&scene.records, &commit, &machines.seen()), []);
}
