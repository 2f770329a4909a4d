//! What people are told.

use fixtures::Scene;
use model::Subject;
use plan::{plan, status};

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
