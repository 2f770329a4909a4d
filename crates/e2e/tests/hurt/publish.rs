//! A publish that fails at some step leaves nothing behind, and is not tried again by itself.

use anyhow::Context as _;
use engine::InjectedFault as Fault;
use hyper::Method;
use model::{Publication, ReplicaId};

use super::*;

const WITHIN: Millis = Millis(4_000);

/// Publishes while something is broken; the reason that is recorded.
async fn fails(test: &Stage, within: Millis) -> String {
    test.publish_within("v", within).await;
    until("the failure", PATIENCE, || async {
        match test.asking.volume("v").await?.volume.layout.publication {
            Publication::Failed { reason, .. } => Ok(Some(reason)),
            Publication::Published { .. } => panic!("it was published"),
            _ => Ok(None),
        }
    })
    .await
    .unwrap()
}

/// Whole again: nothing of the attempt is left anywhere, it stays failed, and a new one succeeds.
async fn nothing_is_left(test: &Stage) {
    until("the end of the attempt", PATIENCE, || async {
        let layout = test.asking.volume("v").await?.volume.layout;
        let mut targets = 0;
        for number in 1..=3 {
            targets += test.inventory(number).await?.targets.len();
        }
        let is_over = layout.target.is_none()
            && layout.hosts.is_empty()
            && layout.old_targets.is_empty()
            && layout.switchover.is_none();
        let paths = host::Local::read(&test.run_folder())?.volumes.len();
        Ok((is_over && targets == 0 && paths == 0).then_some(()))
    })
    .await
    .unwrap();
    let publication = test.asking.volume("v").await.unwrap().volume.layout.publication;
    assert!(matches!(publication, Publication::Failed { .. }), "{publication:?}");
    bed::doctor(&test.cluster).unwrap();
    test.asking.publish("v").await.unwrap();
}

async fn inject(test: &Stage, fault: impl Fn(&Inventory) -> Option<Fault>) {
    for number in 1..=3 {
        let fault = fault(&test.inventory(number).await.unwrap()).context("nothing to break");
        let admin = test.cluster.admin(number).unwrap();
        let injected: Result<rest::Answer<serde_json::Value>, _> =
            admin.change(Method::POST, "/faults", None, Some(&fault.unwrap())).await;
        // It answers in plain words.
        assert!(!matches!(injected, Err(rest::ClientError::Refused(_))), "{injected:?}");
    }
}

async fn heal(test: &Stage) {
    inject(test, |_| Some(Fault::Heal)).await;
}

/// LC-4: the nodes of the replicas do not answer, so no epoch is admitted.
#[tokio::test(flavor = "multi_thread")]
async fn a_publish_without_nodes_fails_and_leaves_nothing() {
    let test = Stage::start().await;
    test.asking.make_volume("v", bed::SIZE, 3).await.unwrap();
    test.signal_engines(Signal::STOP);
    let reason = fails(&test, WITHIN).await;
    test.signal_engines(Signal::CONT);
    assert!(!reason.is_empty());
    nothing_is_left(&test).await;
}

/// LC-4: no replica can keep who may write to it, so the target is not built.
#[tokio::test(flavor = "multi_thread")]
async fn a_publish_on_disks_that_take_nothing_fails_and_leaves_nothing() {
    let test = Stage::start().await;
    test.asking.make_volume("v", bed::SIZE, 3).await.unwrap();
    inject(&test, |seen| seen.pools.keys().next().map(|pool| Fault::FailWrites { pool: *pool }))
        .await;
    let reason = fails(&test, WITHIN).await;
    let mut test = test;
    // What a pool refuses is not asked of it over and over.
    for member in test.engines() {
        let log = std::fs::read_to_string(test.cluster.folder.log(member)).unwrap();
        assert!(log.lines().count() < 300, "{log}");
    }
    heal(&test).await;
    assert!(!reason.is_empty());
    // A pool that could not be written is not trusted before it is imported anew.
    for member in test.engines() {
        test.cluster.kill(member).unwrap();
        test.cluster.start(member).unwrap();
    }
    nothing_is_left(&test).await;
}

/// LC-4: every replica admits the epoch, and the target has a session with none of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_publish_whose_target_reaches_no_replica_fails_and_leaves_nothing() {
    let test = Stage::start().await;
    test.asking.make_volume("v", bed::SIZE, 3).await.unwrap();
    let hide = |replica: &ReplicaId| Fault::HideReplica { replica: *replica };
    inject(&test, |seen| seen.replicas.keys().next().map(hide)).await;
    let reason = fails(&test, WITHIN).await;
    assert!(reason.contains("target"), "{reason}");
    heal(&test).await;
    nothing_is_left(&test).await;
}

/// LC-4: the target is ready, and cannot be given to the port that hosts reach.
#[tokio::test(flavor = "multi_thread")]
async fn a_publish_whose_target_cannot_be_exported_fails_and_leaves_nothing() {
    let test = Stage::start().await;
    test.asking.make_volume("v", bed::SIZE, 3).await.unwrap();
    let volume = test.asking.volume("v").await.unwrap().volume.meta.id;
    inject(&test, |_| Some(Fault::FailExport { volume })).await;
    // It is told at once, long before any deadline.
    let reason = fails(&test, Millis(60_000)).await;
    assert!(reason.contains("the target failed"), "{reason}");
    heal(&test).await;
    nothing_is_left(&test).await;
}

/// LC-4: the target serves, and the host makes no path.
#[tokio::test(flavor = "multi_thread")]
async fn a_publish_to_a_host_that_is_silent_fails_and_leaves_nothing() {
    let test = Stage::start().await;
    test.asking.make_volume("v", bed::SIZE, 3).await.unwrap();
    test.cluster.signal(Member::Host(1), Signal::STOP).unwrap();
    let reason = fails(&test, WITHIN).await;
    test.cluster.signal(Member::Host(1), Signal::CONT).unwrap();
    assert!(!reason.is_empty());
    nothing_is_left(&test).await;
}
