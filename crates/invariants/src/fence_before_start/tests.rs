//! The fence, as it really is on the replicas.

use model::{Epoch, TargetStage};

use crate::{
    check_commit_seen,
    scene::{Machines, Scene, must_name, node, replica},
};

const NAME: &str = "fence_before_start";

/// HA-3: a target may start once every healthy copy admitted its epoch, or cannot be reached.
#[test]
fn a_target_waits_for_the_fence_of_every_reachable_copy() {
    let mut scene = Scene::serving();
    scene.legal(&scene.issue(2, 2));
    let mut machines = Machines::of(&scene.records);
    let commit = scene.apply(scene.leader, &scene.stage(TargetStage::Starting));
    assert_eq!(check_commit_seen(&scene.records, &commit, &machines.seen()), []);
    let found = machines.inventories.get_mut(&node(1)).unwrap();
    found.replicas.get_mut(&replica(1)).unwrap().epoch = Epoch(1);
    must_name(NAME, &check_commit_seen(&scene.records, &commit, &machines.seen()));
    machines.steady.remove(&node(1));
    assert_eq!(check_commit_seen(&scene.records, &commit, &machines.seen()), []);
}

/// OP-2: what a user has written off is not waited for.
#[test]
fn a_copy_in_a_pool_that_was_given_up_is_not_waited_for() {
    let mut scene = Scene::serving();
    scene.legal(&scene.issue(2, 2));
    scene.forget_pool(1);
    let mut machines = Machines::of(&scene.records);
    let commit = scene.apply(scene.leader, &scene.stage(TargetStage::Starting));
    let found = machines.inventories.get_mut(&node(1)).unwrap();
    found.replicas.get_mut(&replica(1)).unwrap().epoch = Epoch(1);
    assert_eq!(check_commit_seen(&scene.records, &commit, &machines.seen()), []);
}
