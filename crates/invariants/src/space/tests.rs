//! Promises against capacity.

use model::Bytes;

use crate::{
    check_seen,
    scene::{Machines, Scene, found, must_name, node, pool},
};

const NAME: &str = "space";

fn with(capacity: Bytes, thin: bool) -> (Scene, Machines) {
    let mut scene = Scene::empty();
    scene.legal(&found(|volume| volume.spec.thin = thin));
    let mut machines = Machines::of(&scene.records);
    let inventory = machines.inventories.get_mut(&node(1)).unwrap();
    inventory.pools.get_mut(&pool(1)).unwrap().capacity = capacity;
    (scene, machines)
}

/// LC-2: thick copies in a pool never need more than it has.
#[test]
fn thick_copies_fit_into_their_pool() {
    let (scene, machines) = with(Bytes::gib(1), false);
    assert_eq!(check_seen(&scene.records, &machines.seen()), []);
    let (scene, machines) = with(Bytes::mib(1_023), false);
    must_name(NAME, &check_seen(&scene.records, &machines.seen()));
}

/// Thin copies are promised more than there is, but not without end.
#[test]
fn thin_copies_are_promised_at_most_so_much() {
    let (scene, machines) = with(Bytes::mib(256), true);
    assert_eq!(check_seen(&scene.records, &machines.seen()), []);
    let (scene, machines) = with(Bytes::mib(255), true);
    must_name(NAME, &check_seen(&scene.records, &machines.seen()));
}
