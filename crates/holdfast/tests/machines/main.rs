//! Three machines, played by network namespaces, from the config files of
//! `docs/guide/three-machines.md`: only addresses and paths are substituted.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

#[path = "../../../host/tests/attach/nbd.rs"]
mod nbd;
mod net;
mod rig;

use std::{env, process::Command};

use crate::{
    nbd::{Nbd, Work, check},
    rig::{CLIENT, Rig},
};

/// Set for the run of this program in namespaces of its own.
const INSIDE: &str = "HOLDFAST_MACHINES_INSIDE";

/// This program again, where it may make networks: they end with it, and the machine never sees
/// them. Skipped by name where that is not allowed; in CI that is a failure.
fn outside(test: &str) -> bool {
    if env::var_os(INSIDE).is_some() {
        return false;
    }
    let probe = Command::new("unshare").args(["--net", "--mount", "--", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        let reason = "`unshare --net --mount` is not allowed here (it needs root)";
        assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{test}: {reason}");
        println!("SKIPPED: {test}: {reason}");
        return true;
    }
    let status = Command::new("unshare")
        .args(["--net", "--mount", "--propagation", "private", "--"])
        .arg(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{test} failed in its namespaces");
    true
}

/// HA-7, LC-1, M-17, ST-1: the guide's cluster with mutual TLS and a three-member etcd serves a
/// volume, survives the death of the engine that serves it and of the leading controller, and lets
/// no stranger in.
#[tokio::test(flavor = "multi_thread")]
async fn three_machines_from_the_guide_serve_a_volume_and_survive_one() {
    if outside("three_machines_from_the_guide_serve_a_volume_and_survive_one") {
        return;
    }
    let mut rig = Rig::start();
    rig.until("three nodes are here", &["get", "nodes", "-o", "name"], |said| {
        said.lines().count() == 3
    });
    for n in 1..=3 {
        let (pool, node) = (format!("pool-{n}"), format!("node-{n}"));
        let disk = rig.path(n, "disk");
        rig.fine(&["create", "pool", &pool, "--node", &node, "--disk", disk.to_str().unwrap()]);
    }
    rig.fine(&["create", "volume", "db", "--size", "64MiB", "--replicas", "3"]);
    let run = rig.path(1, "run");
    let device = rig.fine(&["attach", "db", "--run", run.to_str().unwrap()]);
    let socket = device.trim().split_once("socket=").unwrap().1.to_owned();
    let nbd = Nbd::connect(socket.as_ref()).unwrap();
    assert_eq!(nbd.size, 64 << 20);
    let work = Work::begin(nbd);
    work.goes_on(200).await;

    strangers_are_refused(&rig);

    let server = rig.server_of("db");
    println!("kill -9 the engine of node-{server}, which serves the volume");
    rig.kill(&format!("engine-{server}"));
    work.goes_on(200).await;
    assert_ne!(rig.server_of("db"), server);
    println!("kill -9 the leading controller");
    let leader = rig.leader();
    rig.kill(&format!("controller-{leader}"));
    work.goes_on(200).await;
    rig.ask_at(leader % 3 + 1);
    rig.begin("controller", leader);
    rig.begin("engine", server);
    rig.until("the volume is whole again", &["get", "volumes", "-o", "wide"], |said| {
        said.contains("healthy") && said.contains("3/3")
    });
    work.goes_on(200).await;
    let (mut nbd, seen) = work.end().await;
    println!("{} writes, the longest wait {:?}", seen.writes, seen.gap);
    check(&mut nbd, seen.writes);
    let doctor = rig.fine(&["doctor"]);
    assert!(doctor.contains(" 0 findings"), "{doctor}");
}

/// From another machine, at a controller's REST and at its stream.
fn strangers_are_refused(rig: &Rig) {
    let engine = rig.path(2, "etc/engine");
    let (is_fine, said) = rig.say_with(Some(&engine), &["get", "nodes"]);
    assert!(!is_fine && said.contains("that of engine node-2"), "{said}");
    let (is_fine, said) = rig.say_with(None, &["get", "nodes"]);
    assert!(!is_fine && said.contains("asks for certificates"), "{said}");
    let (is_fine, said) = rig.say_with(Some(CLIENT.as_ref()), &["get", "nodes"]);
    assert!(!is_fine, "a folder that is not there: {said}");
    // A client's certificate does not open etcd: it has an authority of its own.
    let etcd = format!("https://{}:2379", net::address(1));
    let controller = format!("{}:7420", net::address(1));
    let state = rig.path(1, "etc/engine");
    let (is_fine, said) = rig.bare(&[
        "engine",
        "--controller",
        &controller,
        "--node-id",
        "00000000-0000-0000-0000-000000000009",
        "--etcd",
        &etcd,
        "--etcd-pki",
        state.to_str().unwrap(),
    ]);
    assert!(!is_fine && said.contains("etcd"), "{said}");
}
