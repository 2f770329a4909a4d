//! What is shown.

use axum::http::Method;
use fixtures::{Lab, Scene};
use rest::{
    Answer, ClusterShown, EventShown, Health, NodeShown, Page, PoolShown, ReplicaShown,
    VolumeShown, Why,
};
use serde_json::Value;

use super::{Bench, SCENE, refused};

/// LC-8: what is stored is shown as it is, with what is seen of it.
#[tokio::test]
async fn a_volume_is_shown_as_it_is_stored_with_its_health() {
    let server = Bench::new(SCENE).start().await;
    let shown: VolumeShown = server.client.get("/v1/volumes/v").await.unwrap();
    assert_eq!(shown.volume.meta.name, "v");
    assert_eq!(shown.volume.layout.replicas.len(), 2);
    assert_eq!((shown.status.status.health, shown.status.available), (Health::Healthy, true));
    let by_id: VolumeShown =
        server.client.get(&format!("/v1/volumes/{}", shown.volume.meta.id)).await.unwrap();
    assert_eq!(by_id, shown);
}

#[tokio::test]
async fn lists_come_in_pages_that_join_without_gap() {
    let server = Bench::new(SCENE).start().await;
    let first: Page<NodeShown> = server.client.get("/v1/nodes?limit=2").await.unwrap();
    let names: Vec<_> = first.items.iter().map(|node| node.node.meta.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let path = format!("/v1/nodes?limit=2&after={}", first.next.unwrap());
    let second: Page<NodeShown> = server.client.get(&path).await.unwrap();
    assert_eq!(second.items[0].node.meta.name, "c");
    assert_eq!((second.items.len(), second.next), (1, None));
    let all: Vec<NodeShown> = server.client.all("/v1/nodes").await.unwrap();
    assert_eq!(all.len(), 3);
}

#[tokio::test]
async fn parts_of_volumes_are_lists_of_their_own() {
    let server = Bench::new(SCENE).start().await;
    let replicas: Vec<ReplicaShown> = server.client.all("/v1/replicas").await.unwrap();
    let homes: Vec<_> = replicas.iter().map(|r| (r.pool.as_str(), r.healthy)).collect();
    assert_eq!(replicas.len(), 2);
    assert!(homes.contains(&("a1", true)) && homes.contains(&("b1", true)), "{homes:?}");
    let id = replicas[0].replica.id;
    let one: ReplicaShown = server.client.get(&format!("/v1/replicas/{id}")).await.unwrap();
    assert_eq!(one, replicas[0]);
    let pools: Vec<PoolShown> = server.client.all("/v1/pools").await.unwrap();
    assert_eq!(pools[0].status.replicas, 1);
    for kind in ["targets", "shares", "switchovers", "snapshots"] {
        let none: Page<Value> = server.client.get(&format!("/v1/{kind}")).await.unwrap();
        assert_eq!(none.items, Vec::<Value>::new(), "{kind}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_a_problem_with_a_code() {
    let server = Bench::new(SCENE).start().await;
    let get = |path: &'static str| {
        let client = server.client.clone();
        async move { refused(client.get::<Value>(path).await) }
    };
    assert_eq!(get("/v1/volumes/w").await.code.as_ref(), "not-found");
    assert_eq!(get("/v1/moons").await.code.as_ref(), "no-such-route");
    assert_eq!(get("/v1/recover").await.code.as_ref(), "method-not-allowed");
    assert_eq!(get("/v1/nodes?limit=0").await.errors[0].field, "limit");
    assert_eq!(get("/v1/nodes?lmit=5").await.errors[0].field, "lmit");
    assert_eq!(get("/v1/nodes?labels=a").await.errors[0].field, "labels");
    assert_eq!(get("/v1/volumes/v?wait=rich").await.errors[0].field, "wait");
    assert_eq!(get("/v1/why/moon/v").await.errors[0].field, "kind");
}

#[tokio::test]
async fn why_names_the_machine_behind_a_wait_and_the_next_step() {
    let scene = "node a b; node c dead; pool a1 b1 c1 100G; host h; \
                 volume v 10G x2: c1 healthy, a1 faulted";
    let server = Bench::new(scene).start().await;
    let why: Why = server.client.get("/v1/why/volume/v").await.unwrap();
    let text = serde_json::to_string(&why).unwrap();
    assert!(text.contains("node c does not answer"), "{text}");
    assert!(text.contains("holdfast forget node c"), "{text}");
}

/// HA-8: a drain that cannot go on names the volume, what holds it up, and the way out.
#[tokio::test]
async fn why_a_node_is_not_drained_yet_names_the_volumes_it_waits_for() {
    let why = |scene: &'static str| async move {
        let server = Bench::new(scene).start().await;
        let why: Why = server.client.get("/v1/why/node/a").await.unwrap();
        why.causes
    };
    let stuck = "node a draining; node b c; pool a1 b1 c1 100G; host h; \
                 volume v 10G x3 publish=h on=b: a1, b1, c1; volume w 10G x2: b1, c1";
    let causes = why(stuck).await;
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!(causes[0].words, "the drain waits for volume v, which has a copy here");
    let next = causes[0].next_step.as_deref().unwrap_or_default();
    assert!(next.contains("holdfast scale v --replicas 2"), "{next}");
    let behind = &causes[0].because[0].words;
    assert!(behind.contains("no pool can take another replica"), "{behind}");

    let done = "node a draining; node b c; pool a1 b1 c1 100G; volume v 10G x2: b1, c1";
    let causes = why(done).await;
    assert!(causes[0].words.contains("it is drained"), "{causes:?}");
}

/// OP-5: what a recovery would bring back, and what it would leave out, is told beforehand.
#[tokio::test]
async fn a_dry_run_of_a_recovery_lists_what_it_would_write() {
    let old = "node a b c; pool a1 b1 c1; volume v 1G x2: a1, b1; volume w 1G x1: c1";
    let scene = Scene::new(old).with_store_lost(&["a", "c"]);
    let server = Bench::of(Lab::from(scene)).start().await;
    let path = "/v1/recover?dry-run=true";
    let body = serde_json::json!({});
    let asked = server.client.change::<_, Value>(Method::POST, path, None, Some(&body)).await;
    let Ok(Answer::Preview(preview)) = asked else { panic!("no preview: {asked:?}") };
    let about: Vec<&str> = preview.steps.iter().map(|step| step.about.as_str()).collect();
    assert_eq!(about[..4], ["pool a1", "pool c1", "volume w", "cluster"], "{preview:?}");
    assert!(preview.steps.iter().all(|step| !step.why.is_empty()));
    assert!(preview.waits.iter().any(|wait| wait.starts_with("volume v: pool")), "{preview:?}");
}

#[tokio::test]
async fn metrics_and_the_state_of_the_process_are_plain_text() {
    let server = Bench::new(SCENE).start().await;
    let metrics = server.client.text("/metrics").await.unwrap();
    assert!(metrics.contains("holdfast_volumes{health=\"healthy\"} 1\n"), "{metrics}");
    assert!(metrics.contains("holdfast_leader 1\n"), "{metrics}");
    assert_eq!(server.client.text("/healthz").await.unwrap(), "ok\n");
    assert_eq!(server.client.text("/readyz").await.unwrap(), "leading\n");
    let cluster: ClusterShown = server.client.get("/v1/cluster").await.unwrap();
    assert_eq!((cluster.nodes, cluster.volumes, cluster.read_only), (3, 1, None));
}

/// LC-9.
#[tokio::test]
async fn a_stream_of_events_goes_on_after_the_last_one_that_was_heard() {
    let server = Bench::new(SCENE).start().await;
    let change = |verb, path: &'static str| {
        let client = server.client.clone();
        async move { client.change::<(), NodeShown>(verb, path, None, None).await.unwrap() }
    };
    change(axum::http::Method::PUT, "/v1/nodes/a/cordon").await;
    change(axum::http::Method::PUT, "/v1/nodes/b/cordon").await;
    let mut heard = server.client.events(Some(0)).await.unwrap();
    assert_eq!(heard.next().await.unwrap().unwrap().number, 1);
    // And what happens while it listens.
    change(axum::http::Method::DELETE, "/v1/nodes/b/cordon").await;
    let EventShown { number, event } = heard.next().await.unwrap().unwrap();
    assert_eq!((number, event.words.as_str()), (2, "CordonNode"));
    let page: Page<EventShown> = server.client.get("/v1/events?after=0&limit=1").await.unwrap();
    assert_eq!((page.items[0].number, page.next), (1, Some("1".into())));
}

/// Parts come and go while their volume stays: waiting for one does not look at the other.
#[tokio::test]
async fn parts_of_a_volume_are_waited_for_by_themselves() {
    let server = Bench::new(SCENE).start().await;
    let replicas: Page<Value> = server.client.get("/v1/replicas").await.unwrap();
    let id = replicas.items[0]["replica"]["id"].as_str().unwrap().to_owned();
    let ask = |path: String| {
        let client = server.client.clone();
        async move { client.get::<Value>(&format!("{path}&timeout=20ms")).await }
    };
    let there = ask(format!("/v1/replicas/{id}?wait=gone")).await.unwrap();
    assert_eq!(there["replica"]["id"], id.as_str());
    assert_eq!(ask(format!("/v1/replicas/{id}?wait=healthy")).await.unwrap()["healthy"], true);
    // It has no target, and so no switchover either: there is nothing to read.
    let gone = server.client.change::<(), Value>(
        axum::http::Method::GET,
        "/v1/targets/v?wait=gone",
        None,
        None,
    );
    assert!(matches!(gone.await, Ok(rest::Answer::Gone)));
    for path in ["/v1/volumes/no?wait=available", "/v1/replicas/no?wait=healthy"] {
        let refused = super::refused(ask(path.into()).await);
        assert_eq!(&*refused.code, "not-found", "{path}");
    }
}

/// HA-6: a volume on its way to another target is listed with its stage and its cause, once.
#[tokio::test]
async fn failed_paths_are_listed_with_their_stage() {
    let scene = "node a dead gone=1s; node b c; pool a1 b1 c1; host h; \
                 volume v 1G x2 publish=h on=b starting moving=republish cause=dead from=a@0: \
                 a1 gone=1s after=2000s, b1; volume w 1G x1: c1";
    let server = Bench::new(scene).start().await;
    let page: Page<Value> = server.client.get("/v1/switchovers").await.unwrap();
    let [shown] = &page.items[..] else { panic!("{page:?}") };
    assert_eq!(shown["volume"], "v");
    assert!(shown["stage"].as_str().unwrap().contains("RepublishVolume"), "{shown}");
    assert!(!shown["cause"].as_str().unwrap().is_empty(), "{shown}");
    let one: Value = server.client.get("/v1/switchovers/v").await.unwrap();
    assert_eq!(&one, shown);
    let none = super::refused(server.client.get::<Value>("/v1/switchovers/w").await);
    assert_eq!(&*none.code, "not-found");
}

/// RC-5: a repair that runs tells how far it is.
#[tokio::test]
async fn a_running_copy_tells_how_far_it_is() {
    let scene = "node a b; pool a1 b1 100G; host h; \
                 volume v 10G x2 publish=h on=a: a1, b1 faulted rebuilding copied=40";
    let server = Bench::new(scene).start().await;
    let replicas: Page<Value> = server.client.get("/v1/replicas").await.unwrap();
    let told: Vec<_> = replicas.items.iter().map(|r| (&r["healthy"], &r["copied"])).collect();
    assert!(told.contains(&(&Value::Bool(false), &Value::from(40))), "{told:?}");
}

/// `cargo xtask gen` writes it.
#[test]
fn the_committed_document_is_not_stale() {
    let committed = include_str!("../../../../docs/reference/openapi.json");
    let committed: Value = serde_json::from_str(committed).unwrap();
    assert!(committed == rest::document(), "docs/reference/openapi.json: run `cargo xtask gen`");
}

#[tokio::test]
async fn the_document_names_every_route_that_answers() {
    let server = Bench::new(SCENE).start().await;
    let document: Value = server.client.get("/openapi.json").await.unwrap();
    assert_eq!(document, rest::document());
    let paths = document["paths"].as_object().unwrap();
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys().filter(|method| *method == "get") {
            if path == "/v1/records" {
                continue;
            }
            let path = path.replace("{kind}", "volume").replace("{name}", "nothing");
            let answer = server.client.text(&path).await;
            let lost = match &answer {
                Err(rest::ClientError::Refused(problem)) => &*problem.code == "no-such-route",
                _ => false,
            };
            assert!(!lost, "{method} {path}");
        }
    }
}
