//! What a target says of itself.

use model::{Bytes, Epoch, InstanceId, TargetHealth, TargetSeen, TargetStage};

use crate::{
    check_commit_seen,
    scene::{Machines, Scene, VOLUME, must_name, node},
};

const NAME: &str = "serving_first";

/// HA-4: the new path comes after the new target.
#[test]
fn a_target_serves_before_it_is_called_serving() {
    let mut scene = Scene::serving();
    scene.legal(&scene.issue(2, 2));
    scene.legal(&scene.stage(TargetStage::Starting));
    let mut machines = Machines::of(&scene.records);
    let commit = scene.apply(scene.leader, &scene.stage(TargetStage::Serving));
    must_name(NAME, &check_commit_seen(&scene.records, &commit, &machines.seen()));
    let mut report = |health: TargetHealth| {
        let seen = TargetSeen::new(Epoch(2), health, Bytes::gib(1));
        let inventory = machines.inventories.get_mut(&node(2)).unwrap();
        inventory.targets.insert(VOLUME, seen);
        check_commit_seen(&scene.records, &commit, &machines.seen())
    };
    must_name(NAME, &report(TargetHealth::Starting));
    assert_eq!(report(TargetHealth::Serving), []);
    assert_eq!(report(TargetHealth::Fenced), []);
    report(TargetHealth::Starting);
    machines.inventories.get_mut(&node(2)).unwrap().instance = InstanceId::from_u128(7);
    assert_eq!(check_commit_seen(&scene.records, &commit, &machines.seen()), []);
}
