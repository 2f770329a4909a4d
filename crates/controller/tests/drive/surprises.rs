//! M-39: a command that is repeated, mistyped or aimed at something in use destroys nothing.

use std::io::IsTerminal as _;

use rest::{Client, NodeShown, PoolShown, SnapshotShown, VolumeShown};

use super::{
    over_cli::{done, say},
    over_rest::serve,
    *,
};

/// Three nodes with a pool each, and a host.
struct Cluster {
    controller: TestController,
    client: Client,
    disks: [TestDisk; 3],
    engines: Vec<TestEngine>,
    _host: TestHost,
}

impl Cluster {
    async fn start() -> Self {
        let store = Memory::default();
        let controller = TestController::start(store.clone(), listener().await);
        let disks = <[TestDisk; 3]>::default();
        let engines = TestEngine::start_all(&disks, &[controller.address]).await;
        let host = TestHost::start(&[controller.address]);
        let client = serve(&controller, store).await;
        controller.leads().await;
        let id = host.host;
        controller.until("a host", move |seen| seen.world.hosts.get(&id).map(|_| ())).await;
        controller.until("all nodes", |i| (i.world.nodes.len() == 3).then_some(())).await;
        let cluster = Self { controller, client, disks, engines, _host: host };
        for number in 1..=3 {
            cluster.done(&cluster.create_pool(number)).await;
        }
        cluster
    }

    fn create_pool(&self, number: usize) -> String {
        let disk = self.disks[number - 1].path();
        format!("create pool p{number} --node n{number} --disk {disk}")
    }

    async fn done(&self, words: &str) -> String {
        done(&self.client, words).await
    }

    async fn refused(&self, words: &str) -> String {
        let (said, succeeded) = say(&self.client, words).await;
        assert!(!succeeded, "{words} succeeded: {said}");
        said
    }

    async fn volume(&self, name: &str) -> VolumeShown {
        self.client.get(&format!("/v1/volumes/{name}")).await.unwrap()
    }
}

/// LC-7, M-39: what is there stays as it is, whatever a repeated or mistyped `create` asks for.
#[tokio::test]
async fn a_create_changes_nothing_that_is_there() {
    let cluster = Cluster::start().await;
    let create = "create volume v1 --size 64MiB --replicas 3";
    assert_eq!(cluster.done(create).await, "volume/v1 created\n");
    let before = cluster.volume("v1").await.volume;
    assert_eq!(cluster.done(create).await, "volume/v1 unchanged\n");
    let said = cluster.refused("create volume v1 --size 128MiB --replicas 1").await;
    for part in ["volume v1 exists", "size 64 MiB, not 128 MiB", "replicas 3, not 1"] {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
    let said = cluster.refused(&format!("{create} --label a=b")).await;
    assert!(said.contains("labels"), "{said}");
    let said = cluster.refused(&format!("{create} --thin --dry-run")).await;
    assert!(said.contains("thin false, not true"), "{said}");
    assert_eq!(cluster.volume("v1").await.volume, before);

    let create = cluster.create_pool(1);
    assert_eq!(cluster.done(&create).await, "pool/p1 unchanged\n");
    let said = cluster.refused(&format!("{create} --label a=b")).await;
    assert!(said.contains("pool p1 exists") && said.contains("labels"), "{said}");
    let said = cluster.refused("create pool p1 --node n2 --disk /dev/other").await;
    for part in ["node n1, not n2", "disks /", "not /dev/other"] {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
    cluster.controller.end().await;
}

/// LC-7, M-39: a nightly script with one name for every night hears that no snapshot was taken.
#[tokio::test]
async fn a_snapshot_of_a_taken_name_is_refused_unless_it_is_the_same_request() {
    let cluster = Cluster::start().await;
    cluster.done("create volume v1 --size 64MiB --replicas 3").await;
    cluster.done("publish v1 --host h7").await;
    assert_eq!(cluster.done("create snapshot s --volume v1").await, "snapshot/s created\n");
    let said = cluster.refused("create snapshot s --volume v1").await;
    for part in ["name \"s\" is taken", "volume v1", "ago", "delete snapshot s"] {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
    let shown: SnapshotShown = cluster.client.get("/v1/snapshots/s").await.unwrap();
    let repeat = format!("create snapshot s --volume v1 --id {}", shown.snapshot.meta.id);
    let said = cluster.done(&repeat).await;
    assert!(said.starts_with("snapshot/s unchanged, taken at 20"), "{said}");
    let all: Vec<SnapshotShown> = cluster.client.all("/v1/snapshots").await.unwrap();
    assert_eq!(all.len(), 1);
    cluster.controller.end().await;
}

/// LC-5, M-39: a host does not lose the volume under its writes because of one word.
#[tokio::test]
async fn a_volume_that_a_host_has_is_deleted_only_by_force() {
    let cluster = Cluster::start().await;
    cluster.done("create volume v1 --size 64MiB --replicas 3").await;
    cluster.done("publish v1 --host h7").await;
    let said = cluster.refused("delete volume v1").await;
    for part in ["volume v1", "host h7", "holdfast unpublish v1 --host h7", "--force"] {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
    let said = cluster.refused("delete volume v1 --dry-run").await;
    assert!(said.contains("host h7"), "{said}");
    assert!(!cluster.volume("v1").await.volume.spec.deleting);
    let said = cluster.done("delete volume v1 --force --dry-run").await;
    assert!(said.contains("its data is destroyed") && said.contains("host h7 loses"), "{said}");
    // Somebody who runs this test at a terminal would be asked.
    if !std::io::stdin().is_terminal() {
        let said = cluster.refused("delete volume v1 --force").await;
        assert!(said.contains("nothing was done") && said.contains("--yes"), "{said}");
        assert!(!cluster.volume("v1").await.volume.spec.deleting);
    }
    let said = cluster.done("delete volume v1 --force --yes").await;
    assert!(said.contains("host h7 loses") && said.ends_with("volume is gone\n"), "{said}");
    cluster.controller.end().await;
}

/// OP-2, M-39: a node whose engine speaks is not given up; what to do instead is said.
#[tokio::test]
async fn a_living_node_is_not_forgotten() {
    let cluster = Cluster::start().await;
    let said = cluster.refused("forget node n3").await;
    for part in ["node n3 is alive", "holdfast drain n3", "stop its engine"] {
        assert!(said.contains(part), "{part:?} is missing: {said}");
    }
    let said = cluster.refused("forget node n3 --dry-run").await;
    assert!(said.contains("node n3 is alive"), "{said}");
    let shown: NodeShown = cluster.client.get("/v1/nodes/n3").await.unwrap();
    assert!(!shown.node.spec.forgotten);
    cluster.controller.end().await;
}

/// OP-2, M-39: a machine that was given up and comes back all the same.
#[tokio::test]
async fn a_forgotten_node_that_returns_can_be_used_again() {
    let mut cluster = Cluster::start().await;
    cluster.done("create volume v1 --size 64MiB --replicas 3").await;
    let before: PoolShown = cluster.client.get("/v1/pools/p3").await.unwrap();
    cluster.engines.pop();
    let n3 = NodeId::from_u128(3);
    let dead = move |seen: &Seen<'_>| {
        seen.world.node(n3).filter(|view| view.liveness == Liveness::Dead).map(|_| ())
    };
    cluster.controller.until("a dead node", dead).await;
    cluster.done("forget node n3").await;
    let gone = move |seen: &Seen<'_>| seen.world.node(n3).is_none().then_some(());
    cluster.controller.until("a forgotten node", gone).await;
    let engine = TestEngine::start(3, &cluster.disks[2], &[cluster.controller.address]).await;
    cluster.engines.push(engine);
    let back = move |seen: &Seen<'_>| {
        seen.world.node(n3).filter(|view| view.inventory.is_some()).map(|_| ())
    };
    cluster.controller.until("a node that is back", back).await;
    // Its disk carries the pool that was forgotten with it: nothing is overwritten, and both `why`
    // and the refusal tell the way back.
    let old = before.pool.meta.id;
    let told = cluster.done("why node n3").await;
    for words in [told, cluster.refused(&cluster.create_pool(3)).await] {
        assert!(words.contains(&format!("--id {old}")), "{words}");
    }
    let taken = format!("{} --id {old}", cluster.create_pool(3));
    assert_eq!(cluster.done(&taken).await, "pool/p3 created\n");
    let pool: PoolShown = cluster.client.get("/v1/pools/p3").await.unwrap();
    assert_eq!((pool.pool.meta.id, pool.node.as_str()), (old, "n3"));
    assert!(!cluster.done("why node n3").await.contains("recover"));
    cluster.done("create volume v2 --size 64MiB --replicas 3").await;
    cluster.controller.end().await;
}
