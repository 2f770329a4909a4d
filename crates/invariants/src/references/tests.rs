//! What records refer to.

use model::{HostStage, Key, Record, SnapshotId, Write};

use crate::scene::{Scene, VOLUME, by, copy, found, host, node, pool, replica};

const NAME: &str = "references";

/// A volume has a membership, and a membership a volume.
#[test]
fn volume_and_membership_live_and_die_together() {
    let scene = Scene::founded();
    scene.breaks(NAME, &[Write::delete(Key::Membership(VOLUME))]);
    scene.breaks(NAME, &[Write::delete(Key::Volume(VOLUME))]);
}

/// OP-2: a node or pool keeps its record until no layout names it.
#[test]
fn what_a_layout_names_is_there() {
    let mut scene = Scene::founded();
    scene.breaks(NAME, &[Write::delete(Key::Node(node(1)))]);
    scene.breaks(NAME, &[Write::delete(Key::Pool(pool(1)))]);
    scene.breaks(NAME, &scene.edit(|volume, _| volume.layout.replicas.push(copy(7))));
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.layout.hosts.insert(host(7), HostStage::Admitted);
        }),
    );
    scene.forget_pool(4);
    let free = Write::delete(Key::name("pool", "p4"));
    scene.legal(&[Write::delete(Key::Pool(pool(4))), free]);
    scene.legal(&scene.edit_node(4, |node| {
        node.spec.forgotten = true;
        node.meta.spec_revision += 1;
    }));
    scene.legal(&[Write::delete(Key::Node(node(4)))]);
}

/// ST-5: nothing outside the layout counts as a healthy copy; what is unhealthy may linger.
#[test]
fn a_member_outside_the_layout_is_not_healthy() {
    let scene = Scene::serving();
    let admit = |healthy| {
        scene.edit(|_, membership| {
            membership.children.insert(replica(9), healthy);
            membership.roster = membership.roster.next();
        })
    };
    scene.breaks_by(by(1), NAME, &admit(true));
    scene.clone().legal_by(by(1), &admit(false));
}

#[test]
fn a_snapshot_does_not_outlive_its_volume_nor_a_clone_precede_its_origin() {
    let scene = Scene::founded().with_snapshot();
    scene.breaks(NAME, &scene.delete());
    let scene = Scene::empty();
    scene.breaks(
        NAME,
        &found(|volume| {
            volume.spec.origin = Some(SnapshotId::from_u128(0x999));
        }),
    );
}

#[test]
fn a_record_lies_under_its_own_key() {
    let scene = Scene::founded();
    let other = Record::Volume(scene.records.volumes[&VOLUME].clone());
    let key = Key::Volume(model::VolumeId::from_u128(0x101));
    scene.breaks(NAME, &[Write::put(key, other.clone())]);
    scene.breaks(NAME, &[Write::put(Key::Leader, other)]);
}
