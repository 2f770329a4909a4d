//! The list of promises, recovery, and records without history.

use alloc::{collections::BTreeSet, vec, vec::Vec};

use model::{Cluster, Era, Extra, Key, Record, Revision, Write};

use crate::{
    Author, PROMISES, Records, check_all, check_commit,
    scene::{Scene, VOLUME, copy, must_name, put, replica},
};

#[test]
fn every_promise_has_a_name_of_its_own_and_a_claim() {
    let names: BTreeSet<_> = PROMISES.iter().map(|promise| promise.name).collect();
    assert_eq!(names.len(), PROMISES.len());
    assert!(PROMISES.iter().all(|promise| !promise.claim.is_empty()));
}

/// A recovery rewrites what pools carry; the result is judged as a whole.
#[test]
fn a_recovery_is_judged_by_its_result() {
    let mut scene = Scene::serving();
    let backwards = scene.edit(|volume, membership| {
        volume.layout.epoch = model::Epoch::ZERO;
        volume.layout.target = None;
        membership.epoch = model::Epoch::ZERO;
        membership.children.remove(&replica(2));
        volume.layout.replicas.pop();
    });
    must_name("one_epoch", &{
        let mut scene = scene.clone();
        let commit = scene.apply(scene.leader, &backwards);
        check_commit(&scene.records, &commit)
    });
    scene.legal_by(Author::Recovery, &backwards);
    let era = Era::from_u128(2);
    let former = vec![Era::from_u128(1)];
    let cluster = Record::Cluster(Cluster { era, schema: 1, former, extra: Extra::new() });
    let mut writes = scene.edit(|volume, membership| {
        volume.layout.replicas.push(copy(3));
        membership.children.insert(replica(3), true);
    });
    writes.push(put(cluster));
    scene.legal(&writes);
}

/// Doctor judges a store whose history nobody watched.
#[test]
fn loaded_records_are_judged_without_history() {
    let scene = Scene::serving().with_snapshot();
    let mut writes: Vec<Write> = scene.all();
    let records = Records::loaded(Revision(100), &writes);
    assert_eq!(check_all(&records), []);
    assert_eq!(records.keys().count(), scene.records.keys().count());
    writes.retain(|write| !matches!(write, Write::Put { key: Key::Membership(VOLUME), .. }));
    must_name("references", &check_all(&Records::loaded(Revision(100), &writes)));
}
