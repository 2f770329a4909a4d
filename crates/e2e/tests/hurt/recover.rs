//! A controller on a store that knows less than the pools.

use std::{collections::BTreeSet, fs};

use model::ReplicaId;
use rest::{ClusterShown, VolumeShown};

use super::*;

impl Stage {
    /// Every replica on every node.
    async fn replicas(&self) -> BTreeSet<ReplicaId> {
        let mut all = BTreeSet::new();
        for number in 1..=3 {
            all.extend(self.inventory(number).await.unwrap().replicas.into_keys());
        }
        all
    }

    /// The store as it is: its controller does not run meanwhile.
    fn back_up(&mut self, to: &str) {
        self.cluster.kill(Member::Controller(1)).unwrap();
        self.must(&["store", "backup", &self.store(), to]);
        self.cluster.start(Member::Controller(1)).unwrap();
    }

    fn store(&self) -> String {
        self.cluster.folder.path.join("store").to_str().unwrap().to_owned()
    }

    /// The controller says that it changes nothing, why, and what to do.
    async fn is_read_only(&self) {
        let why = until("a controller that is read-only", PATIENCE, || async {
            let shown: ClusterShown = self.asking.get("/v1/cluster").await?;
            Ok(shown.read_only)
        })
        .await
        .unwrap();
        assert!(!why.is_empty());
        // It leads a moment later.
        until("a refusal", PATIENCE, || async {
            let words = ["create", "volume", "x", "--size", "8MiB", "--server"];
            let (said, well) = self.say(&[&words[..], &[&self.cluster.url()]].concat());
            assert!(!well, "{said}");
            Ok(said.contains("holdfast recover").then_some(()))
        })
        .await
        .unwrap();
    }

    async fn recover(&self) {
        // Pools that are not heard yet have nothing to give.
        until("a recovery", PATIENCE, || async {
            let shown: ClusterShown = self.asking.get("/v1/cluster").await?;
            if shown.read_only.is_none() {
                return Ok(Some(()));
            }
            self.say(&["recover", "--server", &self.cluster.url()]);
            Ok(None)
        })
        .await
        .unwrap();
    }

    async fn volumes(&self) -> BTreeSet<String> {
        let all: Vec<VolumeShown> = self.asking.all("/v1/volumes").await.unwrap();
        all.into_iter().map(|shown| shown.volume.meta.name).collect()
    }
}

/// M-23, OP-4: on a store that was restored from an old backup nothing is destroyed; the controller
/// is read-only and says so; a recovery brings back what the backup never knew, with its data.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_from_an_old_backup_destroys_nothing_and_recover_brings_all_back() {
    let mut test = Stage::start().await;
    let first = test.attached("first", 3).await;
    let backup = test.cluster.folder.path.join("backup");
    test.back_up(backup.to_str().unwrap());
    test.healed().await;
    let second = test.attached("second", 2).await;
    let before = test.replicas().await;
    assert_eq!(before.len(), 5);

    test.cluster.kill(Member::Controller(1)).unwrap();
    fs::remove_dir_all(test.store()).unwrap();
    test.must(&["store", "restore", backup.to_str().unwrap(), &test.store()]);
    test.cluster.start(Member::Controller(1)).unwrap();
    test.is_read_only().await;
    assert_eq!(test.replicas().await, before);
    test.recover().await;
    assert_eq!(test.volumes().await, ["first", "second"].map(str::to_owned).into());
    test.judge([first, second]).await;
    assert_eq!(test.replicas().await, before);
}

/// M-18, M-23, OP-5: the store is gone; everything comes back from what the pools carry.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_store_destroys_nothing_and_recover_brings_all_back() {
    let mut test = Stage::start().await;
    let (first, second) = (test.attached("first", 3).await, test.attached("second", 2).await);
    let before = test.replicas().await;

    test.cluster.kill(Member::Controller(1)).unwrap();
    fs::remove_dir_all(test.store()).unwrap();
    test.cluster.start(Member::Controller(1)).unwrap();
    test.is_read_only().await;
    assert_eq!(test.replicas().await, before);
    test.recover().await;
    until("the volumes", PATIENCE, || async {
        Ok((test.volumes().await.len() == 2).then_some(()))
    })
    .await
    .unwrap();
    test.judge([first, second]).await;
    assert_eq!(test.replicas().await, before);
}
