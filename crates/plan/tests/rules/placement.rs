//! Choosing pools: each filter alone, each score alone, and the order that the world keeps.

use fixtures::Scene;
use plan::placement::{Ask, place};

use crate::check_lines;

/// Where `count` copies of volume `v` would go, or why not.
#[track_caller]
fn check(text: &str, count: usize, expect: &[&str]) {
    let scene = Scene::new(text);
    let volume = &scene.world.volume(scene.names.volume("v")).unwrap().record;
    let mut ask = Ask::new(&scene.world, volume);
    if let Some(origin) = volume.spec.origin {
        let copies = &scene.world.snapshots[&origin].layout.copies;
        let replicas = scene.world.volumes.values().flat_map(|view| &view.record.layout.replicas);
        let held = replicas.filter(|replica| copies.contains(&replica.id));
        ask.within = Some(held.map(|replica| replica.pool).collect());
    }
    let lines = match place(&scene.world, &ask, count) {
        Ok(places) => places.iter().map(|(pool, _)| pool.to_string()).collect(),
        Err(wait) => vec![wait.to_string()],
    };
    let lines: Vec<String> = lines.iter().map(|line| scene.names.readable(line)).collect();
    check_lines(&lines, expect, text);
}

/// LC-2: only pools that are observed online.
#[test]
fn an_unknown_or_broken_pool_is_no_place() {
    check("node a; pool a1; volume v 1G x1:", 1, &["a1"]);
    for text in [
        "node a unknown; pool a1",
        "node a dead; pool a1",
        "node a; pool a1 importing",
        "node a; pool a1 faulted",
        "node a; pool a1 unseen",
    ] {
        check(
            &format!("{text}; volume v 1G x1:"),
            1,
            &["no pool can take another replica of 1 GiB: 1 not online"],
        );
    }
}

/// HA-8: nothing new on what is cordoned, drained or on its way out.
#[test]
fn nothing_is_placed_on_what_is_leaving() {
    for text in [
        "node a cordoned; pool a1",
        "node a draining; pool a1",
        "node a forgotten; pool a1",
        "node a; pool a1 deleting",
        "node a; pool a1 forgotten",
    ] {
        check(
            &format!("{text}; volume v 1G x1:"),
            1,
            &["no pool can take another replica of 1 GiB: 1 cordoned, drained or leaving"],
        );
    }
}

#[test]
fn affinity_labels_of_pool_or_node_are_asked_for_and_the_pools_own_comes_first() {
    let nodes = "node a zone=x; node b zone=y; pool a1; pool b1; pool b2 zone=x;";
    check(&format!("{nodes} volume v 1G x1 affinity=zone:y:"), 1, &["b1"]);
    check(&format!("{nodes} volume v 1G x2 affinity=zone:x:"), 2, &["a1", "b2"]);
    check(
        &format!("{nodes} volume v 1G x1 affinity=zone:z:"),
        1,
        &["no pool can take another replica of 1 GiB: 3 outside the affinity labels"],
    );
}

#[test]
fn two_copies_never_share_a_node() {
    check("node a b; pool a1 a2 b1; volume v 1G x2:", 2, &["a1", "b1"]);
    check(
        "node a; pool a1 a2; volume v 1G x2: a1",
        1,
        &["no pool can take another replica of 1 GiB: 2 on a node that has a copy"],
    );
}

/// M-16: scaling up keeps the spread.
#[test]
fn two_copies_never_share_a_spread_label() {
    let nodes = "node a b zone=x; node c zone=y; node d; pool a1 b1 c1 d1;";
    check(&format!("{nodes} volume v 1G x2 spread=zone: a1"), 1, &["c1"]);
    check(&format!("{nodes} volume v 1G x4 spread=zone: a1"), 2, &["c1", "d1"]);
    check(
        &format!("{nodes} volume v 1G x4 spread=zone: a1"),
        3,
        &["no pool can take another replica of 1 GiB: 3 on a node that has a copy, 1 \
             sharing a spread label with a copy"],
    );
}

/// LC-2: what was promised is spent, whether or not it is written.
#[test]
fn a_thick_copy_needs_room_beside_all_promises() {
    check(
        "node a; pool a1 10G; volume v 6G x1:; volume w 5G x1: a1",
        1,
        &["no pool can take another replica of 6 GiB: 1 without room"],
    );
    check("node a; pool a1 10G; volume v 5G x1:; volume w 5G x1: a1", 1, &["a1"]);
    check(
        "node a; pool a1 10G used=6G; volume v 5G x1:",
        1,
        &["no pool can take another replica of 5 GiB: 1 without room"],
    );
    check(
        "node a; pool a1 10G used=6G reserved=6G; volume v 5G x1:; volume w 6G x1: a1",
        1,
        &["no pool can take another replica of 5 GiB: 1 without room"],
    );
    check(
        "node a; pool a1 10G; volume v 5G x1 thin:; volume w 10G x1: a1",
        1,
        &["no pool can take another replica of 64 MiB: 1 without room"],
    );
}

#[test]
fn thin_volumes_are_promised_four_times_what_there_is() {
    let text = "node a; pool a1 10G; volume w 35G x1 thin: a1;";
    check(&format!("{text} volume v 5G x1 thin:"), 1, &["a1"]);
    check(
        &format!("{text} volume v 6G x1 thin:"),
        1,
        &["no pool can take another replica of 64 MiB: 1 promised too often to thin volumes"],
    );
}

/// M-16: a clone starts where its snapshot is.
#[test]
fn a_clone_is_placed_beside_its_snapshot() {
    let nodes = "node a b c; pool a1 b1 c1; volume s 1G x2: a1, b1;";
    check(&format!("{nodes} snapshot t of s: b1; volume v 1G x1 origin=t:"), 1, &["b1"]);
    check(
        &format!("{nodes} snapshot t of s: b1; volume v 1G x2 origin=t:"),
        2,
        &["no pool can take another replica of 1 GiB: 2 without the snapshot to start \
             from, 1 on a node that has a copy"],
    );
}

/// M-16: balance by bytes, not by count.
#[test]
fn promises_weigh_more_than_data_and_data_more_than_counts() {
    let nodes = "node a b c; pool a1 b1 100G;";
    check(&format!("{nodes} volume w 10G x1: a1; volume v 1G x1:"), 1, &["b1"]);
    check(&format!("{nodes} volume w 10G x1 thin: a1; volume v 1G x1:"), 1, &["b1"]);
    check("node a b; pool a1 100G used=10G; pool b1 100G; volume v 1G x1:", 1, &["b1"]);
    check(
        &format!(
            "{nodes} volume w 10G x1: b1; volume y 5G x1: a1; volume z 4G x1: a1; volume v 1G x1:"
        ),
        1,
        &["a1"],
    );
    check(
        &format!(
            "{nodes} volume w 4G x1: b1; volume y 2G x1: a1; volume z 2G x1: a1; volume v 1G x1:"
        ),
        1,
        &["b1"],
    );
    check("node a b; pool a1 50G; pool b1 100G; volume v 1G x1:", 1, &["b1"]);
}

#[test]
fn a_group_keeps_apart_while_it_can() {
    let group = "volume w 1G x1 group=g: b1; volume v 1G x1 group=g";
    check(&format!("node a b; pool a1 50G; pool b1 100G; {group}:"), 1, &["a1"]);
    check(&format!("node b; pool b1 100G; {group}:"), 1, &["b1"]);
}
