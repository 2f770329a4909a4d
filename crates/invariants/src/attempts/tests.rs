//! Attempts end once.

use model::{Publication, SnapshotStage};

use crate::scene::{Scene, attempt};

const NAME: &str = "attempts";

/// LC-4: only a new attempt is tried after a failure.
#[test]
fn a_failed_publish_is_not_tried_again() {
    let mut scene = Scene::serving();
    let publication = |scene: &Scene, publication: Publication| {
        scene.edit(|volume, _| volume.layout.publication = publication)
    };
    let failed = Publication::Failed { attempt: attempt(1), reason: "deadline".into() };
    scene.legal(&publication(&scene, Publication::Pending { attempt: attempt(1) }));
    scene.legal(&publication(&scene, failed));
    scene.breaks(NAME, &publication(&scene, Publication::Pending { attempt: attempt(1) }));
    scene.breaks(NAME, &publication(&scene, Publication::Published { attempt: attempt(1) }));
    scene.legal(&publication(&scene, Publication::Pending { attempt: attempt(2) }));
    scene.legal(&publication(&scene, Publication::Published { attempt: attempt(2) }));
    scene.breaks(NAME, &publication(&scene, Publication::Pending { attempt: attempt(2) }));
}

/// LC-4: nothing is called published that nobody can reach.
#[test]
fn a_publish_ends_with_a_host_at_a_serving_target() {
    let mut scene = Scene::serving();
    let published = Publication::Published { attempt: attempt(1) };
    scene.clone().legal(&scene.edit(|volume, _| volume.layout.publication = published.clone()));
    scene.breaks(
        NAME,
        &scene.edit(|volume, _| {
            volume.layout.hosts.clear();
            volume.layout.publication = published.clone();
        }),
    );
    scene.legal(&scene.issue(2, 2));
    scene.breaks(NAME, &scene.edit(|volume, _| volume.layout.publication = published));
}

/// LC-4: a snapshot that failed is not taken after all.
#[test]
fn a_failed_snapshot_is_not_taken_again() {
    let mut scene = Scene::serving().with_snapshot();
    scene.legal(&scene.edit_snapshot(|snapshot| {
        snapshot.layout.stage = SnapshotStage::Failed { reason: "deadline".into() };
    }));
    for stage in [SnapshotStage::Taking, SnapshotStage::Ready] {
        scene.breaks(NAME, &scene.edit_snapshot(|snapshot| snapshot.layout.stage = stage));
    }
}
