//! The controller dies at each stage of a switchover, and the next one goes on from there.

use super::*;

async fn dies_at(stage: &str) {
    let mut test = Stage::start_with(&["--allow-faults", "--die-at", stage]).await;
    let application = Application::start(test.attached("v", 3).await, tempo());
    let before = test.target("v").await.unwrap();
    let victim = test.engine(&before.node);
    test.cluster.kill(victim).unwrap();
    let end = std::time::Instant::now() + PATIENCE;
    let died = loop {
        let ended = test.cluster.ended().unwrap();
        if let Some((member, status)) = ended.first() {
            break (*member, *status);
        }
        assert!(std::time::Instant::now() < end, "no switchover was ever at {stage}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!((died.0, died.1.code()), (Member::Controller(1), None), "{}", died.1);
    test.cluster.binary.controller_words.clear();
    test.cluster.start(Member::Controller(1)).unwrap();
    let after = until("another target", PATIENCE, || async {
        let target = test.target("v").await?;
        let is_new = target.target.epoch > before.target.epoch && target.seen == "serving";
        Ok(is_new.then_some(target))
    })
    .await
    .unwrap();
    assert_ne!(after.node, before.node);
    test.cluster.start(victim).unwrap();
    test.healed().await;
    let (place, seen) = application.end(PATIENCE).unwrap();
    assert!(seen.writes > 0 && seen.devices_lost == 0, "{seen:?}");
    test.judge([place]).await;
}

/// HA-2, RS-4: a switchover that was only begun is resumed by the next controller.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_at_init_is_followed() {
    dies_at("init").await;
}

/// HA-2, HA-3: the epoch is raised, and nobody was told yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_at_republish_volume_is_followed() {
    dies_at("republish-volume").await;
}

/// HA-2, HA-4: the new target serves, and the host knows only the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_at_replace_path_is_followed() {
    dies_at("replace-path").await;
}

/// HA-2, HA-5: the old target is still in the records.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_at_delete_target_is_followed() {
    dies_at("delete-target").await;
}
