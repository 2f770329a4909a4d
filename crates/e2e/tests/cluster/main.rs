//! Whole engines in one process: every machine of the data plane meets the others here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod rig;

use e2e::plan::{node, pool_of, replica_of};
use engine::fault::Fault;
use model::Bytes;
use rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_whatever_engine_is_lost() {
    let mut rig = Rig::new(2).await;
    rig.whole().await;
    rig.fill().await;
    let first = rig.seat().node;
    // A replica goes and comes back.
    let other = rig.other(first);
    rig.begin();
    rig.lose(other).await;
    rig.until("one copy", |seen| seen.is_serving && seen.healthy() == 1).await;
    rig.bring(other).await;
    rig.whole().await;
    // The target goes: its successor is elsewhere, and the old one comes back as a replica.
    rig.lose(first).await;
    rig.until("a successor", move |s| s.is_serving && s.seat.is_some_and(|s| s.node == other))
        .await;
    rig.bring(first).await;
    rig.whole().await;
    rig.end().await;
    rig.check().await;
    for alone in [node(0), node(1)] {
        rig.check_alone(alone).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_and_returns_costs_no_replica() {
    let rig = Rig::new(2).await;
    let roster = rig.whole().await.record.unwrap().roster;
    let other = rig.other(rig.seat().node);
    rig.fill().await;
    for _ in 0..5 {
        rig.begin();
        rig.inject(other, Fault::CutReplica { replica: replica_of(other) }).await;
        rig.end().await;
    }
    let seen = rig.whole().await;
    assert_eq!(seen.record.unwrap().roster, roster, "it was left out");
    rig.check().await;
}

/// A replica whose disk fails is left out and the host notices nothing; after a restart it is back.
async fn a_failing_disk_costs_one_copy(fault: impl Fn(model::PoolId) -> Fault) {
    let mut rig = Rig::new(2).await;
    rig.whole().await;
    let other = rig.other(rig.seat().node);
    rig.fill().await;
    rig.begin();
    rig.inject(other, fault(pool_of(other))).await;
    rig.until("one copy", |seen| seen.is_serving && seen.healthy() == 1).await;
    rig.end().await;
    rig.check().await;
    rig.lose(other).await;
    rig.bring(other).await;
    rig.whole().await;
    rig.check_alone(other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_that_fail_on_one_replica_are_kept_by_the_other() {
    a_failing_disk_costs_one_copy(|pool| Fault::FailWrites { pool }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sync_that_fails_on_one_replica_fails_no_flush_of_the_host() {
    a_failing_disk_costs_one_copy(|pool| Fault::FailSyncs { pool }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_every_pool_is_full_the_host_is_told_and_keeps_what_was_taken() {
    let rig = Rig::on_disks_of(2, Bytes(40 << 20)).await;
    rig.whole().await;
    let error = rig.host.fill().await.unwrap_err();
    let told = format!("{error:#}");
    assert!(told.contains("CapacityExceeded"), "{told}");
    rig.check().await;
}
