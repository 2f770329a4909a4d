//! The controller dies at each stage of a switchover, and the next one goes on from there.

use super::*;

/// On etcd the standby sees what the leader sees, and dies of it, too: nobody is left.
async fn dies_at(store: Store, stage: &str) {
    let mut test = Stage::start_with(store, &["--allow-faults", "--die-at", stage]).await;
    let application = Application::start(test.attached("v", 3).await, tempo());
    let before = test.target("v").await.unwrap();
    let victim = test.engine(&before.node);
    test.cluster.kill(victim).unwrap();
    until("the death of every controller", PATIENCE, {
        let mut left = test.controllers();
        let cluster = &mut test.cluster;
        move || {
            for (member, status) in cluster.ended().unwrap() {
                assert!(left.contains(&member) && status.code().is_none(), "{member}: {status}");
                left.retain(|other| *other != member);
            }
            std::future::ready(Ok(left.is_empty().then_some(())))
        }
    })
    .await
    .unwrap();
    test.cluster.binary.controller_words.clear();
    for controller in test.controllers() {
        test.cluster.start(controller).unwrap();
    }
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

async fn dies_on_etcd_at(stage: &str) {
    if conformance::etcd::installed("controllers on etcd that die").is_some() {
        dies_at(Store::Etcd, stage).await;
    }
}

/// HA-2, RS-4: a switchover that was only begun is resumed by the next controller.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_at_init_is_followed() {
    dies_at(Store::Embedded, "init").await;
}

/// HA-2, HA-3: the epoch is raised, and nobody was told yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_at_republish_volume_is_followed() {
    dies_at(Store::Embedded, "republish-volume").await;
}

/// HA-2, HA-4: the new target serves, and the host knows only the old one.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_at_replace_path_is_followed() {
    dies_at(Store::Embedded, "replace-path").await;
}

/// HA-2, HA-5: the old target is still in the records.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_dies_at_delete_target_is_followed() {
    dies_at(Store::Embedded, "delete-target").await;
}

/// HA-2, RS-4, ST-4: on etcd, where a lease must end before anybody goes on.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_on_etcd_that_die_at_init_are_followed() {
    dies_on_etcd_at("init").await;
}

/// HA-2, HA-3: on etcd.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_on_etcd_that_die_at_republish_volume_are_followed() {
    dies_on_etcd_at("republish-volume").await;
}

/// HA-2, HA-4: on etcd.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_on_etcd_that_die_at_replace_path_are_followed() {
    dies_on_etcd_at("replace-path").await;
}

/// HA-2, HA-5: on etcd.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_on_etcd_that_die_at_delete_target_are_followed() {
    dies_on_etcd_at("delete-target").await;
}
