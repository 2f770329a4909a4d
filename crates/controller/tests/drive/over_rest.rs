//! The same through REST.

use rest::{
    Answer, Client, ClientError, EventShown, PoolPut, PublicationPut, VolumePut, VolumeShown,
};

use super::*;

const PUT: hyper::Method = hyper::Method::PUT;

pub async fn serve<S: Store + Clone + 'static>(controller: &TestController, store: S) -> Client {
    let listener = listener().await;
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let served = controller::Served { handle: controller.handle.clone(), store };
    tokio::spawn(rest::serve(listener, served, controller.stop.clone()));
    client
}

fn done<T: std::fmt::Debug>(answer: Result<Answer<T>, ClientError>) -> T {
    match answer {
        Ok(Answer::Done(shown)) => shown,
        other => panic!("not done: {other:?}"),
    }
}

/// LC-1, LC-2, LC-9: made, published and told about, from outside.
#[tokio::test]
async fn a_volume_is_made_and_published_over_rest() {
    let folder = tempfile::tempdir().unwrap();
    let store = embedded(folder.path()).await;
    let controller = TestController::start(store.clone(), listener().await);
    let disks = <[TestDisk; 3]>::default();
    let _engines = TestEngine::start_all(&disks, &[controller.address]).await;
    let host = TestHost::start(&[controller.address]);
    let client = serve(&controller, store.clone()).await;
    controller.leads().await;
    controller.until("all nodes", |i| (i.world.nodes.len() == 3).then_some(())).await;
    for (number, disk) in (1..).zip(&disks) {
        let node = format!("n{number}");
        let body = PoolPut { id: None, labels: [].into(), node, disks: vec![disk.path()] };
        let path = format!("/v1/pools/p{number}?wait=available");
        done(client.change::<_, rest::PoolShown>(PUT, &path, None, Some(&body)).await);
    }
    let spec = VolumeSpec { size: Bytes::gib(1), replicas: 3, ..VolumeSpec::default() };
    let body = VolumePut { id: None, labels: [].into(), spec };
    let path = "/v1/volumes/v1?wait=healthy";
    let volume: VolumeShown = done(client.change(PUT, path, None, Some(&body)).await);
    assert_eq!((volume.status.available, volume.status.healthy_copies), (true, 3));
    controller.until("a host", move |i| i.world.hosts.get(&host.host).map(|_| ())).await;
    let body = PublicationPut { hosts: vec!["h7".into()], ..PublicationPut::default() };
    let path = "/v1/volumes/v1/publication?wait=available";
    let volume: VolumeShown = done(client.change(PUT, path, None, Some(&body)).await);
    assert!(volume.volume.layout.target.is_some());
    let events: Vec<EventShown> = client.all("/v1/events").await.unwrap();
    let words = |text: &str| events.iter().any(|shown| shown.event.words.contains(text));
    assert!(words("CreateVolume was asked for"), "{events:#?}");
    // By its name, although nobody knew it when it was asked for.
    let asked = events.iter().find(|e| e.event.words.contains("CreateVolume")).unwrap();
    assert_eq!((asked.event.name.as_str(), asked.event.kind), ("v1", model::EventKind::Asked));
    assert!(events.iter().any(|e| e.event.kind == model::EventKind::Stepped), "{events:#?}");
    let records: Vec<rest::RecordShown> = client.all("/v1/records").await.unwrap();
    assert!(records.iter().any(|record| record.key.starts_with("membership/")));
    controller.end().await;
}

/// ST-6: without a leader changes get a clear error, and reads are served from memory.
#[tokio::test]
async fn a_standby_over_rest_reads_and_passes_on() {
    let store = Memory::default();
    let rest_listener = listener().await;
    let address = format!("http://{}", rest_listener.local_addr().unwrap());
    let settings = Settings { address: Some(address.clone()), ..Settings::default() };
    let mut leader = TestController::start_with(store.clone(), listener().await, &settings);
    let served = controller::Served { handle: leader.handle.clone(), store: store.clone() };
    tokio::spawn(rest::serve(rest_listener, served, leader.stop.clone()));
    leader.leads().await;
    let standby = TestController::start(store.clone(), listener().await);
    let client = serve(&standby, store.clone()).await;
    standby.until("the leader", |i| i.lead.is_taken.then_some(())).await;
    let disk = TestDisk::default();
    let _engine = TestEngine::start(1, &disk, &[leader.address, standby.address]).await;
    standby.until("a node", |i| (!i.world.nodes.is_empty()).then_some(())).await;
    let cordoned: rest::NodeShown =
        done(client.change::<(), _>(PUT, "/v1/nodes/n1/cordon", None, None).await);
    assert!(cordoned.node.spec.cordoned);
    leader.kill().await;
    standby.leads().await;
    let node: rest::NodeShown = client.get("/v1/nodes/n1?wait=healthy").await.unwrap();
    assert!(node.node.spec.cordoned);
    standby.end().await;
}

/// ST-7: what was accepted is read back at once, whoever is away; machines follow when they can.
#[tokio::test]
async fn the_store_knows_at_once_and_an_engine_follows() {
    let folder = tempfile::tempdir().unwrap();
    let store = embedded(folder.path()).await;
    let controller = TestController::start(store.clone(), listener().await);
    let disks = <[TestDisk; 3]>::default();
    let killed = TestEngine::start_all(&disks, &[controller.address]).await;
    let client = serve(&controller, store.clone()).await;
    controller.leads().await;
    controller.until("all nodes", |i| (i.world.nodes.len() == 3).then_some(())).await;
    drop(killed);
    let disk = vec![disks[0].path()];
    let body = PoolPut { id: None, labels: [].into(), node: "n1".into(), disks: disk };
    let made = client.change::<_, rest::PoolShown>(PUT, "/v1/pools/p1", None, Some(&body)).await;
    let pool = done(made);
    let read: rest::PoolShown = client.get("/v1/pools/p1").await.unwrap();
    assert_eq!(read.pool, pool.pool);
    assert_ne!(read.status.status.health, rest::Health::Healthy);
    let _engines = TestEngine::start_all(&disks, &[controller.address]).await;
    let path = "/v1/pools/p1?wait=available&timeout=30s";
    let followed: rest::PoolShown = client.get(path).await.unwrap();
    assert_eq!(followed.status.status.health, rest::Health::Healthy);
    controller.end().await;
}
