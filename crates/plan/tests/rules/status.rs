//! What people are told.

use fixtures::Scene;
use model::{InstanceId, Status, Subject};
use plan::{behind, plan, status};

#[track_caller]
fn check(text: &str, expect: &str) {
    let scene = Scene::new(text);
    let subject = Subject::Volume(scene.names.volume("v"));
    let status = status(&scene.world, subject, &plan(&scene.world, subject)).unwrap();
    assert_eq!(status.health.to_string(), expect, "{text}");
}

/// LC-8: every volume has a health that follows from what is observed.
#[test]
fn a_volumes_health_follows_from_its_copies_and_its_target() {
    check("node a b; pool a1 b1; volume v 1G x2: a1, b1", "healthy");
    check("node a b; pool a1 b1; volume v 1G x2: a1, b1 faulted", "degraded");
    check("node a; node b dead; pool a1 b1; volume v 1G x2: a1, b1", "degraded");
    check("node a b dead; pool a1 b1; volume v 1G x2: a1, b1", "faulted");
    check("node a b unknown; pool a1 b1; volume v 1G x2: a1, b1", "unknown");
    check("node a b; pool a1 b1; volume v 1G x2 deleting: a1, b1", "pending");
    check("node a b; pool a1 b1; volume v 1G x2 creating: a1, b1", "pending");
    check("node a b; pool a1 b1; host h; volume v 1G x2 publish=h: a1, b1", "faulted");
    check("node a; pool a1; volume v 1G x1 lone: a1", "faulted");
}

/// LC-8, RS-2: a copy whose process was started anew is not well before its target says so, though
/// the record does.
#[test]
fn a_copy_that_was_started_anew_counts_when_its_target_has_spoken_with_it() {
    let text = "node a b; pool a1 b1; host h; volume v 1G x2 publish=h on=a: a1, b1";
    let told = |is_now: Option<u128>, spoken: Option<u128>| -> (Status, usize) {
        let mut scene = Scene::new(text);
        let (a, b) = (scene.names.node("a"), scene.names.node("b"));
        let volume = scene.names.volume("v");
        let of_b = scene.world.nodes.get_mut(&b).unwrap().inventory.as_mut().unwrap();
        let (replica, seen) = of_b.replicas.iter_mut().next().unwrap();
        seen.instance = is_now.map(InstanceId::from_u128);
        let replica = *replica;
        let of_a = scene.world.nodes.get_mut(&a).unwrap().inventory.as_mut().unwrap();
        let target = of_a.targets.get_mut(&volume).unwrap();
        let child = target.children.get_mut(&replica).unwrap();
        child.instance = spoken.map(InstanceId::from_u128);
        let subject = Subject::Volume(volume);
        let status = status(&scene.world, subject, &plan(&scene.world, subject)).unwrap();
        (status, behind(&scene.world, volume).len())
    };
    let (status, count) = told(Some(2), Some(1));
    assert_eq!((status.health.to_string().as_str(), count), ("degraded", 1));
    assert!(status.words.iter().any(|words| words.contains("was started anew")), "{status:?}");
    for (is_now, spoken) in [(Some(2), Some(2)), (None, Some(1)), (Some(2), None)] {
        let (status, count) = told(is_now, spoken);
        assert_eq!((status.health.to_string().as_str(), count), ("healthy", 0));
    }
    check("node a b; pool a1 b1; host h; volume v 1G x2 publish=h on=a: a1, b1", "healthy");
    check(
        "node a restarted; node b; pool a1 b1; host h; volume v 1G x2 publish=h on=a: a1, b1",
        "faulted",
    );
}
