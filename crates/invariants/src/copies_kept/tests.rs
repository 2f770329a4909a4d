//! What may take a good copy away, and what may not.

use model::{Key, ReplicaStage, Roster, Severity, Write};

use crate::scene::{Scene, attempt, bury_copy, by, copy, event, replica};

const NAME: &str = "copies_kept";

/// RC-4: a surplus copy of a stopped volume goes in one commit with its place in the membership.
#[test]
fn a_surplus_copy_may_go_while_nothing_serves() {
    let mut scene = Scene::surplus().stopped();
    let mut writes = scene.edit(|volume, membership| {
        volume.layout.replicas.retain(|other| other.id != replica(3));
        membership.children.remove(&replica(3));
        membership.roster = membership.roster.next();
    });
    writes.push(bury_copy(3));
    scene.legal(&writes);
}

/// RC-4: the target excludes what is retired; only then the controller drops it.
#[test]
fn a_retired_copy_goes_after_its_target_let_it_go() {
    let mut scene = Scene::surplus();
    let is_third = |id| id == replica(3);
    scene.legal(&scene.edit(|volume, _| {
        volume.layout.replicas.iter_mut().filter(|r| is_third(r.id)).for_each(|r| {
            r.stage = ReplicaStage::Retiring;
        });
    }));
    let mut drop = scene.edit(|volume, _| volume.layout.replicas.retain(|r| !is_third(r.id)));
    drop.push(bury_copy(3));
    scene.breaks(NAME, &drop);
    scene.legal_by(
        by(1),
        &scene.edit(|_, membership| {
            membership.children.insert(replica(3), false);
            membership.roster = membership.roster.next();
        }),
    );
    scene.legal(&drop);
}

/// RC-4: with as many healthy copies as asked for, none of them is dropped or retired.
#[test]
fn a_healthy_copy_that_is_needed_stays() {
    let scene = Scene::serving().stopped();
    let mut writes = scene.edit(|volume, membership| {
        volume.layout.replicas.retain(|other| other.id != replica(2));
        membership.children.remove(&replica(2));
        membership.roster = membership.roster.next();
    });
    writes.push(bury_copy(2));
    scene.breaks(NAME, &writes);
    let retire = scene.edit(|volume, _| volume.layout.replicas[1].stage = ReplicaStage::Retiring);
    scene.breaks(NAME, &retire);
}

/// After an unclean stop the copy that is dropped may be the only intact one.
#[test]
fn no_good_copy_is_dropped_while_nobody_knows_which_is_intact() {
    let mut scene = Scene::surplus();
    scene.legal(&scene.edit(|volume, membership| {
        let target = volume.layout.target.take();
        volume.layout.old_targets.extend(target.map(|target| target.reference()));
        volume.layout.epoch = volume.layout.epoch.next();
        membership.epoch = membership.epoch.next();
        membership.owner = None;
    }));
    let mut writes = scene.edit(|volume, membership| {
        volume.layout.replicas.retain(|other| other.id != replica(3));
        membership.children.remove(&replica(3));
        membership.roster = membership.roster.next();
    });
    writes.push(bury_copy(3));
    scene.breaks(NAME, &writes);
}

/// OP-2: what a person wrote off leaves while one good copy remains, and never as the last.
#[test]
fn a_forgotten_copy_goes_unless_it_is_the_last() {
    let mut scene = Scene::serving().stopped();
    scene.forget_pool(2);
    scene.legal(&scene.edit(|volume, membership| {
        volume.layout.replicas.retain(|other| other.id != replica(2));
        membership.children.remove(&replica(2));
        membership.roster = membership.roster.next();
    }));
    scene.forget_pool(1);
    let last = scene.edit(|volume, membership| {
        volume.layout.replicas.clear();
        membership.children.clear();
        membership.roster = membership.roster.next();
    });
    scene.breaks(NAME, &last);
}

#[test]
fn a_blank_copy_may_be_swapped_for_another_but_not_just_dropped() {
    let mut scene = Scene::founded();
    let swap = |placed: bool| {
        let mut writes = scene.edit(|volume, membership| {
            volume.layout.replicas.retain(|other| other.id != replica(2));
            membership.children.remove(&replica(2));
            if placed {
                volume.layout.replicas.push(copy(3));
                volume.layout.placed += 1;
                membership.children.insert(replica(3), true);
            }
        });
        writes.push(bury_copy(2));
        writes
    };
    scene.breaks(NAME, &swap(false));
    let writes = swap(true);
    scene.legal(&writes);
}

/// ST-5: only the engine that serves excludes a copy, and it raises the roster.
#[test]
fn only_the_owner_records_a_copy_unhealthy() {
    let scene = Scene::serving();
    let exclude = |roster: Roster| {
        scene.edit(|_, membership| {
            membership.children.insert(replica(2), false);
            membership.roster = roster;
        })
    };
    let roster = scene.records.memberships[&crate::scene::VOLUME].roster;
    scene.breaks(NAME, &exclude(roster.next()));
    scene.breaks_by(by(1), NAME, &exclude(roster));
    scene.clone().legal_by(by(1), &exclude(roster.next()));
}

/// OP-1: a promotion may leave fewer good copies, because a person accepted it.
#[test]
fn a_promotion_that_was_asked_for_may_cost_copies() {
    let mut scene = Scene::serving();
    scene.legal(&scene.edit(|volume, _| {
        volume.spec.promote =
            Some(model::Promotion { attempt: attempt(7), replica: Some(replica(2)) });
        volume.meta.spec_revision += 1;
    }));
    let mut writes = scene.edit(|volume, membership| {
        crate::scene::issue(volume, membership, 2, 2);
        volume.layout.promotions.push(attempt(7));
        membership.children.insert(replica(1), false);
        membership.roster = membership.roster.next();
    });
    writes.push(event(1, Severity::Loss));
    scene.legal(&writes);
    // The mark stays, also when the journal is cut.
    scene.breaks("create_once", &[Write::delete(Key::Event(1))]);
}
