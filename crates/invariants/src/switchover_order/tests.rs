//! The way of a switchover.

use alloc::collections::BTreeSet;

use model::{
    Buried, Bytes, Epoch, Extra, Switchover, SwitchoverCause, SwitchoverStage, TargetHealth,
    TargetSeen, TargetStage, Time,
};

use crate::{
    check_commit_seen,
    scene::{Machines, Scene, VOLUME, bury, host, must_name, node, reference},
};

const NAME: &str = "switchover_order";

fn begun(stage: SwitchoverStage) -> Switchover {
    Switchover {
        stage,
        cause: SwitchoverCause::NodeDead,
        from: reference(1, 1),
        started: Time(0),
        tried: BTreeSet::new(),
        extra: Extra::new(),
    }
}

fn to(scene: &Scene, stage: SwitchoverStage) -> alloc::vec::Vec<model::Write> {
    scene.edit(|volume, _| volume.layout.switchover = Some(begun(stage)))
}

/// Node 1 died and a successor of epoch 2 was issued to node 2.
fn republished() -> Scene {
    let mut scene = Scene::serving();
    scene.legal(&to(&scene, SwitchoverStage::Init));
    scene.legal(&scene.edit(|volume, membership| {
        crate::scene::issue(volume, membership, 2, 2);
        let stage = SwitchoverStage::RepublishVolume { epoch: Epoch(2) };
        volume.layout.switchover = Some(begun(stage));
    }));
    scene
}

/// HA-2, HA-5: all the way, with the hosts moved only after the successor serves.
#[test]
fn a_switchover_goes_its_way() {
    let mut scene = republished();
    let epoch = Epoch(2);
    scene.breaks(NAME, &to(&scene, SwitchoverStage::ReplacePath { epoch }));
    scene.legal(&scene.stage(TargetStage::Starting));
    scene.claim(2);
    scene.legal(&scene.stage(TargetStage::Serving));
    scene.breaks(NAME, &to(&scene, SwitchoverStage::DeleteTarget { epoch }));
    scene.legal(&to(&scene, SwitchoverStage::ReplacePath { epoch }));
    scene.legal(&to(&scene, SwitchoverStage::DeleteTarget { epoch }));
    let end = scene.edit(|volume, _| volume.layout.switchover = None);
    scene.breaks(NAME, &end);
    let mut buried = scene.edit(|volume, _| {
        volume.layout.switchover = None;
        volume.layout.old_targets.clear();
    });
    buried.push(bury(1, Buried::Target { volume: VOLUME, epoch: Epoch(1) }));
    scene.legal(&buried);
}

/// HA-2: a successor that dies is followed by another, with a new epoch.
#[test]
fn a_lost_successor_is_followed_by_another() {
    let mut scene = republished();
    scene.breaks(NAME, &to(&scene, SwitchoverStage::RepublishVolume { epoch: Epoch(1) }));
    scene.legal(&to(&scene, SwitchoverStage::Init));
    scene.legal(&scene.edit(|volume, membership| {
        crate::scene::issue(volume, membership, 3, 3);
        let stage = SwitchoverStage::RepublishVolume { epoch: Epoch(3) };
        volume.layout.switchover = Some(begun(stage));
    }));
}

#[test]
fn a_switchover_may_err_and_begin_again() {
    let mut scene = republished();
    let reason = "nowhere to go".into();
    scene.legal(&to(&scene, SwitchoverStage::Errored { reason }));
    scene.legal(&to(&scene, SwitchoverStage::Init));
}

#[test]
fn a_switchover_begins_at_its_beginning() {
    let scene = Scene::serving();
    for stage in [
        SwitchoverStage::RepublishVolume { epoch: Epoch(1) },
        SwitchoverStage::ReplacePath { epoch: Epoch(1) },
        SwitchoverStage::DeleteTarget { epoch: Epoch(1) },
    ] {
        scene.breaks(NAME, &to(&scene, stage));
    }
}

/// A switchover that nobody needs any more ends wherever it is; others do not.
#[test]
fn a_switchover_ends_early_only_if_unneeded() {
    let mut scene = republished();
    let end = |scene: &Scene| scene.edit(|volume, _| volume.layout.switchover = None);
    scene.breaks(NAME, &end(&scene));
    scene.legal(&scene.edit(|volume, _| {
        volume.spec.publish = None;
        volume.meta.spec_revision += 1;
    }));
    scene.legal(&end(&scene));
}

/// HA-4: the new path is live before the old one is dropped.
#[test]
fn old_targets_stay_until_the_hosts_have_moved() {
    let mut scene = republished();
    for stage in [TargetStage::Starting, TargetStage::Serving] {
        scene.legal(&scene.stage(stage));
    }
    scene.legal(&to(&scene, SwitchoverStage::ReplacePath { epoch: Epoch(2) }));
    let mut machines = Machines::of(&scene.records);
    let seen = TargetSeen::new(Epoch(2), TargetHealth::Serving, Bytes::gib(1));
    let target = machines.inventories.get_mut(&node(2)).unwrap();
    target.targets.insert(VOLUME, seen);
    let writes = to(&scene, SwitchoverStage::DeleteTarget { epoch: Epoch(2) });
    let commit = scene.apply(scene.leader, &writes);
    must_name(NAME, &check_commit_seen(&scene.records, &commit, &machines.seen()));
    let target = machines.inventories.get_mut(&node(2)).unwrap();
    target.targets.get_mut(&VOLUME).unwrap().hosts.insert(host(1));
    assert_eq!(check_commit_seen(&scene.records, &commit, &machines.seen()), []);
}
