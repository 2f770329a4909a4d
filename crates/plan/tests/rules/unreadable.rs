//! A record that does not decode meets every other operation (M-20): it is never taken for absent.

use std::collections::BTreeSet;

use fixtures::Scene;
use model::{Subject, VolumeSpec, Write};
use plan::{Refusal, Request, admit, recover};

use crate::{check_plans, check_volumes};

const V: &str = "node a b; pool a1 b1; host h; volume v 1G x2";

/// How a record is told that does not decode.
fn bad(key: &str) -> String {
    format!("Quarantined \"the stored bytes of {key} do not decode: as the text says\"")
}

#[track_caller]
fn check(text: &str, is_meant: fn(&Subject) -> bool, expect: &[String]) {
    let expect: Vec<&str> = expect.iter().map(String::as_str).collect();
    check_plans(text, is_meant, &expect);
}

/// The request is refused because of this record, and says so.
#[track_caller]
fn refused(text: &str, request: impl FnOnce(&Scene) -> Request, key: &str) {
    let scene = Scene::new(text);
    let refusal = admit(&scene.world, &request(&scene), None).unwrap_err();
    let words = scene.names.readable(&refusal.to_string());
    let is_named = words.starts_with(&format!("the stored bytes of {key} do not decode"));
    assert!(matches!(refusal, Refusal::Unreadable { .. }) && is_named, "{text}\n  {words}");
}

#[track_caller]
fn accepted(text: &str, request: impl FnOnce(&Scene) -> Request) {
    let scene = Scene::new(text);
    let txn = admit(&scene.world, &request(&scene), None).unwrap();
    assert!(!txn.writes.is_empty(), "{text}");
}

/// ST-8: nobody deleted the volume, so its snapshots stay.
#[test]
fn a_snapshot_stays_while_its_volume_cannot_be_read() {
    let is_meant = |subject: &Subject| matches!(subject, Subject::Snapshot(_));
    for state in ["", " deleting", " taking"] {
        for word in ["unread volume", "quarantined volume", "quarantined membership"] {
            let text = format!("{V} on=a: a1, b1; snapshot s of v{state}: a1, b1; {word} v");
            let kind = word.split_once(' ').unwrap().1;
            check(&text, is_meant, &[format!("s waits: {}", bad(&format!("{kind}/v")))]);
        }
    }
}

/// ST-8, seed 55002060: where the copies of the snapshot are is not known, rather than nowhere.
#[test]
fn a_clone_is_refused_while_the_snapshots_volume_cannot_be_read() {
    let clone = |scene: &Scene| Request::CreateVolume {
        id: scene.names.volume("w"),
        name: "w".into(),
        labels: [].into(),
        spec: Box::new(VolumeSpec {
            size: model::Bytes::gib(1),
            replicas: 2,
            origin: Some(scene.names.snapshot("s")),
            ..VolumeSpec::default()
        }),
    };
    let text = format!("{V}: a1, b1; snapshot s of v: a1, b1");
    refused(&format!("{text}; unread volume v"), clone, "volume/v");
    refused(&format!("{text}; quarantined volume v"), clone, "volume/v");
    refused(&format!("{text}; unread snapshot s"), clone, "snapshot/s");
    accepted(&text, clone);
    let scene = Scene::new(&format!("{V}: a1, b1; snapshot s of v recorded=x1:"));
    let refusal = admit(&scene.world, &clone(&scene), None).unwrap_err();
    assert_eq!(refusal.to_string(), "no pool is known to hold snapshot s");
}

/// ST-8, seeds 88002451 and 88002509: the volume may have a replica there, and its last one.
#[test]
fn nothing_is_forgotten_or_deleted_that_an_unreadable_volume_may_use() {
    let node = |scene: &Scene| Request::ForgetNode { node: scene.names.node("a") };
    let pool = |scene: &Scene| Request::ForgetPool { pool: scene.names.pool("a1") };
    let delete = |scene: &Scene| Request::DeletePool { pool: scene.names.pool("c1") };
    let v = V.replacen("node a b", "node a dead; node b", 1);
    let text = format!("{v}: a1, b1; node c; pool c1");
    for word in ["unread", "quarantined"] {
        let text = format!("{text}; {word} volume v");
        refused(&text, node, "volume/v");
        refused(&text, pool, "volume/v");
        refused(&text, delete, "volume/v");
    }
    refused(&format!("{text}; unread pool c1"), node, "pool/c1");
    // Who is healthy is as unknown as where the replicas are.
    refused(&format!("{text}; quarantined membership v"), node, "membership/v");
    refused(&format!("{text}; quarantined membership v"), pool, "membership/v");
    accepted(&text, node);
    accepted(&text, pool);
    accepted(&text, delete);
}

/// ST-8: what was asked for before the record went bad waits for it.
#[test]
fn a_node_or_pool_on_its_way_out_waits_for_a_volume_that_cannot_be_read() {
    let nodes = |subject: &Subject| matches!(subject, Subject::Node(_));
    let pools = |subject: &Subject| matches!(subject, Subject::Pool(_));
    let v = bad("volume/v");
    check(
        "node a forgotten dead gone=1s; node b; pool b1; volume v 1G x1: b1; unread volume v",
        nodes,
        &[format!("a waits: {v}"), "b waits: OrphanGrace 1120s".into()],
    );
    check(
        "node a; pool a1 forgotten; volume v 1G x1: a1; unread volume v",
        pools,
        &[format!("a1 waits: {v}")],
    );
    check(
        "node a; pool a1 deleting; volume v 1G x1: a1; unread volume v",
        pools,
        &[format!("a1 waits: {v}")],
    );
    check(
        "node a forgotten dead gone=1s; pool a1; unread pool a1",
        nodes,
        &[format!("a waits: {}", bad("pool/a1"))],
    );
}

/// ST-8: a pool whose node cannot be read is not one whose node was forgotten.
#[test]
fn a_pool_stays_while_its_node_cannot_be_read() {
    let is_meant = |subject: &Subject| matches!(subject, Subject::Pool(_));
    check("node a; pool a1; unread node a", is_meant, &[format!("a1 waits: {}", bad("node/a"))]);
}

/// LC-5, ST-8: what is to be destroyed in a pool that cannot be read is not destroyed yet.
#[test]
fn a_tombstone_stays_while_its_pool_cannot_be_read() {
    let is_meant = |subject: &Subject| matches!(subject, Subject::Node(_));
    check(
        "node a; pool a1; tombstone a: replica v/a1 there; unread pool a1",
        is_meant,
        &["a waits: TombstoneDone a Replica v/a1 a1".into()],
    );
}

/// LC-5, ST-8: tombstones of a node that cannot be read come back with its record.
#[test]
fn tombstones_outlast_a_node_record_that_cannot_be_read() {
    let text = "node a; pool a1; tombstone a: replica v/a1 there, pool b1; unread node a";
    let mut scene = Scene::new(text);
    let create = |scene: &Scene| Request::CreatePool {
        id: scene.names.pool("b1"),
        name: "new".into(),
        labels: [].into(),
        spec: model::PoolSpec::new(scene.names.node("a"), vec!["/dev/sda".into()]),
    };
    let refusal = admit(&scene.world, &create(&scene), None).unwrap_err();
    assert!(matches!(refusal, Refusal::Conflict { .. }), "{refusal}");
    let readable = Scene::new("node a; pool a1");
    let node = readable.world.nodes[&readable.names.node("a")].record.clone();
    scene.world.quarantined.clear();
    let key = model::Key::Node(scene.names.node("a"));
    scene.world.put(&key, model::Record::Node(node.into()), model::Revision(1));
    assert_eq!(scene.world.nodes[&scene.names.node("a")].tombstones.len(), 2);
}

/// LC-5, ST-8: a volume is buried also where the node or the pool cannot be read.
#[test]
fn a_deleted_volume_leaves_tombstones_where_a_record_cannot_be_read() {
    for word in ["node b", "pool b1"] {
        let scene = Scene::new(&format!("{V} deleting: a1, b1; unread {word}"));
        let subject = Subject::Volume(scene.names.volume("v"));
        let step = plan::plan(&scene.world, subject).step.unwrap();
        let txn = plan::apply(&scene.world, &step).unwrap();
        let is_tombstone = |write: &&Write| matches!(write, Write::Put { .. });
        assert_eq!(txn.writes.iter().filter(is_tombstone).count(), 2, "{word}");
    }
}

/// HA-3, ST-8: a host that cannot be read may still write; nobody is let in beside it.
#[test]
fn a_leaving_host_that_cannot_be_read_is_waited_for() {
    let leaving = "node a b; pool a1 b1; host h; volume v 1G x2 leaving=h on=a sessions=none";
    check_volumes(&format!("{leaving}: a1, b1; unread host h"), &["v waits: HostLeaves h"]);
}

/// HA-7, ST-8: a target is not given up because the record of its node cannot be read.
#[test]
fn a_target_is_not_lost_with_the_record_of_its_node() {
    let text = format!("{V} publish=h on=a: a1, b1");
    let scene = Scene::new(&format!("{text}; unread node a"));
    let subject = Subject::Volume(scene.names.volume("v"));
    let step = plan::plan(&scene.world, subject).step;
    assert!(step.is_none(), "{step:?}");
}

/// ST-8: a volume may have snapshots that nobody can read.
#[test]
fn a_volume_is_not_deleted_over_a_snapshot_that_cannot_be_read() {
    let delete = |with_snapshots| {
        move |scene: &Scene| {
            let volume = scene.names.volume("v");
            Request::DeleteVolume { volume, with_snapshots, force: false }
        }
    };
    let text = format!("{V}: a1, b1; snapshot s of v: a1, b1; unread snapshot s");
    refused(&text, delete(false), "snapshot/s");
    accepted(&text, delete(true));
    // One that was read before is known to be another volume's.
    let other = "node a; pool a1; volume v 1G x1: a1; volume w 1G x1: a1; snapshot s of w: a1; \
                 quarantined snapshot s";
    accepted(other, delete(false));
}

/// M-16, ST-8: a clone that nobody can read may still need the snapshot.
#[test]
fn a_snapshot_is_not_deleted_while_a_clone_of_it_may_be_unreadable() {
    let delete = |scene: &Scene| Request::DeleteSnapshot { snapshot: scene.names.snapshot("s") };
    let text = format!("{V}: a1, b1; snapshot s of v: a1, b1; volume w 1G x1 origin=s: a1");
    refused(&format!("{text}; unread volume w"), delete, "volume/w");
    accepted(&format!("{text}; quarantined volume w"), delete);
}

/// ST-8: the record itself says why nothing can be asked of it.
#[test]
fn a_request_about_what_cannot_be_read_says_so() {
    for word in ["unread", "quarantined"] {
        let text = format!("{V}: a1, b1; snapshot s of v: a1, b1; {word}");
        let volume =
            |scene: &Scene| Request::ScaleVolume { volume: scene.names.volume("v"), replicas: 1 };
        refused(&format!("{text} volume v"), volume, "volume/v");
        let node =
            |scene: &Scene| Request::DrainNode { node: scene.names.node("a"), draining: true };
        refused(&format!("{text} node a"), node, "node/a");
        let snapshot =
            |scene: &Scene| Request::DeleteSnapshot { snapshot: scene.names.snapshot("s") };
        refused(&format!("{text} snapshot s"), snapshot, "snapshot/s");
    }
}

/// OP-5, ST-8: a recovery does not write over a record that cannot be read, nor past it.
#[test]
fn a_recovery_is_refused_over_a_record_that_cannot_be_read() {
    for word in ["volume v", "membership v", "pool a1"] {
        let text = format!("{V}: a1, b1; pool b2 on=b mark=foreign; unread {word}");
        let scene = Scene::new(&text);
        assert!(scene.world.read_only().is_some());
        let refusal = recover(&scene.world, scene.names.era("newest"), &BTreeSet::new());
        let refusal = refusal.unwrap_err();
        assert!(matches!(refusal, Refusal::Unreadable { .. }), "{word}: {refusal}");
    }
}
