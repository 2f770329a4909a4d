//! Ids are used once.

use model::{Key, Meta, Record, Time};

use crate::scene::{Scene, VOLUME, bury_copy, copy, found, name, put, replica};

const NAME: &str = "ids";

/// LC-5: the id of a copy that was dropped is never placed again.
#[test]
fn a_retired_id_does_not_return() {
    let mut scene = Scene::founded();
    let mut swap = scene.edit(|volume, membership| {
        volume.layout.replicas[1] = copy(3);
        volume.layout.placed += 1;
        membership.children.remove(&replica(2));
        membership.children.insert(replica(3), true);
    });
    swap.push(bury_copy(2));
    scene.legal(&swap);
    scene.legal(&[model::Write::delete(Key::Tombstone(
        crate::scene::node(2),
        model::Buried::Replica { replica: replica(2), pool: crate::scene::pool(2) },
    ))]);
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.layout.replicas.push(copy(2));
            volume.layout.placed += 1;
        }),
    );
}

/// LC-5: a volume made again under the old name and id brings new copies.
#[test]
fn a_volume_made_again_has_new_copies() {
    let mut scene = Scene::founded();
    scene.ask_to_delete();
    scene.legal(&scene.delete());
    scene.breaks(NAME, &found(|_| {}));
    scene.legal(&found(|volume| volume.layout.replicas = alloc::vec![copy(3), copy(4)]));
}

#[test]
fn two_volumes_never_share_a_copy() {
    let scene = Scene::founded();
    let mut volume = scene.records.volumes[&VOLUME].clone();
    let other = model::VolumeId::from_u128(0x101);
    volume.meta = Meta::new(other, "w", Time(0));
    let members = volume.layout.replicas.iter().map(|replica| replica.id);
    let membership = model::Membership::founded(other, members);
    scene.breaks(
        NAME,
        &[
            put(Record::Volume(volume)),
            put(Record::Membership(membership.into())),
            name("volume", "w", &other),
        ],
    );
}

#[test]
fn a_copy_does_not_change_its_pool_nor_stand_twice_in_a_layout() {
    let scene = Scene::founded();
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.layout.replicas[1].pool = crate::scene::pool(3);
        }),
    );
    scene.breaks(NAME, &scene.edit(|volume, _| volume.layout.replicas.push(copy(1))));
    scene.breaks(NAME, &scene.edit(|volume, _| volume.layout.placed = 1));
}
