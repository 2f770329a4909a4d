//! How epochs are issued, used and left.

use model::{Bytes, Epoch, TargetHealth, TargetSeen, TargetStage};

use crate::{
    check_seen,
    scene::{Machines, Scene, VOLUME, engine, must_name, node},
};

const NAME: &str = "one_epoch";

/// HA-3: a successor on another node takes a new epoch, in layout and membership at once.
#[test]
fn a_successor_takes_a_new_epoch() {
    let mut scene = Scene::serving();
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.layout.target.as_mut().unwrap().node = node(2);
        }),
    );
    scene.breaks(NAME, &scene.issue(2, 1));
    scene.breaks(NAME, &scene.issue(2, 2)[..1]);
    scene.legal(&scene.issue(2, 2));
}

/// Another process of the same node is another target.
#[test]
fn another_process_of_the_same_node_takes_a_new_epoch() {
    let scene = Scene::serving();
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.layout.target.as_mut().unwrap().instance = engine(3);
        }),
    );
}

#[test]
fn an_epoch_never_goes_down() {
    let mut scene = Scene::serving();
    scene.legal(&scene.issue(2, 2));
    scene.breaks(
        NAME,
        &scene.edit(|volume, membership| {
            volume.layout.target = None;
            volume.layout.epoch = Epoch(1);
            membership.epoch = Epoch(1);
        }),
    );
}

#[test]
fn a_target_has_no_epoch_that_was_not_issued() {
    let scene = Scene::serving();
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.layout.target.as_mut().unwrap().epoch = Epoch(2);
        }),
    );
}

/// A target is fenced in, started, seen serving and stopped, in this order.
#[test]
fn a_target_moves_only_forward() {
    let scene = Scene::serving();
    scene.breaks(NAME, &scene.stage(TargetStage::Starting));
    let mut scene = Scene::serving();
    scene.legal(&scene.issue(2, 2));
    scene.breaks(NAME, &scene.stage(TargetStage::Serving));
    scene.legal(&scene.stage(TargetStage::Starting));
}

/// HA-9: a target is let go when it gave the record up, or by an epoch above its own.
#[test]
fn a_target_that_owns_the_record_is_not_just_let_go() {
    let scene = Scene::serving();
    scene.breaks(NAME, &scene.edit(|volume, _| volume.layout.target = None));
    scene.clone().stopped();
    scene.clone().legal(&scene.edit(|volume, membership| {
        let target = volume.layout.target.take().unwrap();
        volume.layout.old_targets.push(target.reference());
        volume.layout.epoch = Epoch(2);
        membership.epoch = Epoch(2);
        membership.owner = None;
    }));
}

#[test]
fn no_epoch_runs_on_two_nodes() {
    let scene = Scene::serving();
    let mut machines = Machines::of(&scene.records);
    for (number, epoch) in [(1, 1), (2, 2), (3, 1)] {
        let target = TargetSeen::new(Epoch(epoch), TargetHealth::Serving, Bytes::gib(1));
        assert_eq!(check_seen(&scene.records, &machines.seen()), []);
        machines.inventories.get_mut(&node(number)).unwrap().targets.insert(VOLUME, target);
    }
    must_name(NAME, &check_seen(&scene.records, &machines.seen()));
}
