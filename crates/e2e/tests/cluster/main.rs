//! Whole engines in one process: every machine of the data plane meets the others here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod rig;

use e2e::plan::node;
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
