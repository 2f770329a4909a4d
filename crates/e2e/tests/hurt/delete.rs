//! Deleting while a node is gone for ever.

use hyper::Method;
use rest::Answer;

use super::*;

/// M-07, LC-5: deleting a volume succeeds at once although a node with a copy is gone; the name can
/// be used again; when the node returns after all, its old copy is collected and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_deleted_without_the_node_that_is_gone_and_its_return_collects_the_leftover() {
    let mut test = Stage::start().await;
    let old = test.attached("v", 3).await.volume;
    let path = format!("/v1/volumes/v/publication/{}", Member::Host(1));
    test.asking.change(Method::DELETE, &path, None::<&()>).await.unwrap();
    until("the host to leave", PATIENCE, || async {
        let layout = test.asking.volume("v").await?.volume.layout;
        Ok((layout.hosts.is_empty() && layout.target.is_none()).then_some(()))
    })
    .await
    .unwrap();
    let before = test.inventory(3).await.unwrap().replicas;
    assert_eq!(before.len(), 1);
    test.cluster.kill(Member::Engine(3)).unwrap();

    let asked = std::time::Instant::now();
    let deleted =
        test.asking.change(Method::DELETE, "/v1/volumes/v?wait=gone&timeout=10s", None::<&()>);
    assert_eq!(deleted.await.unwrap(), Answer::Gone);
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let place = test.attached("v", 2).await;
    assert_ne!(place.volume, old);

    test.cluster.start(Member::Engine(3)).unwrap();
    until("the leftover to go", PATIENCE, || async {
        let replicas = test.inventory(3).await?.replicas;
        Ok(replicas.keys().all(|id| !before.contains_key(id)).then_some(()))
    })
    .await
    .unwrap();
    test.judge([place]).await;
}
