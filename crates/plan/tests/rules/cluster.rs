//! The cluster record, and what stops all planning.

use model::{Subject, limits::TERMS_MAX};

use crate::{check_plans, settled};

#[track_caller]
fn check(text: &str, expect: &[&str]) {
    check_plans(text, |_| true, expect);
}

#[test]
fn terms_beyond_the_limit_are_pruned() {
    check("terms 40", &[]);
    check("terms 42", &["cluster: PruneTerms [1, 2] (Limit)"]);
    let lab = settled("terms 139");
    assert_eq!(lab.records.terms.len(), TERMS_MAX);
}

/// OP-4, M-23: a store that the pools know better than is read-only, for every subject.
#[test]
fn a_store_that_is_older_than_a_pool_decides_nothing() {
    for mark in ["foreign", "lost"] {
        let text = format!("node a; pool a1 mark={mark}; volume v 1G x2 deleting: a1");
        let scene = fixtures::Scene::new(&text);
        let subjects: Vec<Subject> = scene.world.subjects().collect();
        assert_eq!(subjects.len(), 4);
        for subject in subjects {
            let plan = plan::plan(&scene.world, subject);
            assert_eq!((plan.step, plan.waits.len()), (None, 1), "{mark}");
        }
    }
    check(
        "node a dead; pool a1 mark=foreign",
        &[
            "cluster waits: ReadOnly \"pool a1: it belongs to another store than this one\"",
            "a waits: ReadOnly \"pool a1: it belongs to another store than this one\"",
            "a1 waits: ReadOnly \"pool a1: it belongs to another store than this one\"",
        ],
    );
    check("node a; pool a1 mark=former", &[]);
    check("node a; pool a1 mark=none", &[]);
}

/// ST-8, M-20: a record that does not decode quarantines that one resource.
#[test]
fn a_quarantined_volume_is_left_alone_and_others_are_not() {
    check(
        "node a; pool a1; volume v 1G x1 deleting: a1; quarantined volume v",
        &["v waits: Quarantined \"the stored bytes of volume/v do not decode: as the text \
             says\""],
    );
    check(
        "node a; pool a1; volume v 1G x1 deleting: a1; volume w 1G x1 deleting: a1; \
         quarantined volume v",
        &[
            "v waits: Quarantined \"the stored bytes of volume/v do not decode: as the text \
             says\"",
            "w: DeleteVolume (Asked)",
        ],
    );
}

/// M-20: a volume without its membership record waits and says so.
#[test]
fn a_volume_without_a_membership_is_not_judged() {
    check(
        "node a; pool a1; volume v 1G x2 lone: a1",
        &["v waits: Quarantined \"its membership record is missing; recover, or restore \
             the store\""],
    );
}

/// ST-8: while a record does not decode, a pool without one is not a forgotten one.
#[test]
fn a_missing_record_proves_nothing_while_another_does_not_decode() {
    let text = "node a b; pool a1 b1; volume v 1G x2: a1, b1;";
    let mut scene = fixtures::Scene::new(&format!("{text} quarantined pool b1"));
    let pool = model::Key::Pool(scene.names.pool("b1"));
    scene.world.remove(&pool);
    let volume = Subject::Volume(scene.names.volume("v"));
    crate::check_lines(&scene.plan(volume), &[], text);
    scene.world.quarantined.clear();
    crate::check_lines(&scene.plan(volume), &["v: MarkGone v/b1 1000s (Lost(Forgotten))"], text);
}
