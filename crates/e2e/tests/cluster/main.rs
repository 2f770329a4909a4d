//! Whole engines in one process: every machine of the data plane meets the others here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod flip;
mod rig;

use e2e::plan::{node, pool_of, replica_of};
use engine::InjectedFault as Fault;
use model::Bytes;
use nvme::Code;
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

#[tokio::test(flavor = "multi_thread")]
async fn what_a_host_reserved_goes_with_the_volume_to_another_target() {
    let mut rig = Rig::new(2).await;
    rig.whole().await;
    let first = rig.seat().node;
    rig.reserve(7).await;
    assert_eq!(rig.write_as(8).await, Err(Code::ReservationConflict));
    rig.lose(first).await;
    rig.until("a successor", move |s| s.is_serving && s.seat.is_some_and(|s| s.node != first))
        .await;
    assert_eq!(rig.write_as(8).await, Err(Code::ReservationConflict));
    assert_eq!(rig.write_as(7).await, Ok(()));
    // Every engine starts anew.
    let second = rig.other(first);
    rig.bring(first).await;
    rig.whole().await;
    rig.lose(first).await;
    rig.lose(second).await;
    rig.bring(first).await;
    rig.bring(second).await;
    rig.whole().await;
    assert_eq!(rig.write_as(8).await, Err(Code::ReservationConflict));
    assert_eq!(rig.write_as(7).await, Ok(()));
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
    let rig = Rig::on_disks_of(&[Bytes(40 << 20); 2]).await;
    rig.whole().await;
    let error = rig.host.fill().await.unwrap_err();
    let told = format!("{error:#}");
    assert!(told.contains("CapacityExceeded"), "{told}");
    rig.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_pool_is_full_the_host_notices_nothing_and_the_other_has_everything() {
    for small in [0, 1] {
        let mut sizes = [Bytes(128 << 20); 2];
        sizes[small] = Bytes(40 << 20);
        let rig = Rig::on_disks_of(&sizes).await;
        rig.whole().await;
        rig.fill().await;
        let seen = rig.until("one copy", |seen| seen.is_serving && seen.healthy() == 1).await;
        let record = seen.record.unwrap();
        assert!(record.is_healthy(replica_of(node(1 - small))));
        rig.begin();
        rig.end().await;
        rig.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_fail_on_the_local_copy_are_answered_by_the_other() {
    let rig = Rig::new(2).await;
    rig.whole().await;
    rig.fill().await;
    let local = pool_of(rig.seat().node);
    rig.begin();
    let fault = Fault::FailReads { pool: local, offset: 0, len: u64::MAX };
    rig.inject(rig.seat().node, fault).await;
    rig.end().await;
    rig.check().await;
    rig.inject(rig.seat().node, Fault::Heal).await;
    rig.whole().await;
    rig.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bits_that_flip_between_engines_reach_no_disk_and_no_host() {
    let mut rig = Rig::new(2).await;
    rig.whole().await;
    rig.fill().await;
    let other = rig.other(rig.seat().node);
    let wire = rig.wires[rig.at(other)].clone();
    let before = wire.flipped();
    wire.flip_every(3_000_001);
    for _ in 0..5 {
        rig.begin();
        rig.end().await;
    }
    wire.flip_every(0);
    assert!(wire.flipped() > before, "nothing was flipped");
    rig.whole().await;
    rig.check().await;
    for alone in [node(0), node(1)] {
        rig.check_alone(alone).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_tables_rot_is_repaired_or_refused_and_never_served_wrong() {
    let mut rig = Rig::new(2).await;
    rig.whole().await;
    rig.fill().await;
    let other = rig.other(rig.seat().node);
    rig.lose(other).await;
    rig.until("one copy", |seen| seen.is_serving && seen.healthy() == 1).await;
    rig.begin();
    // Both superblocks, the journal and the tables: nothing of it is what it was.
    rig.damage(other, 20 << 20, 4096);
    rig.bring(other).await;
    rig.end().await;
    rig.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_has_not_fenced_hears_nothing_but_that_it_is_stale() {
    const GET_STATE: u8 = 0xc2;
    const ALLOC_MAP: u8 = 0xc6;
    let rig = Rig::new(2).await;
    rig.whole().await;
    let other = rig.other(rig.seat().node);
    for opcode in [GET_STATE, ALLOC_MAP] {
        assert_eq!(rig.ask_unfenced(other, opcode).await, Err(Code::ReservationConflict));
    }
    rig.whole().await;
}
