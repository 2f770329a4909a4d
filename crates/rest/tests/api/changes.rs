//! What can be asked for, and what is refused.

use axum::http::Method;
use model::{Bytes, VolumeSpec};
use rest::{
    Answer, ClientError, Health, NodeShown, PoolPut, PoolShown, Preview, Problem, PublicationPut,
    SnapshotPut, SnapshotShown, VolumePut, VolumeShown,
};
use serde_json::{Value, json};

use super::{Bench, SCENE, Server, refused};

type Changed = Result<Answer<VolumeShown>, ClientError>;

fn put(size: u64, replicas: u8) -> VolumePut {
    let spec = VolumeSpec { size: Bytes::gib(size), replicas, ..VolumeSpec::default() };
    VolumePut { id: None, labels: [].into(), spec }
}

async fn put_volume(server: &Server, path: &str, put: &VolumePut) -> Changed {
    server.client.change(Method::PUT, path, None, Some(put)).await
}

async fn raw(server: &Server, method: Method, path: &str, body: Value) -> Problem {
    refused(server.client.change::<Value, Value>(method, path, None, Some(&body)).await)
}

fn done<T: std::fmt::Debug>(result: Result<Answer<T>, ClientError>) -> T {
    match result {
        Ok(Answer::Done(shown)) => shown,
        other => panic!("not done: {other:?}"),
    }
}

/// LC-1, LC-7: a repeated identical request succeeds and changes nothing.
#[tokio::test]
async fn a_volume_is_made_once_however_often_it_is_put() {
    let server = Bench::new(SCENE).start().await;
    let first = done(put_volume(&server, "/v1/volumes/w?wait=available", &put(1, 3)).await);
    assert_eq!(first.volume.layout.replicas.len(), 3);
    let again = done(put_volume(&server, "/v1/volumes/w", &put(1, 3)).await);
    assert_eq!(again.volume.meta.id, first.volume.meta.id);
    assert_eq!(again.volume.meta.spec_revision, first.volume.meta.spec_revision);
    let mut other = put(1, 3);
    other.spec.thin = true;
    let problem = refused(put_volume(&server, "/v1/volumes/w", &other).await);
    assert_eq!((&*problem.code, problem.errors[0].field.as_str()), ("conflict", "spec.thin"));
}

/// LC-7: `If-None-Match: *` makes a thing or leaves it as it is, and says which.
#[tokio::test]
async fn a_create_makes_a_volume_or_leaves_it_as_it_is() {
    let server = Bench::new(SCENE).start().await;
    let create = |name: &'static str, put: VolumePut| {
        let client = server.client.clone();
        async move { client.create::<_, VolumeShown>(&format!("/v1/volumes/{name}"), &put).await }
    };
    done(create("w", put(1, 3)).await);
    let again = create("w", put(1, 3)).await;
    assert!(matches!(again, Ok(Answer::Unchanged(_))), "{again:?}");
    let problem = refused(create("w", put(2, 1)).await);
    assert_eq!((&*problem.code, problem.status), ("exists", 409));
    let named: Vec<&str> = problem.errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(named, ["spec.replicas", "spec.size"]);
    assert_eq!(problem.errors[0].detail, "it is 3, not 1");
    let other = VolumePut { id: Some(model::VolumeId::from_u128(9)), ..put(1, 3) };
    assert_eq!(&*refused(create("w", other).await).code, "name-taken");
    let shown: VolumeShown = server.client.get("/v1/volumes/w").await.unwrap();
    assert_eq!((shown.volume.spec.replicas, shown.volume.spec.size), (3, Bytes::gib(1)));
}

/// LC-7: a stale revision of the spec is told from one that is not.
#[tokio::test]
async fn a_change_on_a_stale_revision_is_refused() {
    let server = Bench::new(SCENE).start().await;
    let path = "/v1/volumes/v";
    let shown: VolumeShown = server.client.get(path).await.unwrap();
    let now = shown.volume.meta.spec_revision;
    let ask = |revision, size| {
        let client = server.client.clone();
        async move {
            let put = put(size, 2);
            client.change::<_, VolumeShown>(Method::PUT, path, Some(revision), Some(&put)).await
        }
    };
    assert_eq!(&*refused(ask(now + 5, 20).await).code, "stale-revision");
    let grown = done(ask(now, 20).await);
    assert_eq!(grown.volume.spec.size, Bytes::gib(20));
    assert_eq!(&*refused(ask(now, 30).await).code, "stale-revision");
    // What differs may be somebody else's change: that is told first.
    let client = &server.client;
    let both = client.change::<_, Value>(Method::PUT, path, Some(now), Some(&put(10, 1))).await;
    assert_eq!(&*refused(both).code, "stale-revision");
    let lost = "/v1/volumes/w";
    let new = client.change::<_, Value>(Method::PUT, lost, Some(1), Some(&put(10, 1))).await;
    assert_eq!(&*refused(new).detail, "there is no volume \"w\"");
}

#[tokio::test]
async fn size_and_replicas_change_one_at_a_time() {
    let server = Bench::new(SCENE).start().await;
    let path = "/v1/volumes/v?wait=healthy";
    assert_eq!(
        done(put_volume(&server, path, &put(20, 2)).await).volume.layout.exposed.0,
        20 << 30
    );
    let scaled = done(put_volume(&server, path, &put(20, 3)).await);
    assert_eq!(scaled.status.healthy_copies, 3);
    assert_eq!(&*refused(put_volume(&server, path, &put(30, 2)).await).code, "invalid");
    assert_eq!(&*refused(put_volume(&server, path, &put(10, 3)).await).code, "invalid");
}

/// LC-4: published, seen, and taken away again.
#[tokio::test]
async fn a_volume_is_published_to_a_host_by_name_and_taken_away() {
    let server = Bench::new(SCENE).start().await;
    let body = PublicationPut { hosts: vec!["h".into()], ..PublicationPut::default() };
    let path = "/v1/volumes/v/publication?wait=available&timeout=5s";
    let shown: VolumeShown = done(server.client.change(Method::PUT, path, None, Some(&body)).await);
    assert!(shown.status.available && shown.volume.layout.target.is_some());
    let path = "/v1/volumes/v/publication/h";
    let shown: VolumeShown =
        done(server.client.change::<(), _>(Method::DELETE, path, None, None).await);
    assert_eq!(shown.volume.spec.publish, None);
    let body = PublicationPut { hosts: vec!["nobody".into()], ..PublicationPut::default() };
    let path = "/v1/volumes/v/publication";
    let lost = server.client.change::<_, Value>(Method::PUT, path, None, Some(&body)).await;
    assert_eq!(&*refused(lost).code, "not-found");
}

#[tokio::test]
async fn a_deleted_volume_is_gone_and_its_name_is_free() {
    let server = Bench::new(SCENE).start().await;
    let gone: Answer<VolumeShown> = server
        .client
        .change::<(), _>(Method::DELETE, "/v1/volumes/v?wait=gone", None, None)
        .await
        .unwrap();
    assert_eq!(gone, Answer::Gone);
    done(put_volume(&server, "/v1/volumes/v", &put(1, 1)).await);
}

#[tokio::test]
async fn pools_and_snapshots_are_made_and_deleted() {
    let server = Bench::new(SCENE).start().await;
    let body =
        PoolPut { id: None, labels: [].into(), node: "c".into(), disks: vec!["/dev/y".into()] };
    let path = "/v1/pools/c2?wait=available";
    let pool: PoolShown = done(server.client.change(Method::PUT, path, None, Some(&body)).await);
    assert_eq!((pool.node.as_str(), pool.status.status.health), ("c", Health::Healthy));
    let again: PoolShown = done(server.client.change(Method::PUT, path, None, Some(&body)).await);
    assert_eq!(again.pool.meta.id, pool.pool.meta.id);
    let body = SnapshotPut { id: None, volume: "v".into(), attempt: None, within: None };
    let path = "/v1/snapshots/s1?wait=available";
    let shown: SnapshotShown =
        done(server.client.change(Method::PUT, path, None, Some(&body)).await);
    assert_eq!((shown.volume.as_str(), shown.status.health), ("v", Health::Healthy));
    let again = server.client.change::<_, Value>(Method::PUT, path, None, Some(&body)).await;
    assert_eq!(&*refused(again).code, "conflict");
    let same = SnapshotPut { attempt: Some(shown.snapshot.spec.attempt), ..body };
    let again: SnapshotShown =
        done(server.client.change(Method::PUT, path, None, Some(&same)).await);
    assert_eq!(again.snapshot.meta.id, shown.snapshot.meta.id);
    let path = "/v1/snapshots/s1?wait=gone";
    let gone = server.client.change::<(), SnapshotShown>(Method::DELETE, path, None, None).await;
    assert_eq!(gone.unwrap(), Answer::Gone);
}

/// LC-6: the refusal names what uses it.
#[tokio::test]
async fn a_pool_in_use_is_not_deleted() {
    let server = Bench::new(SCENE).start().await;
    let result =
        server.client.change::<(), Value>(Method::DELETE, "/v1/pools/a1", None, None).await;
    let problem = refused(result);
    assert_eq!((&*problem.code, problem.status), ("in-use", 409));
    assert!(problem.detail.contains('v'), "{problem}");
}

/// HA-8.
#[tokio::test]
async fn a_node_is_cordoned_drained_and_taken_back() {
    let server = Bench::new(SCENE).start().await;
    let change = |method, path: &'static str| {
        let client = server.client.clone();
        async move { done(client.change::<(), NodeShown>(method, path, None, None).await) }
    };
    assert!(change(Method::PUT, "/v1/nodes/a/cordon").await.node.spec.cordoned);
    assert!(!change(Method::DELETE, "/v1/nodes/a/cordon").await.node.spec.cordoned);
    let drained = change(Method::PUT, "/v1/nodes/a/drain?wait=drained").await;
    assert_eq!((drained.status.replicas, drained.node.spec.draining), (0, true));
    assert!(!change(Method::DELETE, "/v1/nodes/a/drain").await.node.spec.draining);
}

/// OP-2 in part: the preview says which volumes lose a copy, and nothing is done.
#[tokio::test]
async fn a_dry_run_tells_steps_and_impact_and_does_nothing() {
    let server = Bench::new(
        "node a dead gone=1s; node b c; pool a1 b1 c1 100G; \
         volume v 10G x2: a1 healthy, b1 healthy",
    )
    .start()
    .await;
    let path = "/v1/nodes/a/forget?dry-run=true";
    let preview = server.client.change::<(), NodeShown>(Method::POST, path, None, None).await;
    let Ok(Answer::Preview(preview)) = preview else { panic!("no preview: {preview:?}") };
    let Preview { impact, steps, .. } = *preview;
    assert_eq!((impact[0].volume.as_str(), impact[0].copies_before), ("v", 2));
    assert_eq!((impact[0].copies_after, impact[0].copied), (1, Bytes::gib(10)));
    assert!(!steps.is_empty());
    let node: NodeShown = server.client.get("/v1/nodes/a").await.unwrap();
    assert!(!node.node.spec.forgotten);
}

#[tokio::test]
async fn a_change_whose_plan_is_not_the_one_that_was_shown_is_refused() {
    let server = Bench::new(SCENE).start().await;
    let dry = "/v1/nodes/a/drain?dry-run=true";
    let preview = server.client.change::<(), NodeShown>(Method::PUT, dry, None, None).await;
    let Ok(Answer::Preview(preview)) = preview else { panic!("no preview: {preview:?}") };
    let other = "/v1/nodes/a/drain?if-plan=0123456789abcdef";
    let problem = refused(server.client.change::<(), Value>(Method::PUT, other, None, None).await);
    assert_eq!(&*problem.code, "plan-changed");
    let same = format!("/v1/nodes/a/drain?if-plan={}", preview.plan);
    let drained = server.client.change::<(), NodeShown>(Method::PUT, &same, None, None).await;
    assert!(done(drained).node.spec.draining);
}

#[tokio::test]
async fn bad_requests_are_told_what_is_wrong_and_change_nothing() {
    let server = Bench::new(SCENE).start().await;
    let spec = |spec: Value| json!({ "spec": spec });
    let cases = [
        (json!(7), "invalid"),
        (json!({}), "invalid"),
        (spec(json!({ "size": 1, "replicas": 2 })), "invalid"),
        (spec(json!({ "size": 1_u64 << 30, "replicas": 0 })), "invalid"),
        (spec(json!({ "size": 1_u64 << 30, "replicas": 300 })), "invalid"),
        (spec(json!({ "size": -1, "replicas": 2 })), "invalid"),
        (spec(json!({ "size": 1_u64 << 30, "replicas": 2, "replica": 3 })), "invalid"),
        (spec(json!({ "size": 1_u64 << 30, "replicas": 4 })), "impossible"),
        (json!({ "spec": { "size": 1_u64 << 30, "replicas": 1 }, "x": 1 }), "invalid"),
    ];
    for (body, code) in cases {
        let problem = raw(&server, Method::PUT, "/v1/volumes/w", body.clone()).await;
        assert_eq!(&*problem.code, code, "{body}: {problem}");
    }
    let good = spec(json!({ "size": 1_u64 << 30, "replicas": 1 }));
    let problem = raw(&server, Method::PUT, "/v1/volumes/No_Name", good).await;
    assert_eq!(problem.errors[0].field, "meta.name");
    let promote = json!({ "accept_data_loss": false });
    let problem = raw(&server, Method::POST, "/v1/volumes/v/promote", promote).await;
    assert_eq!(problem.errors[0].field, "accept_data_loss");
    let problem = raw(&server, Method::PUT, "/v1/nodes/a/cordon", json!({})).await;
    assert_eq!(&*problem.code, "bad-request");
    let large = json!({ "x": "y".repeat(300_000) });
    let problem = raw(&server, Method::PUT, "/v1/volumes/w", large).await;
    assert_eq!(&*problem.code, "too-large");
    let lost: Result<VolumeShown, _> = server.client.get("/v1/volumes/w").await;
    assert_eq!(&*refused(lost).code, "not-found");
}

/// LC-7: what is changed by more than one hand has a revision, whatever its kind.
#[tokio::test]
async fn a_stale_revision_of_a_node_or_a_pool_is_refused() {
    let server = Bench::new(SCENE).start().await;
    let shown: NodeShown = server.client.get("/v1/nodes/a").await.unwrap();
    let now = shown.node.meta.spec_revision;
    let label = |revision, zone: &str| {
        let (client, body) = (server.client.clone(), json!({ "zone": zone }));
        async move {
            let path = "/v1/nodes/a/labels";
            client.change::<_, NodeShown>(Method::PUT, path, Some(revision), Some(&body)).await
        }
    };
    assert_eq!(done(label(now, "x").await).node.meta.labels["zone"], "x");
    assert_eq!(&*refused(label(now, "y").await).code, "stale-revision");
    let change = |verb, path: &'static str| {
        let client = server.client.clone();
        async move { refused(client.change::<(), Value>(verb, path, Some(99), None).await) }
    };
    assert_eq!(&*change(Method::DELETE, "/v1/pools/c1").await.code, "stale-revision");
    assert_eq!(&*change(Method::PUT, "/v1/nodes/b/cordon").await.code, "stale-revision");
    assert_eq!(&*change(Method::DELETE, "/v1/pools/nothing").await.code, "not-found");
}

#[tokio::test]
async fn what_other_routes_give_a_volume_is_not_given_at_its_birth() {
    let server = Bench::new(SCENE).start().await;
    let mut early = put(1, 1);
    early.spec.deleting = true;
    let problem = refused(put_volume(&server, "/v1/volumes/w", &early).await);
    assert_eq!(problem.errors[0].field, "spec.deleting");
    assert!(server.client.get::<Value>("/v1/volumes/w").await.is_err());
}

/// HA-8: a drain tells beforehand which volumes it moves, and that no copy is missing meanwhile.
#[tokio::test]
async fn a_dry_run_of_a_drain_tells_what_moves() {
    let server = Bench::new(SCENE).start().await;
    let path = "/v1/nodes/a/drain?dry-run=true";
    let asked = server.client.change::<(), Value>(Method::PUT, path, None, None).await;
    let Ok(Answer::Preview(preview)) = asked else { panic!("{asked:?}") };
    let impact = &preview.impact[0];
    assert_eq!((impact.volume.as_str(), impact.copied), ("v", Bytes::gib(10)));
    assert_eq!((impact.copies_before, impact.copies_after), (2, 2));
}
