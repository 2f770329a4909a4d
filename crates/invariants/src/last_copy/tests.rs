//! Who may call a copy good, and that one always is.

use model::{Promotion, Severity};

use crate::scene::{Scene, attempt, by, copy, event, issue, replica};

const NAME: &str = "last_copy";

/// RC-4: the last healthy copy is never recorded unhealthy, not even by the owner.
#[test]
fn the_last_healthy_copy_stays_healthy() {
    let mut scene = Scene::serving();
    scene.legal_by(
        by(1),
        &scene.edit(|_, membership| {
            membership.children.insert(replica(2), false);
            membership.roster = membership.roster.next();
        }),
    );
    scene.breaks_by(
        by(1),
        NAME,
        &scene.edit(|_, membership| {
            membership.children.insert(replica(1), false);
            membership.roster = membership.roster.next();
        }),
    );
}

/// RS-2: the source of a resync is a healthy copy, and while it is set it is the only one.
#[test]
fn a_resync_source_is_a_healthy_copy() {
    let scene = Scene::serving();
    let resync = |source| scene.edit(|_, membership| membership.resync_source = Some(source));
    scene.clone().legal_by(by(1), &resync(replica(2)));
    scene.breaks_by(by(1), NAME, &resync(replica(9)));
}

/// ST-5: a rebuilt copy becomes healthy by the word of the target that copied to it.
#[test]
fn only_the_owner_calls_a_copy_healthy() {
    let mut scene = Scene::serving();
    scene.legal(&scene.edit(|volume, _| {
        volume.layout.replicas.push(copy(3));
        volume.layout.placed += 1;
    }));
    let admit = scene.edit(|_, membership| {
        membership.children.insert(replica(3), true);
        membership.roster = membership.roster.next();
    });
    scene.breaks(NAME, &admit);
    scene.legal_by(by(1), &admit);
}

#[test]
fn a_controller_calls_no_copy_of_a_stopped_volume_healthy() {
    let scene = Scene::serving().stopped();
    scene.breaks(
        NAME,
        &scene.edit(|volume, membership| {
            volume.layout.replicas.push(copy(3));
            volume.layout.placed += 1;
            membership.children.insert(replica(3), true);
            membership.roster = membership.roster.next();
        }),
    );
}

/// OP-1: nothing promotes by itself, and a promotion leaves a permanent mark.
#[test]
fn a_promotion_is_asked_for_and_told() {
    let mut scene = Scene::serving();
    let promote = |scene: &Scene| {
        scene.edit(|volume, membership| {
            issue(volume, membership, 2, 2);
            volume.layout.promotions.push(attempt(7));
        })
    };
    scene.breaks(NAME, &promote(&scene));
    scene.legal(&scene.edit(|volume, _| {
        volume.spec.promote = Some(Promotion { attempt: attempt(7), replica: None });
        volume.meta.spec_revision += 1;
    }));
    scene.breaks(NAME, &promote(&scene));
    let mut writes = promote(&scene);
    writes.push(event(1, Severity::Loss));
    scene.legal(&writes);
}
