//! Only the leader changes things.

use axum::http::Method;
use rest::{Answer, NodeShown};
use serde_json::Value;

use super::{Bench, SCENE, refused};

const CORDON: &str = "/v1/nodes/a/cordon";

/// ST-4: a standby answers reads and passes changes on.
#[tokio::test]
async fn a_standby_passes_changes_on_to_the_leader() {
    let leader = Bench::new(SCENE).start().await;
    let address = format!("http://{}", leader.address);
    let standby = Bench::new(SCENE).led_by(Some(address)).start().await;
    let changed = standby.client.change::<(), NodeShown>(Method::PUT, CORDON, None, None).await;
    let Ok(Answer::Done(node)) = changed else { panic!("not done: {changed:?}") };
    assert!(node.node.spec.cordoned);
    let at_leader: NodeShown = leader.client.get("/v1/nodes/a").await.unwrap();
    assert!(at_leader.node.spec.cordoned);
    // Refusals come back as they are, with their codes.
    let path = "/v1/nodes/x/cordon";
    let lost = standby.client.change::<(), Value>(Method::PUT, path, None, None).await;
    assert_eq!(&*refused(lost).code, "not-found");
    assert_eq!(standby.client.text("/readyz").await.unwrap(), "standing by\n");
}

#[tokio::test]
async fn without_a_leader_changes_are_refused_with_a_code() {
    let alone = Bench::new(SCENE).led_by(None).start().await;
    let result = alone.client.change::<(), Value>(Method::PUT, CORDON, None, None).await;
    assert_eq!(
        (&*refused(result).code, alone.client.text("/readyz").await.is_err()),
        ("not-leading", true)
    );
    // A leader that is not there is named.
    let away = "http://127.0.0.1:1".to_owned();
    let standby = Bench::new(SCENE).led_by(Some(away.clone())).start().await;
    let result = standby.client.change::<(), Value>(Method::PUT, CORDON, None, None).await;
    assert_eq!(refused(result).leader.as_deref(), Some(away.as_str()));
}

#[tokio::test]
async fn two_standbys_do_not_pass_a_change_to_and_fro() {
    let first = Bench::new(SCENE).led_by(None).start().await;
    let to_first = format!("http://{}", first.address);
    let second = Bench::new(SCENE).led_by(Some(to_first)).start().await;
    let result = second.client.change::<(), Value>(Method::PUT, CORDON, None, None).await;
    assert_eq!(&*refused(result).code, "not-leading");
}
