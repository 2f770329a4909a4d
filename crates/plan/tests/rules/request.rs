//! What users may ask for: accepted, repeated, refused with a reason.

use std::collections::BTreeSet;

use fixtures::{Lab, Scene};
use model::{Bytes, Labels, Millis, PoolSpec, VolumeSpec};
use plan::{Refusal, Request, admit};

const TWO: &str = "node a b; pool a1 b1 100G; host h k;";

/// What comes of a request: the keys it would write, or the refusal.
#[track_caller]
fn check(text: &str, request: impl FnOnce(&Scene) -> Request, expect: &str) {
    check_seen(text, request, None, expect);
}

/// The same of a user who saw a revision of the spec.
#[track_caller]
fn check_seen(
    text: &str,
    request: impl FnOnce(&Scene) -> Request,
    if_spec: Option<u64>,
    expect: &str,
) {
    let scene = Scene::new(text);
    let words = match admit(&scene.world, &request(&scene), if_spec) {
        Ok(txn) => {
            let keys = txn.writes.iter().map(|write| match write {
                model::Write::Put { key, .. } => format!("put {key}"),
                model::Write::Delete { key } => format!("delete {key}"),
            });
            keys.collect::<Vec<_>>().join(", ")
        }
        Err(refusal) => refusal.to_string(),
    };
    let words = scene.names.readable(&words);
    assert_eq!(words, expect, "{text}");
}

fn spec(size: u64, replicas: u8) -> VolumeSpec {
    VolumeSpec { size: Bytes::gib(size), replicas, ..VolumeSpec::default() }
}

fn create(name: &'static str, spec: VolumeSpec) -> impl FnOnce(&Scene) -> Request {
    move |scene| Request::CreateVolume {
        id: scene.names.volume(name),
        name: name.into(),
        labels: Labels::new(),
        spec: spec.into(),
    }
}

/// LC-1, LC-2, LC-7: validated, placed, and repeated without harm.
#[test]
fn a_volume_is_created_once_and_only_where_it_fits() {
    check(TWO, create("v", spec(1, 2)), "put name/volume/v, put volume/v, put membership/v");
    check(TWO, create("v", spec(1, 6)), "spec.replicas: 6 is not allowed; it must be from 1 to 5");
    check(
        TWO,
        create("v", spec(0, 2)),
        "spec.size: 0 B is not allowed; it must be from 4 MiB to 256 TiB",
    );
    check(
        TWO,
        create("V", spec(1, 2)),
        "meta.name: \"V\" is not allowed; it must be lower-case letters, digits, '-' and \
             '.', with a letter or digit at both ends",
    );
    check(
        TWO,
        create("v", spec(1, 3)),
        "no pool can take another replica of 1 GiB: 2 on a node that has a copy",
    );
    check(
        TWO,
        create("v", spec(200, 2)),
        "no pool can take another replica of 200 GiB: 2 without room",
    );
    let there = format!("{TWO} volume v 1G x2: a1, b1");
    check(&there, create("v", spec(1, 2)), "");
    check(
        &there,
        create("v", spec(2, 1)),
        "volume v exists, made 16 min ago, and is not as asked for: replicas 2, not 1; size 1 GiB, \
         not 2 GiB; it was left as it is",
    );
    let named = |scene: &Scene| Request::CreateVolume {
        id: scene.names.volume("other"),
        name: "v".into(),
        labels: Labels::new(),
        spec: spec(1, 2).into(),
    };
    check(&there, named, "the name \"v\" is taken by volume v");
    check(
        &format!("{TWO} volume v 1G x2 deleting: a1, b1"),
        create("v", spec(1, 2)),
        "conflict: volume v is being deleted",
    );
}

/// M-16: a clone starts with the copies its snapshot has, however many are wanted.
#[test]
fn a_clone_is_created_beside_a_ready_snapshot() {
    let volume = format!("{TWO} volume s 2G x1: a1;");
    let clone = |size| {
        move |scene: &Scene| {
            let origin = Some(scene.names.snapshot("t"));
            create("v", VolumeSpec { origin, ..spec(size, 2) })(scene)
        }
    };
    check(
        &format!("{volume} snapshot t of s: a1"),
        clone(2),
        "put name/volume/v, put volume/v, put membership/v",
    );
    check(
        &format!("{volume} snapshot t of s: a1"),
        clone(1),
        "spec.size: 1 GiB is not allowed; it must be at least the snapshot's 2 GiB",
    );
    check(
        &format!("{volume} snapshot t of s taking: a1"),
        clone(2),
        "conflict: snapshot t is not ready",
    );
    check(&volume, clone(2), "there is no snapshot t");
    let scene = Scene::new(&format!("{volume} snapshot t of s: a1"));
    let txn = admit(&scene.world, &clone(2)(&scene), None).unwrap();
    let replicas = txn.writes.iter().find_map(|write| match write {
        model::Write::Put { value: model::Record::Volume(volume), .. } => {
            Some(&volume.layout.replicas)
        }
        _ => None,
    });
    let pools: Vec<_> = replicas.unwrap().iter().map(|replica| replica.pool).collect();
    assert_eq!(pools, [scene.names.pool("a1")]);
}

/// LC-7: a stale revision of the spec is a conflict, and so is a volume being deleted.
#[test]
fn changes_compare_the_revision_of_the_spec() {
    let scale =
        |scene: &Scene| Request::ScaleVolume { volume: scene.names.volume("v"), replicas: 1 };
    let there = format!("{TWO} volume v 1G x2: a1, b1");
    let outdated = "the spec is at revision 1, not 7: read it again";
    check(&there, scale, "put volume/v");
    check_seen(&there, scale, Some(1), "put volume/v");
    check_seen(&there, scale, Some(7), outdated);
    check(&format!("{TWO} volume v 1G x1: a1"), scale, "");
    check_seen(TWO, create("v", spec(1, 2)), Some(1), "there is no volume v");
    let forget = |scene: &Scene| Request::ForgetPool { pool: scene.names.pool("a1") };
    check_seen(TWO, forget, Some(7), outdated);
    check(
        &format!("{TWO} volume v 1G x2 deleting: a1, b1"),
        scale,
        "conflict: volume v is being deleted",
    );
    check(TWO, scale, "there is no volume v");
}

#[test]
fn a_volume_grows_where_there_is_room_and_never_shrinks() {
    let resize = |size| {
        move |scene: &Scene| Request::ResizeVolume {
            volume: scene.names.volume("v"),
            size: Bytes::gib(size),
        }
    };
    let there = format!("{TWO} volume v 10G x2: a1, b1");
    check(&there, resize(20), "put volume/v");
    check(&there, resize(10), "");
    check(
        &there,
        resize(5),
        "spec.size: 5 GiB is not allowed; it must be at least the present 10 GiB: \
             volumes do not shrink",
    );
    check(&there, resize(500), "pool a1 has room for 90 GiB, and 490 GiB more are needed");
}

fn publish(host: &'static str, attempt: &'static str, seconds: u64) -> impl Fn(&Scene) -> Request {
    move |scene| Request::PublishVolume {
        volume: scene.names.volume("v"),
        attempt: scene.names.attempt(attempt),
        deadline: scene.world.now + Millis::seconds(seconds),
        hosts: BTreeSet::from([scene.names.host(host)]),
    }
}

/// LC-4, LC-7: an attempt is repeated without harm, and a failed one is not tried again.
#[test]
fn a_publish_is_an_attempt_of_its_own() {
    let there = format!("{TWO} volume v 1G x2");
    check(&format!("{there}: a1, b1"), publish("h", "try", 60), "put volume/v");
    check(&format!("{there} publish=h on=a: a1, b1"), publish("h", "try", 60), "");
    check(
        &format!("{there} publish=h on=a: a1, b1"),
        publish("k", "again", 60),
        "conflict: it is published to another host: unpublish it there first",
    );
    check(&format!("{there} publish=h failed: a1, b1"), publish("h", "try", 60), "");
    check(&format!("{there} publish=h failed: a1, b1"), publish("h", "again", 60), "put volume/v");
    check(
        &format!("{there} publish=h failed: a1, b1"),
        publish("k", "try", 60),
        "conflict: attempt try was used before: make a new one",
    );
    check(
        &format!("{there}: a1, b1"),
        publish("h", "try", 0),
        "spec.publish.deadline: 0 ms from now is not allowed; it must be 1.0 s to 60 min \
             from now",
    );
    check(&format!("{there}: a1, b1"), publish("nobody", "try", 60), "there is no host nobody");
    check(
        &format!("{there} share=h: a1, b1"),
        publish("h", "try", 60),
        "conflict: it is shared: its server has it",
    );
}

/// OP-3: an unpublish by force is written down with the host it cuts off.
#[test]
fn an_unpublish_takes_the_host_out_of_the_spec() {
    let unpublish = |force| {
        move |scene: &Scene| Request::UnpublishVolume {
            volume: scene.names.volume("v"),
            host: scene.names.host("h"),
            force,
        }
    };
    let there = format!("{TWO} volume v 1G x2 publish=h on=a: a1, b1");
    check(&there, unpublish(false), "put volume/v");
    check(&format!("{TWO} volume v 1G x2: a1, b1"), unpublish(true), "");
    let mut lab = Lab::new(&there);
    let request = unpublish(true)(&Scene::new(&there));
    lab.ask(&request).unwrap();
    let spec = &lab.world.volume(lab.names.volume("v")).unwrap().record.spec;
    assert_eq!((&spec.publish, spec.severed.len()), (&None, 1));
}

#[test]
fn a_share_needs_known_consumers_and_no_publish() {
    let share = |consumers: &'static [&str]| {
        move |scene: &Scene| Request::ShareVolume {
            volume: scene.names.volume("v"),
            consumers: consumers.iter().map(|name| scene.names.host(name)).collect(),
        }
    };
    let there = format!("{TWO} volume v 1G x2");
    check(&format!("{there}: a1, b1"), share(&["h", "k"]), "put volume/v");
    check(&format!("{there} share=h: a1, b1"), share(&["h"]), "");
    check(
        &format!("{there} publish=h on=a: a1, b1"),
        share(&["h"]),
        "conflict: it is published to a host: unpublish it first",
    );
    check(&format!("{there}: a1, b1"), share(&["nobody"]), "there is no host nobody");
}

/// OP-1: a promotion needs the words of acceptance, and a volume that has lost every good copy.
#[test]
fn a_promotion_is_accepted_only_when_nothing_else_is_left() {
    let promote = |pool: Option<&'static str>, accept_data_loss| {
        move |scene: &Scene| Request::PromoteVolume {
            volume: scene.names.volume("v"),
            attempt: scene.names.attempt("p"),
            replica: pool.map(|pool| scene.names.replica(&format!("v/{pool}"))),
            accept_data_loss,
        }
    };
    let lost = "node a; node b dead; pool a1 b1; volume v 1G x2 epoch=1";
    check(&format!("{lost}: a1 faulted, b1"), promote(None, true), "put volume/v");
    check(
        &format!("{lost}: a1 faulted, b1"),
        promote(None, false),
        "accept_data_loss: false is not allowed; it must be true: writes that only the \
             lost copies had are gone for good",
    );
    check(
        &format!("{lost}: a1 faulted, b1"),
        promote(Some("x1"), true),
        "there is no replica v/x1",
    );
    check(
        &format!("{lost}: a1, b1"),
        promote(None, true),
        "replica v/a1 holds all data and is not lost: nothing needs to be given up",
    );
    check(&format!("{lost} promoted=p: a1 faulted, b1"), promote(None, true), "");
}

/// LC-5: the name is free at once.
#[test]
fn a_deletion_is_accepted_at_once_and_frees_the_name() {
    let delete = |with_snapshots| {
        move |scene: &Scene| Request::DeleteVolume {
            volume: scene.names.volume("v"),
            with_snapshots,
            force: false,
        }
    };
    let there = format!("{TWO} volume v 1G x2: a1, b1");
    check(&there, delete(false), "put volume/v, delete name/volume/v");
    check(
        &format!("{there}; snapshot s of v: a1, b1"),
        delete(false),
        "in use by snapshot s; delete it first, or with the volume",
    );
    check(
        &format!("{there}; snapshot s of v: a1, b1"),
        delete(true),
        "put volume/v, delete name/volume/v",
    );
    check(&format!("{TWO} volume v 1G x2 deleting: a1, b1"), delete(false), "");
    check(TWO, delete(false), "there is no volume v");
    let by_force = |scene: &Scene| Request::DeleteVolume {
        volume: scene.names.volume("v"),
        with_snapshots: false,
        force: true,
    };
    let used = format!("{TWO} volume v 1G x2 epoch=1 publish=h attempt=t: a1, b1");
    check(
        &used,
        delete(false),
        "in use by host h, which has volume v: `holdfast unpublish v --host h` first, or delete it \
         with --force, which destroys its data under that host",
    );
    check(&used, by_force, "put volume/v, delete name/volume/v");
}

#[test]
fn a_snapshot_is_asked_for_once_and_kept_while_a_clone_needs_it() {
    let take = |seconds| {
        move |scene: &Scene| Request::CreateSnapshot {
            id: scene.names.snapshot("s"),
            name: "s".into(),
            volume: scene.names.volume("v"),
            attempt: scene.names.attempt("s"),
            deadline: scene.world.now + Millis::seconds(seconds),
        }
    };
    let delete = |scene: &Scene| Request::DeleteSnapshot { snapshot: scene.names.snapshot("s") };
    let there = format!("{TWO} volume v 1G x2: a1, b1;");
    check(&there, take(60), "put snapshot/s, put name/snapshot/s");
    check(
        &there,
        take(0),
        "spec.deadline: 0 ms from now is not allowed; it must be 1.0 s to 60 min from now",
    );
    check(&format!("{there} snapshot s of v: a1"), take(60), "");
    let other = |scene: &Scene| Request::CreateSnapshot {
        id: scene.names.snapshot("t"),
        name: "s".into(),
        volume: scene.names.volume("v"),
        attempt: scene.names.attempt("t"),
        deadline: scene.world.now + Millis::seconds(60),
    };
    check(
        &format!("{there} snapshot s of v: a1"),
        other,
        "conflict: the name \"s\" is taken, and no snapshot was made: snapshot s of volume v was \
         taken, asked for 16 min ago; give each snapshot a name of its own, or `holdfast delete \
         snapshot s` first",
    );
    check(&format!("{there} snapshot s of v: a1"), delete, "put snapshot/s");
    check(&format!("{there} snapshot s of v deleting: a1"), delete, "");
    check(&there, delete, "there is no snapshot s");
    check(
        &format!("{there} snapshot s of v: a1; volume c 1G x1 creating origin=s: a1 creating"),
        delete,
        "in use by volume c, which is being made from it",
    );
}

/// LC-6: the refusal names what uses the pool.
#[test]
fn a_pool_in_use_is_not_deleted() {
    let delete = |scene: &Scene| Request::DeletePool { pool: scene.names.pool("a1") };
    check(TWO, delete, "put pool/a1");
    check(
        &format!("{TWO} volume v 1G x1: a1; volume w 1G x1: a1"),
        delete,
        "in use by volumes v, w",
    );
    check("node a; pool a1 deleting", delete, "");
    check("node a", delete, "there is no pool a1");
}

#[test]
fn a_pool_is_created_on_a_known_node_that_stays() {
    let create = |disk: &'static str| {
        move |scene: &Scene| Request::CreatePool {
            id: scene.names.pool("a2"),
            name: "a2".into(),
            labels: Labels::new(),
            spec: PoolSpec {
                extra: model::Extra::new(),
                ..PoolSpec::new(scene.names.node("a"), vec![disk.into()])
            },
        }
    };
    check("node a", create("/dev/a2"), "put pool/a2, put name/pool/a2");
    check("node a", create("a2"), "spec.disks: \"a2\" is not allowed; it must be an absolute path");
    check("node a; pool a2", create("/dev/a2"), "");
    check(
        "node a; pool a2",
        create("/dev/x"),
        "pool a2 exists, made 16 min ago, and is not as asked for: disks /dev/a2, not /dev/x; it \
         was left as it is",
    );
    check(
        "node a; pool a2 deleting",
        create("/dev/a2"),
        "conflict: pool a2 is being deleted: wait until it is gone",
    );
    check("node b", create("/dev/a2"), "there is no node a");
    check("node a forgotten", create("/dev/a2"), "conflict: node a is being forgotten");
}

const LOST: &str = "node a dead gone=1s; node b; pool a1 b1 100G;";

/// OP-2: refused while it is alive, and with the impact while it holds a last copy.
#[test]
fn hardware_with_a_last_copy_is_not_forgotten() {
    let node = |scene: &Scene| Request::ForgetNode { node: scene.names.node("a") };
    let pool = |scene: &Scene| Request::ForgetPool { pool: scene.names.pool("a1") };
    let last = format!("{LOST} volume v 1G x2 epoch=1: a1, b1 faulted");
    check(
        &last,
        node,
        "node a holds the last healthy copy of volume v; promote another copy of it, or \
             delete it, first",
    );
    check(
        &last,
        pool,
        "pool a1 holds the last healthy copy of volume v; promote another copy of it, or \
             delete it, first",
    );
    check(
        &format!("{LOST} volume v 1G x1 epoch=1: a1, b1 retiring"),
        node,
        "node a holds the last healthy copy of volume v; promote another copy of it, or \
             delete it, first",
    );
    let other = format!("{LOST} volume v 1G x2 epoch=1: a1, b1");
    check(&other, node, "put node/a");
    check(&other, pool, "put pool/a1");
    check(
        "node a dead; node b; pool a1; pool b1 forgotten; volume v 1G x2: a1, b1",
        node,
        "node a holds the last healthy copy of volume v; promote another copy of it, or \
             delete it, first",
    );
    check("node a dead; pool a1; volume v 1G x1 deleting: a1", node, "put node/a");
    check(
        "node a; pool a1",
        node,
        "node a is alive: its engine reports to the controllers, and only a machine that \
         will never return is forgotten; to take it out of the cluster, `holdfast drain a`, \
         stop its engine, then forget it",
    );
    check(
        "node a unknown; pool a1",
        node,
        "it is not known yet whether node a is alive: the controller has not waited for it long \
         enough; ask again in a few seconds",
    );
}

/// HA-8: cordon and drain are set, cancelled and repeated.
#[test]
fn a_node_is_cordoned_drained_and_labelled() {
    let cordon = |cordoned| {
        move |scene: &Scene| Request::CordonNode { node: scene.names.node("a"), cordoned }
    };
    let drain = |draining| {
        move |scene: &Scene| Request::DrainNode { node: scene.names.node("a"), draining }
    };
    check("node a", cordon(true), "put node/a");
    check("node a cordoned", cordon(true), "");
    check("node a draining", drain(false), "put node/a");
    check("node a", drain(false), "");
    check("node b", drain(true), "there is no node a");
    let label = |scene: &Scene| Request::LabelNode {
        node: scene.names.node("a"),
        labels: [("zone".into(), "x".into())].into(),
    };
    check("node a", label, "put node/a");
    check("node a zone=x", label, "");
    check_seen("node a", label, Some(7), "the spec is at revision 1, not 7: read it again");
}

/// OP-4: a read-only controller accepts nothing.
#[test]
fn a_read_only_controller_refuses_every_request() {
    let scene = Scene::new("node a; pool a1 mark=foreign");
    let request = create("v", spec(1, 1))(&scene);
    assert!(matches!(admit(&scene.world, &request, None), Err(Refusal::ReadOnly { .. })));
}

/// LC-2: two creates that fit only once: the first one's space is spoken for while it commits.
#[test]
fn space_that_a_commit_in_flight_takes_is_not_promised_again() {
    let mut scene = Scene::new("node a; pool a1 10G");
    let (one, two) = (create("v", spec(6, 1))(&scene), create("w", spec(6, 1))(&scene));
    let txn = admit(&scene.world, &one, None).unwrap();
    let pledge = scene.world.pledge(&txn);
    assert!(matches!(admit(&scene.world, &two, None), Err(Refusal::Impossible { .. })));
    scene.world.release(&pledge);
    assert!(admit(&scene.world, &two, None).is_ok());
}

/// LC-5: an id whose old bearer is not yet destroyed everywhere is not given to a new one.
#[test]
fn an_id_that_a_node_has_yet_to_bury_is_not_used_again() {
    let make = |scene: &Scene| Request::CreatePool {
        id: scene.names.pool("a1"),
        name: "new".into(),
        labels: [].into(),
        spec: model::PoolSpec::new(scene.names.node("a"), vec!["/dev/sda".into()]),
    };
    let words = "conflict: id a1 was used before, and node a has yet to remove that: make a new id";
    check("node a; tombstone a: pool a1", make, words);
    let words = "conflict: id v was used before, and node a has yet to remove that: make a new id";
    check("node a; pool a1; tombstone a: target v@1", create("v", spec(1, 1)), words);
}

/// OP-1 in part: what may cost the last copy is done only if it is named.
#[test]
fn a_drill_is_for_a_volume_that_is_served_and_safe() {
    let strike = |on_last_copy| {
        move |scene: &Scene| Request::DrillVolume {
            volume: scene.names.volume("v"),
            drill: plan::Drill::Strike { on_last_copy },
        }
    };
    let idle = "no target of it serves: publish it first";
    check(&format!("{TWO} volume v 1G x2: a1, b1"), strike(false), idle);
    let served = format!("{TWO} volume v 1G x2 publish=h on=a:");
    check(&format!("{served} a1, b1"), strike(false), "");
    let last = "it has no second healthy copy: if the one there is fails meanwhile, its data is \
                lost; wait until it is healed, or say that it shall be done on the last copy";
    check(&format!("{served} a1, b1 faulted"), strike(false), last);
    check(&format!("{served} a1, b1 faulted"), strike(true), "");
}
