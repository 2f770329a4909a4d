//! The controller on real stores, with engines and hosts that speak the real stream.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod membership;
mod over_cli;
mod over_rest;
mod surprises;

use std::{net::SocketAddr, path::Path, time::Duration};

use controller::{Opened, Seen, Settings, StoreUrl};
use e2e::in_process::{
    PATIENCE, TestController, TestDisk, TestEngine, VOLUME, created, host_settings, listener,
    published,
};
use model::{Bytes, HostId, Key, Liveness, NodeId, Record, VolumeSpec, Write};
use plan::{Refusal, Request};
use ports::Store;
use store::{
    etcd::{self, Etcd},
    memory::Memory,
};
use tokio::{net::TcpListener, time::timeout};

async fn embedded(folder: &Path) -> store::embedded::Embedded {
    match StoreUrl::Embedded(folder.to_owned()).open(None).await.unwrap() {
        Opened::Embedded(store) => store,
        Opened::Etcd(_) => panic!("no embedded store"),
    }
}

/// A real host, and the folder that it shows its volumes in.
struct TestHost {
    host: HostId,
    _process: host::Host,
    _run: tempfile::TempDir,
}

impl TestHost {
    fn start(controllers: &[SocketAddr]) -> Self {
        let run = tempfile::tempdir().unwrap();
        let process = host::start(host_settings(7, run.path(), controllers)).unwrap();
        Self { host: process.host, _process: process, _run: run }
    }
}

async fn make_volume(controller: &TestController) {
    let spec = VolumeSpec { size: Bytes::gib(1), replicas: 3, ..VolumeSpec::default() };
    controller.make_volume(spec).await;
}

/// What the store holds keeps every promise.
async fn check<S: Store>(store: &S) {
    let page = store.list("", None, 1000, None).await.unwrap();
    let mut writes = Vec::new();
    for entry in page.entries {
        let key: Key = entry.key.parse().unwrap();
        let record = Record::decode(&key, &entry.value, entry.modified).unwrap();
        writes.push(Write::put(key, record));
    }
    let records = invariants::Records::loaded(page.revision, &writes);
    assert_eq!(invariants::check_all(&records), []);
}

/// LC-1, RS-3: a new store is founded, and a volume made, published and deleted on it.
#[tokio::test]
async fn a_volume_lives_from_create_to_delete_on_an_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = embedded(folder.path()).await;
    let controller = TestController::start(store.clone(), listener().await);
    let disks = <[TestDisk; 3]>::default();
    let _engines = TestEngine::start_all(&disks, &[controller.address]).await;
    let host = TestHost::start(&[controller.address]);
    controller.leads().await;
    controller.make_pools(&disks).await;
    make_volume(&controller).await;
    controller.publish(host.host, 1).await;
    check(&store).await;
    let (volume, host) = (VOLUME, host.host);
    let request = Request::UnpublishVolume { volume, host, force: false };
    controller.handle.ask(request).await.unwrap();
    let request = Request::DeleteVolume { volume, with_snapshots: false, force: false };
    controller.handle.ask(request).await.unwrap();
    let gone = move |seen: &Seen<'_>| {
        let world = seen.world;
        let quiet = world.nodes.values().all(|view| view.tombstones.is_empty());
        (world.volume(volume).is_none() && quiet).then_some(())
    };
    controller.until("a deleted volume", gone).await;
    check(&store).await;
    controller.end().await;
}

/// RS-4: after a restart what is stored and what engines report are compared, and go on.
#[tokio::test]
async fn a_controller_that_was_killed_leads_again_at_once_on_its_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let disks = <[TestDisk; 3]>::default();
    let address;
    {
        let store = embedded(folder.path()).await;
        let mut controller = TestController::start(store.clone(), listener().await);
        address = controller.address;
        let _engines = TestEngine::start_all(&disks, &[address]).await;
        let host = TestHost::start(&[address]);
        controller.leads().await;
        controller.make_pools(&disks).await;
        make_volume(&controller).await;
        controller.publish(host.host, 1).await;
        controller.kill().await;
    }
    let store = embedded(folder.path()).await;
    let controller =
        TestController::start(store.clone(), TcpListener::bind(address).await.unwrap());
    // The lock proves that the old one is gone: nobody waits for its lease.
    let leads = |seen: &Seen<'_>| seen.lead.is_own.then_some(());
    timeout(Duration::from_secs(2), controller.handle.until(leads)).await.unwrap().unwrap();
    let _engines = TestEngine::start_all(&disks, &[address]).await;
    let _host = TestHost::start(&[address]);
    // Every engine is another process now: the target moves to one of them.
    controller.until("a publication", published).await;
    check(&store).await;
    controller.end().await;
}

/// HA-7: an engine whose stream ends is gone at once, and its target moves with no timer.
#[tokio::test]
async fn a_target_moves_when_its_engine_is_killed() {
    let store = Memory::default();
    let controller = TestController::start(store.clone(), listener().await);
    let disks = <[TestDisk; 3]>::default();
    let mut engines = TestEngine::start_all(&disks, &[controller.address]).await;
    let host = TestHost::start(&[controller.address]);
    controller.leads().await;
    controller.make_pools(&disks).await;
    make_volume(&controller).await;
    controller.publish(host.host, 1).await;
    let before = controller.until("a target", published).await;
    engines.retain(|engine| engine.node != before);
    let moved = move |seen: &Seen<'_>| published(seen).filter(|node| *node != before);
    controller.until("another target", moved).await;
    check(&store).await;
    controller.end().await;
}

#[tokio::test]
async fn who_speaks_for_another_node_is_not_believed() {
    let controller = TestController::start(Memory::default(), listener().await);
    controller.leads().await;
    let node = NodeId::from_u128(1);
    let stream = tokio::net::TcpStream::connect(controller.address).await.unwrap();
    let (_incoming, mut outgoing) = rpc::split::<rpc::ToEngine, _>(stream).unwrap();
    let instance = model::InstanceId::from_u128(5);
    let hello = rpc::Hello {
        node,
        name: "a".into(),
        address: "127.0.0.1:1".into(),
        instance,
        version: "0".into(),
        speaks: rpc::Speaks::OWN,
    };
    outgoing.send(&rpc::ToController::Hello(hello)).await.unwrap();
    let inventory = |node| {
        rpc::ToController::Inventory(Box::new(model::Inventory {
            node,
            instance,
            generation: model::Revision::ZERO,
            sequence: 1,
            pools: [].into(),
            replicas: [].into(),
            targets: [].into(),
            devices: Vec::new(),
        }))
    };
    let other = NodeId::from_u128(2);
    outgoing.send(&inventory(other)).await.unwrap();
    outgoing.send(&inventory(node)).await.unwrap();
    let seen = move |seen: &Seen<'_>| {
        let view = seen.world.node(node)?;
        view.inventory.as_ref()?;
        Some(seen.world.node(other).is_some())
    };
    assert!(!controller.until("a node", seen).await);
    controller.end().await;
}

async fn leader_and_standby<S: Store + Clone + 'static>(store: S) {
    let (first, second) = (listener().await, listener().await);
    let both = [first.local_addr().unwrap(), second.local_addr().unwrap()];
    let mut leader = TestController::start(store.clone(), first);
    leader.leads().await;
    let standby = TestController::start(store.clone(), second);
    let disks = <[TestDisk; 3]>::default();
    let _engines = TestEngine::start_all(&disks, &both).await;
    let host = TestHost::start(&both);
    leader.make_pools(&disks).await;
    make_volume(&leader).await;
    leader.publish(host.host, 1).await;
    // The standby is warm: it knows the same, and says who leads.
    standby.until("the publication", published).await;
    let alive = |seen: &Seen<'_>| {
        let nodes = &seen.world.nodes;
        let alive = nodes.values().filter(|view| view.liveness == Liveness::Alive).count();
        (alive == 3).then(|| (seen.lead.is_own, seen.lead.clone()))
    };
    let (leads, lead) = standby.until("living nodes", alive).await;
    assert_eq!((leads, lead.is_taken), (false, true));
    assert_eq!(lead.address, Some(format!("http://{}", both[0])));
    let (volume, size) = (VOLUME, Bytes::gib(2));
    let request = Request::ResizeVolume { volume, size };
    assert_eq!(standby.handle.ask(request.clone()).await, Err(Refusal::NotLeading));
    leader.kill().await;
    standby.leads().await;
    standby.handle.ask(request).await.unwrap();
    let grown = move |seen: &Seen<'_>| {
        let layout = &seen.world.volume(volume)?.record.layout;
        (layout.exposed == size).then_some(())
    };
    standby.until("a larger volume", grown).await;
    check(&store).await;
    standby.end().await;
}

/// ST-4, RS-3.
#[tokio::test]
async fn a_standby_takes_over_when_the_leader_is_killed_in_memory() {
    leader_and_standby(Memory::default()).await;
}

/// ST-4, RS-3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_takes_over_when_the_leader_is_killed_on_etcd() {
    let Some(etcd) = conformance::etcd::installed("the controller on etcd") else { return };
    let member = conformance::etcd::Member::alone(&etcd, &[]);
    let config = etcd::Config::new(vec![member.endpoint()], "/holdfast/test/".into());
    leader_and_standby(Etcd::connect(&config).await.unwrap()).await;
}

/// ST-4: who stops in good order gives the lead away, and nobody waits for a lease to end.
#[tokio::test]
async fn a_leader_that_stops_gives_the_lead_away_at_once() {
    let store = Memory::default();
    let leader = TestController::start(store.clone(), listener().await);
    leader.leads().await;
    let standby = TestController::start(store.clone(), listener().await);
    standby.until("the leader", |i| i.lead.is_taken.then_some(())).await;
    leader.end().await;
    // Less than the lease, with room for a slow machine.
    let leads = |seen: &Seen<'_>| seen.lead.is_own.then_some(());
    timeout(Duration::from_secs(2), standby.handle.until(leads)).await.unwrap().unwrap();
    standby.end().await;
}

/// ST-6: a store that goes away and comes back is followed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_goes_on_after_its_etcd_was_restarted() {
    let Some(etcd) = conformance::etcd::installed("the controller on etcd") else { return };
    let mut member = conformance::etcd::Member::alone(&etcd, &[]);
    let config = etcd::Config::new(vec![member.endpoint()], "/holdfast/test/".into());
    let store = Etcd::connect(&config).await.unwrap();
    let controller = TestController::start(store.clone(), listener().await);
    let disks = <[TestDisk; 3]>::default();
    let _engines = TestEngine::start_all(&disks, &[controller.address]).await;
    controller.leads().await;
    controller.make_pools(&disks).await;
    tokio::task::block_in_place(|| member.restart());
    let volume = VOLUME;
    let spec = VolumeSpec { size: Bytes::gib(1), replicas: 3, ..VolumeSpec::default() };
    let create = |name: &str| Request::CreateVolume {
        id: volume,
        name: name.to_owned(),
        labels: [].into(),
        spec: spec.clone().into(),
    };
    // Its lease may have ended meanwhile: then it takes the lead again.
    let asked = async {
        while controller.handle.ask(create("v1")).await.is_err() {
            controller.handle.turns().changed().await.unwrap();
        }
    };
    timeout(PATIENCE, asked).await.unwrap();
    controller.until("a volume", created).await;
    check(&store).await;
    controller.end().await;
}
