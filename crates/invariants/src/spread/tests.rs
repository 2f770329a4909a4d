//! Where a copy may be placed.

use model::{ReplicaStage, Time, Write};

use crate::scene::{Scene, copy, found};

const NAME: &str = "spread";

/// Nodes 1 and 2 are in zones a and b, nodes 3 and 4 too.
fn zones() -> Scene {
    let mut scene = Scene::empty();
    for (number, zone) in [(1, "a"), (2, "b"), (3, "a"), (4, "b")] {
        scene.legal(&scene.edit_node(number, |node| {
            node.meta.labels.insert("zone".into(), zone.into());
        }));
    }
    scene.legal(&found(|volume| {
        volume.spec.topology.spread.insert("zone".into());
    }));
    scene
}

fn place(scene: &Scene, number: u128) -> alloc::vec::Vec<Write> {
    scene.edit(|volume, _| {
        volume.layout.replicas.push(copy(number));
        volume.layout.placed += 1;
    })
}

/// A new copy keeps the spread over zones, beside the copies that stay.
#[test]
fn a_copy_shares_no_zone_with_one_that_stays() {
    let mut scene = zones();
    scene.breaks(NAME, &place(&scene, 3));
    scene.legal(&scene.edit(|volume, _| {
        volume.layout.replicas[0].gone_since = Some(Time(1));
        volume.layout.replicas[1].stage = ReplicaStage::Retiring;
    }));
    scene.clone().legal(&place(&scene, 3));
    scene.legal(&place(&scene, 4));
}

#[test]
fn the_first_copies_are_spread_too() {
    let mut scene = zones();
    scene.ask_to_delete();
    scene.legal(&scene.delete());
    scene.breaks(
        NAME,
        &found(|volume| {
            volume.spec.topology.spread.insert("zone".into());
            volume.layout.replicas = alloc::vec![copy(1), copy(3)];
        }),
    );
}

/// A copy goes only where the labels are that the volume asks for; a pool's own comes first.
#[test]
fn a_copy_is_placed_within_the_affinity() {
    let mut scene = Scene::empty();
    for number in [1, 2] {
        scene.legal(&scene.edit_pool(number, |pool| {
            pool.meta.labels.insert("disk".into(), "fast".into());
        }));
    }
    scene.legal(&found(|volume| {
        volume.spec.topology.affinity.insert("disk".into(), "fast".into());
    }));
    scene.breaks(NAME, &place(&scene, 3));
}

#[test]
fn a_copy_is_placed_on_the_node_of_its_pool() {
    let scene = Scene::founded();
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.layout.replicas.push(model::Replica { node: crate::scene::node(4), ..copy(3) });
            volume.layout.placed += 1;
        }),
    );
}
