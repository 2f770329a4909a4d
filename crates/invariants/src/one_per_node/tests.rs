//! Copies that fail together count as one.

use model::{Replica, ReplicaStage};

use crate::scene::{Scene, copy, node, pool, replica};

const NAME: &str = "one_per_node";

/// Two copies of a volume are never on one node, unless one of them is leaving.
#[test]
fn a_node_keeps_one_copy() {
    let mut scene = Scene::surplus();
    let second = Replica::placed(replica(5), pool(3), node(3));
    let place = |scene: &Scene| {
        scene.edit(|volume, _| {
            volume.layout.replicas.push(second.clone());
            volume.layout.placed += 1;
        })
    };
    scene.breaks(NAME, &place(&scene));
    scene.legal(&scene.edit(|volume, _| volume.layout.replicas[2].stage = ReplicaStage::Retiring));
    scene.legal(&place(&scene));
}

/// OP-2: a copy on hardware that was written off stands in nobody's way.
#[test]
fn a_forgotten_copy_does_not_count() {
    let mut scene = Scene::serving();
    scene.forget_pool(2);
    scene.legal(&scene.edit(|volume, _| {
        volume.layout.replicas.push(Replica { pool: pool(2), node: node(2), ..copy(6) });
        volume.layout.placed += 1;
    }));
}
