//! One host at a time.

use alloc::collections::BTreeSet;

use model::{Access, Bytes, Epoch, HostStage, TargetHealth, TargetSeen};

use crate::{
    check_seen,
    scene::{Machines, Scene, VOLUME, found, host, must_name, node},
};

const NAME: &str = "exclusive_host";

/// The next host is let in when the one before is out, not while it leaves.
#[test]
fn the_next_host_waits_for_the_one_before() {
    let mut scene = Scene::serving();
    let admit = |scene: &Scene| {
        scene.edit(|volume, _| {
            volume.layout.hosts.insert(host(2), HostStage::Admitted);
        })
    };
    scene.breaks(NAME, &admit(&scene));
    scene.legal(&scene.edit(|volume, _| {
        volume.layout.hosts.insert(host(1), HostStage::Leaving);
    }));
    scene.breaks(NAME, &admit(&scene));
    scene.legal(&scene.edit(|volume, _| {
        volume.layout.hosts.clear();
    }));
    scene.legal(&admit(&scene));
}

#[test]
fn a_volume_for_many_lets_many_in() {
    let mut scene = Scene::empty();
    scene.legal(&found(|volume| {
        volume.spec.access = Access::Many;
        volume.layout.hosts.insert(host(1), HostStage::Admitted);
        volume.layout.hosts.insert(host(2), HostStage::Admitted);
    }));
}

#[test]
fn a_target_really_has_sessions_of_one_host() {
    let scene = Scene::serving();
    let mut machines = Machines::of(&scene.records);
    let mut target = TargetSeen {
        hosts: BTreeSet::from([host(1)]),
        ..TargetSeen::new(Epoch(1), TargetHealth::Serving, Bytes::gib(1))
    };
    let targets = |machines: &mut Machines, target: &TargetSeen| {
        let inventory = machines.inventories.get_mut(&node(1)).unwrap();
        inventory.targets.insert(VOLUME, target.clone());
    };
    targets(&mut machines, &target);
    assert_eq!(check_seen(&scene.records, &machines.seen()), []);
    target.hosts.insert(host(2));
    targets(&mut machines, &target);
    must_name(NAME, &check_seen(&scene.records, &machines.seen()));
}
