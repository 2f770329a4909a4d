//! One suite on all three.

use std::{io::Write as _, time::Instant};

use conformance::{etcd, store::suite};
use store::{embedded::Embedded, memory::Memory};

use super::{alone, connect, etcd_for};

fn report(implementor: &str, passed: usize, started: Instant) {
    let elapsed = started.elapsed();
    // Past the harness, which hides what passing tests print: a reader wants to know which etcd.
    let _ = writeln!(
        std::io::stderr(),
        "store conformance: {implementor}: {passed} checks passed in {elapsed:.1?}"
    );
}

/// ST-1: the store in memory, which the simulator uses, behaves as the real ones do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_conforms() {
    let started = Instant::now();
    let passed = suite("memory", async |_| Memory::default()).await;
    report("memory", passed, started);
}

/// ST-1: on one machine the store is embedded, with the same semantics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_conforms() {
    let started = Instant::now();
    let folder = tempfile::tempdir().unwrap();
    let open = async |check| Embedded::open(&folder.path().join(check)).unwrap();
    let passed = suite("embedded", open).await;
    report("embedded", passed, started);
}

/// ST-1: with etcd the store is an etcd cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_conforms() {
    let Some(etcd) = etcd_for("etcd conformance") else { return };
    let started = Instant::now();
    let member = alone(&etcd);
    let implementor = format!("etcd {}", etcd::version(&etcd));
    let passed = suite(&implementor, async |check| connect(&member, check).await).await;
    report(&implementor, passed, started);
}
