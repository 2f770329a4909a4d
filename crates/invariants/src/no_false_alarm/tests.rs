//! Causes of switchovers, and what the machines say of them.

use alloc::collections::BTreeSet;

use model::{
    Bytes, Epoch, Extra, Switchover, SwitchoverCause, SwitchoverStage, TargetHealth, TargetSeen,
    Time, Write,
};

use crate::{
    Broken, check_commit_seen,
    scene::{Machines, Scene, VOLUME, must_name, node, reference},
};

const NAME: &str = "no_false_alarm";

fn begin(scene: &Scene, cause: SwitchoverCause) -> alloc::vec::Vec<Write> {
    scene.edit(|volume, _| {
        volume.layout.switchover = Some(Switchover {
            stage: SwitchoverStage::Init,
            cause,
            from: reference(1, 1),
            started: Time(1),
            tried: BTreeSet::new(),
            extra: Extra::new(),
        });
    })
}

fn judged(scene: &Scene, writes: &[Write], machines: &Machines) -> alloc::vec::Vec<Broken> {
    let mut scene = scene.clone();
    let commit = scene.apply(scene.leader, writes);
    check_commit_seen(&scene.records, &commit, &machines.seen())
}

/// HA-7: who is in touch is not taken for dead.
#[test]
fn a_node_in_touch_is_not_given_up() {
    let scene = Scene::serving();
    let mut machines = Machines::of(&scene.records);
    let gone = scene.edit_node(1, |node| node.layout.gone_since = Some(Time(1)));
    let moved = begin(&scene, SwitchoverCause::NodeDead);
    must_name(NAME, &judged(&scene, &gone, &machines));
    must_name(NAME, &judged(&scene, &moved, &machines));
    machines.steady.remove(&node(1));
    assert_eq!(judged(&scene, &gone, &machines), []);
    assert_eq!(judged(&scene, &moved, &machines), []);
}

/// HA-3: a target that serves is not replaced because it does not.
#[test]
fn a_target_that_serves_is_not_given_up() {
    let scene = Scene::serving();
    let mut machines = Machines::of(&scene.records);
    let moved = begin(&scene, SwitchoverCause::NotServing);
    // Its engine is at generation zero: it may not have been told yet.
    must_name(NAME, &judged(&scene, &moved, &machines));
    must_name(NAME, &judged(&scene, &begin(&scene, SwitchoverCause::ProcessGone), &machines));
    for (health, is_false) in [(TargetHealth::Serving, true), (TargetHealth::Fenced, false)] {
        let seen = TargetSeen::new(Epoch(1), health, Bytes::gib(1));
        machines.inventories.get_mut(&node(1)).unwrap().targets.insert(VOLUME, seen);
        assert_eq!(!judged(&scene, &moved, &machines).is_empty(), is_false);
    }
    let engine = machines.inventories.get_mut(&node(1)).unwrap();
    engine.targets.clear();
    engine.generation = scene.records.revision;
    assert_eq!(judged(&scene, &moved, &machines), []);
}
