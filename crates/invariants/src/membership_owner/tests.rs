//! Who may write a membership record.

use crate::scene::{Scene, by, issue, replica};

const NAME: &str = "membership_owner";

/// ST-5: an owned record is its owner's; a controller that needs a say raises the epoch.
#[test]
fn a_controller_leaves_an_owned_record_alone() {
    let mut scene = Scene::serving();
    scene.breaks(
        NAME,
        &scene.edit(|_, membership| {
            membership.children.insert(replica(9), false);
        }),
    );
    scene.breaks(NAME, &scene.edit(|_, membership| membership.owner = None));
    scene.legal(&scene.issue(2, 2));
    scene.legal(&scene.edit(|_, membership| {
        membership.children.insert(replica(9), false);
    }));
}

/// HA-9: an engine whose epoch was overtaken writes nothing any more.
#[test]
fn an_engine_writes_only_the_epoch_of_its_own_process() {
    let mut scene = Scene::serving();
    let exclude = |scene: &Scene| {
        scene.edit(|_, membership| {
            membership.children.insert(replica(2), false);
            membership.roster = membership.roster.next();
        })
    };
    scene.breaks_by(by(2), NAME, &exclude(&scene));
    scene.legal(&scene.issue(2, 2));
    scene.breaks_by(by(1), NAME, &exclude(&scene));
}

#[test]
fn an_engine_raises_no_epoch() {
    let scene = Scene::serving();
    scene.breaks_by(
        by(1),
        NAME,
        &scene.edit(|_, membership| {
            membership.epoch = membership.epoch.next();
        }),
    );
}

/// RS-2: a controller that fences a dead target does not call its copies equal.
#[test]
fn only_a_target_calls_its_record_clean() {
    let scene = Scene::serving();
    scene.breaks(
        NAME,
        &scene.edit(|volume, membership| {
            issue(volume, membership, 2, 2);
            membership.clean = true;
        }),
    );
}

/// RS-2: the source of a resync is sticky over a second crash.
#[test]
fn a_new_epoch_keeps_the_resync_source() {
    let mut scene = Scene::serving();
    scene.legal_by(
        by(1),
        &scene.edit(|_, membership| {
            membership.resync_source = Some(replica(2));
        }),
    );
    scene.breaks(
        NAME,
        &scene.edit(|volume, membership| {
            issue(volume, membership, 2, 2);
            membership.resync_source = None;
        }),
    );
    scene.legal(&scene.issue(2, 2));
}

#[test]
fn a_roster_never_goes_down_and_rises_with_every_change_of_health() {
    let scene = Scene::serving();
    scene.breaks_by(
        by(1),
        NAME,
        &scene.edit(|_, membership| {
            membership.roster = model::Roster::ZERO;
        }),
    );
    scene.breaks_by(
        by(1),
        NAME,
        &scene.edit(|_, membership| {
            membership.children.insert(replica(2), false);
        }),
    );
}
