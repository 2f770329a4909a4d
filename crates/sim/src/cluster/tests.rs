//! Storage nodes and hosts alone: hand-written configs, and a controller that does nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{
    Admission, Bytes, ChildItem, ConfigHead, Epoch, HostConfig, HostPart, Key, Membership, Meta,
    NodeConfig, NodePart, PathItem, Pool, PoolItem, PoolLayout, PoolSpec, Record, ReplicaItem,
    Revision, Scope, SnapshotItem, TargetHealth, TargetItem, TargetSeen, Volume, VolumeLayout,
    VolumePart, VolumeSpec,
};
use ports::{Txn, Write};
use reconcile::Effect;

use super::*;
use crate::{
    DiskSetup, disk_path,
    fakes::{disk::ReplicaDisk, host::host_nqn, store::Outage},
    names,
    node_process::address,
};

#[derive(Default)]
pub(super) struct Idle {
    world: plan::World,
    stats: reconcile::Stats,
}

impl Brain for Idle {
    fn handle(&mut self, _: Time, _: Event) -> Vec<Effect> {
        Vec::new()
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }

    fn is_leader(&self) -> bool {
        false
    }

    fn busy_with(&self) -> Option<&'static str> {
        None
    }

    fn world(&self) -> &plan::World {
        &self.world
    }

    fn stats(&self) -> &reconcile::Stats {
        &self.stats
    }
}

/// Nodes `n1` to `n3` with a pool and a replica of volume `v` each, and host `h1`.
struct Bench {
    cluster: Cluster,
    generation: u64,
    epoch: Epoch,
    serving: &'static str,
    serve: bool,
    hosts: BTreeSet<HostId>,
    rebuild: BTreeSet<&'static str>,
    retire: BTreeSet<&'static str>,
    snapshots: Vec<SnapshotItem>,
    thin: bool,
}

const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// What one disk has room for twice, with a snapshot of each.
const VOLUME_SIZE: Bytes = Bytes::mib(4);
const DISK_SIZE: Bytes = Bytes::mib(20);

fn replica(node: &str) -> model::ReplicaId {
    names::replica(&format!("r-{node}"))
}

impl Bench {
    fn new(seed: u64) -> Self {
        Self::with_disks(seed, |_| DISK_SIZE)
    }

    fn with_disks(seed: u64, capacity: impl Fn(&str) -> Bytes) -> Self {
        let mut setup = Setup { controllers: 1, ..Setup::default() };
        for node in NODES {
            setup.nodes.insert(node.into(), BTreeMap::new());
            let (label, node) = (format!("p-{node}"), node.to_owned());
            let capacity = capacity(&node);
            setup.disks.push(DiskSetup { label, node, capacity });
        }
        setup.hosts.insert("h1".into(), None);
        setup.hosts.insert("h2".into(), None);
        let cluster = Cluster::new(seed, &setup, Box::new(|_, _, _| Box::new(Idle::default())));
        let hosts = BTreeSet::from([names::host("h1")]);
        let mut bench = Self {
            cluster,
            generation: 1,
            epoch: Epoch::ZERO,
            serving: "n1",
            serve: true,
            hosts,
            rebuild: BTreeSet::new(),
            retire: BTreeSet::new(),
            snapshots: Vec::new(),
            thin: false,
        };
        let record = Membership::founded(names::volume("v"), NODES.map(replica));
        bench.write(&record);
        bench
    }

    fn write(&mut self, record: &Membership) {
        let value = Record::Membership(Box::new(record.clone())).encode();
        let key = Key::Membership(record.volume).to_string();
        let put = Write::Put { key, value, lease: None };
        let txn = Txn { compares: Vec::new(), writes: vec![put] };
        self.cluster.with(Party::Store, |running, ctx| {
            if let Running::Store(store) = running {
                store.write(ctx, &txn).unwrap();
            }
        });
        self.cluster.judge();
    }

    fn record(&self) -> Membership {
        self.cluster.records.membership(names::volume("v")).unwrap().clone()
    }

    fn healthy(&self) -> Vec<String> {
        let record = self.record();
        record.healthy().map(|id| names::label(id.0)).collect()
    }

    /// Raises the epoch as a controller does, and gives the target to `node`.
    fn move_to(&mut self, node: &'static str) {
        self.epoch = self.epoch.next();
        self.serving = node;
        let record = Membership { epoch: self.epoch, owner: None, ..self.record() };
        self.write(&record);
        self.configure();
    }

    fn configure(&mut self) {
        self.generation += 1;
        for node in NODES {
            self.configure_node(node);
        }
        let host = names::host("h1");
        let path = Some(PathItem {
            node: names::node(self.serving),
            address: String::new(),
            epoch: self.epoch,
        });
        let part = HostPart { volume: names::volume("v"), path, share: None };
        let parts = BTreeMap::from([(Key::Volume(part.volume), Some(part))]);
        let config = HostConfig { head: self.head(Party::Host(host)), parts };
        let message = Message::ApplyHost(Rc::new(config));
        self.cluster.send(Party::Controller(0), Party::Host(host), message);
    }

    fn configure_node(&mut self, node: &str) {
        let party = Party::Node(names::node(node));
        let config = NodeConfig { head: self.head(party), parts: self.parts(node) };
        // Twice, because nobody here sends again what is lost.
        for _ in 0..2 {
            let message = Message::Apply(Rc::new(config.clone()));
            self.cluster.send(Party::Controller(0), party, message);
        }
    }

    fn head(&self, to: Party) -> ConfigHead {
        ConfigHead {
            era: names::era("era1"),
            term: names::instance(names::pack("c0"), 1),
            instance: self.cluster.instance(to),
            generation: Revision(self.generation),
            scope: Scope::Whole,
            former: Vec::new(),
        }
    }

    fn parts(&self, node: &str) -> BTreeMap<Key, Option<NodePart>> {
        let (id, volume) = (names::pool(&format!("p-{node}")), names::volume("v"));
        let disks = vec![disk_path(&format!("p-{node}"))];
        let spec = PoolSpec {
            node: names::node(node),
            disks: disks.clone(),
            deleting: false,
            forgotten: false,
            extra: BTreeMap::new(),
        };
        let meta = Meta::new(id, format!("p-{node}"), START);
        let carried = Box::new(Pool { meta, spec, layout: PoolLayout::default() });
        let pool = PoolItem { id, disks, must_exist: false, carried };
        let replica = ReplicaItem {
            id: replica(node),
            pool: id,
            must_exist: false,
            size: VOLUME_SIZE,
            thin: self.thin,
            origin: None,
            admission: Some(Admission { epoch: self.epoch, node: Some(names::node(self.serving)) }),
        };
        let carried = Box::new(Volume {
            meta: Meta::new(volume, "v", START),
            spec: VolumeSpec::default(),
            layout: VolumeLayout::default(),
        });
        let target = (node == self.serving && self.epoch > Epoch::ZERO).then(|| self.target(node));
        let part =
            VolumePart { volume, replicas: vec![replica], target, needs: [].into(), carried };
        let peers = NODES.into_iter().filter(|peer| *peer != node).map(|peer| {
            let id = names::node(peer);
            (Key::Node(id), Some(NodePart::Peer { address: address(id) }))
        });
        let hosts = ["h1", "h2"].map(names::host).map(|host| {
            let nqn = host_nqn(host);
            (Key::Host(host), Some(NodePart::Host { nqn }))
        });
        let own = [
            (Key::Pool(id), Some(NodePart::Pool(pool))),
            (Key::Volume(volume), Some(NodePart::Volume(part))),
        ];
        own.into_iter().chain(peers).chain(hosts).collect()
    }

    fn target(&self, node: &str) -> TargetItem {
        let children = NODES.map(|node| ChildItem {
            replica: replica(node),
            node: names::node(node),
            rebuild: self.rebuild.contains(node),
            retire: self.retire.contains(node),
        });
        TargetItem {
            epoch: self.epoch,
            instance: self.cluster.instance(Party::Node(names::node(node))),
            serve: self.serve,
            size: VOLUME_SIZE,
            children: children.into(),
            hosts: self.hosts.clone(),
            snapshots: self.snapshots.clone(),
        }
    }

    fn run(&mut self, seconds: u64) {
        self.run_millis(seconds * 1_000);
    }

    fn run_millis(&mut self, millis: u64) {
        if let Err(broken) = self.cluster.run_for(Millis(millis)) {
            panic!("{broken:?}\n{}", self.cluster.trace_tail().collect::<Vec<_>>().join("\n"));
        }
    }

    /// Pools and replicas are made, then a target serves on `n1`.
    fn serving(seed: u64) -> Self {
        Self::new(seed).served()
    }

    fn served(mut self) -> Self {
        self.run(1);
        self.configure();
        self.run(1);
        self.move_to("n1");
        self.run(5);
        self
    }

    /// What the node tells of its target.
    fn seen(&self, node: &str) -> Option<TargetSeen> {
        let engine = self.cluster.nodes.get(&names::node(node))?.engine.as_ref()?;
        engine.inventory().targets.remove(&names::volume("v"))
    }

    fn health(&self, node: &str) -> Option<TargetHealth> {
        self.seen(node).map(|seen| seen.health)
    }

    /// What the replica of this node holds.
    fn held(&mut self, node: &str) -> ReplicaDisk {
        self.cluster.refresh_facts(&BTreeSet::from([names::volume("v")]));
        self.cluster.nodes[&names::node(node)].disks.replica(replica(node)).unwrap().clone()
    }

    fn writes(&self) -> u64 {
        self.cluster.oracle.counts.writes
    }
}

fn node(label: &str) -> Party {
    Party::Node(names::node(label))
}

#[test]
fn a_target_serves_and_its_writes_are_on_every_copy() {
    let mut bench = Bench::serving(1);
    bench.run(20);
    assert_eq!(bench.health("n1"), Some(TargetHealth::Serving));
    assert!(bench.writes() > 10, "{}", bench.writes());
    assert!(bench.cluster.oracle.counts.reads > 10);
    bench.serve = false;
    bench.configure();
    bench.run(3);
    assert_eq!(bench.health("n1"), None, "a target that stopped cleanly is absent");
    let blocks = bench.held("n1").blocks;
    assert!(blocks.iter().all(|value| *value > 0), "{blocks:?}");
    assert_eq!([bench.held("n2").blocks, bench.held("n3").blocks], [blocks; 2]);
    let record = bench.record();
    assert!(record.clean && record.owner.is_none());
}

/// ST-5: a copy's fault is recorded before a write that it missed is acknowledged.
#[test]
fn a_killed_copy_is_excluded_and_writes_go_on() {
    for seed in 0..20 {
        let mut bench = Bench::serving(seed);
        bench.cluster.kill(node("n3"));
        let before = bench.writes();
        bench.run(10);
        assert_eq!(bench.healthy(), ["r-n1", "r-n2"]);
        assert!(bench.writes() > before);
        assert_eq!(bench.health("n1"), Some(TargetHealth::Serving));
    }
}

#[test]
fn a_returned_copy_is_rebuilt_only_when_it_may_be() {
    let mut bench = Bench::serving(2);
    bench.cluster.kill(node("n3"));
    bench.run(5);
    bench.cluster.start(node("n3"));
    bench.run(1);
    bench.configure();
    bench.run(5);
    assert_eq!(bench.healthy(), ["r-n1", "r-n2"]);
    bench.rebuild.insert("n3");
    bench.configure();
    bench.run(15);
    assert_eq!(bench.healthy(), ["r-n1", "r-n2", "r-n3"]);
}

/// HA-3, M-26: the old target is cut off with its own copy and still reached by the host.
#[test]
fn an_isolated_target_neither_writes_nor_reads_old_data() {
    for seed in 0..20 {
        let mut bench = Bench::serving(seed);
        for party in [node("n2"), node("n3"), Party::Store, Party::Controller(0)] {
            bench.cluster.cut(node("n1"), party, Millis::seconds(30));
            bench.cluster.cut(party, node("n1"), Millis::seconds(30));
        }
        bench.move_to("n2");
        bench.run(25);
        assert_eq!(bench.health("n2"), Some(TargetHealth::Serving));
        assert_eq!(bench.healthy(), ["r-n2", "r-n3"]);
        let stopped =
            matches!(bench.health("n1"), Some(TargetHealth::Failed { .. } | TargetHealth::Fenced));
        assert!(stopped, "{:?}", bench.health("n1"));
    }
}

/// ST-6: without a fault the store is not needed; with one, acknowledgements are held and then the
/// target stops.
#[test]
fn without_the_store_a_target_serves_until_a_copy_fails() {
    let mut bench = Bench::serving(3);
    bench.cluster.store.outage = Some(Outage::Silent);
    let before = bench.writes();
    bench.run(20);
    assert!(bench.writes() > before + 5);
    bench.cluster.kill(node("n2"));
    bench.run(1);
    let held = bench.writes();
    bench.run(30);
    assert_eq!(bench.writes(), held, "nothing is acknowledged that a recorded copy lacks");
    assert!(
        matches!(bench.health("n1"), Some(TargetHealth::Failed { .. })),
        "{:?}",
        bench.health("n1")
    );
}

/// RS-2: after an unclean stop the copies are made equal to one source before they are trusted.
#[test]
fn an_unclean_stop_is_followed_by_a_resync_from_one_source() {
    for seed in 0..20 {
        let mut bench = Bench::serving(seed);
        bench.run(5);
        bench.cluster.kill(node("n1"));
        bench.cluster.start(node("n1"));
        bench.run(1);
        bench.configure();
        bench.run(1);
        bench.move_to("n2");
        let mut was_resynced = false;
        for _ in 0..300 {
            bench.run_millis(10);
            was_resynced |= bench.record().resync_source.is_some();
        }
        assert!(was_resynced, "seed {seed}");
        bench.run(13);
        assert_eq!(bench.record().resync_source, None);
        assert_eq!(bench.healthy().len(), 3, "{:?}", bench.healthy());
    }
}

#[test]
fn hosts_that_the_config_does_not_name_are_let_out() {
    let mut bench = Bench::serving(4);
    let host = names::host("h1");
    assert!(bench.seen("n1").unwrap().hosts.contains(&host));
    bench.hosts.clear();
    bench.configure();
    bench.run(3);
    assert!(bench.seen("n1").unwrap().hosts.is_empty());
    let host = bench.cluster.hosts[&host].process.as_ref().unwrap();
    assert!(!host.attached[&names::volume("v")].has_live_path());
}

#[test]
fn a_retired_copy_leaves_the_record_but_never_the_last_one() {
    let mut bench = Bench::serving(5);
    bench.retire.extend(["n1", "n2", "n3"]);
    bench.configure();
    bench.run(5);
    assert_eq!(bench.healthy().len(), 1);
}

#[test]
fn a_snapshot_is_on_every_copy_and_equal() {
    let mut bench = Bench::serving(6);
    bench.run(10);
    let (snapshot, attempt) = (names::snapshot("s1"), names::attempt("a1"));
    bench.snapshots.push(SnapshotItem { snapshot, name: "s1".into(), attempt });
    bench.configure();
    bench.run(10);
    let images = NODES.map(|node| bench.held(node).snapshots[&snapshot].clone());
    assert!(images.iter().all(|image| *image == images[0]), "{images:?}");
    let seen = bench.seen("n1").unwrap();
    assert_eq!(seen.taken_snapshots, BTreeMap::from([(attempt, NODES.map(replica).into())]));
}

/// M-08: one pool is full: the snapshot is on no copy, and reported.
#[test]
fn a_snapshot_that_one_copy_has_no_room_for_is_on_none() {
    let small = |node: &str| if node == "n2" { VOLUME_SIZE } else { DISK_SIZE };
    let mut bench = Bench::with_disks(7, small).served();
    bench.run(10);
    let (snapshot, attempt) = (names::snapshot("s1"), names::attempt("a1"));
    bench.snapshots.push(SnapshotItem { snapshot, name: "s1".into(), attempt });
    bench.configure();
    bench.run(5);
    for node in NODES {
        assert!(bench.held(node).snapshots.is_empty(), "{node}");
    }
    let seen = bench.seen("n1").unwrap();
    assert_eq!((seen.health, seen.failed_snapshots), (TargetHealth::Serving, vec![attempt]));
    assert!(seen.taken_snapshots.is_empty(), "{:?}", seen.taken_snapshots);
}

/// Seeds 88000605, 55001483 and 55003146: a block that was on its way when the rebuild was called
/// off was counted as copied, and was old when the rebuild went on.
#[test]
fn a_rebuild_that_is_called_off_and_granted_again_copies_everything_anew() {
    for seed in 0..40 {
        let mut bench = Bench::serving(seed);
        let mut random = Random::new(seed);
        bench.cluster.kill(node("n2"));
        bench.run(4);
        bench.cluster.start(node("n2"));
        bench.run(1);
        assert_eq!(bench.healthy().len(), 2, "seed {seed}");
        for _ in 0..20 {
            bench.rebuild.extend(["n2"]);
            bench.configure();
            bench.run_millis(random.between(0, 1_500));
            bench.rebuild.clear();
            bench.configure();
            bench.run_millis(random.between(0, 300));
        }
        bench.rebuild.extend(["n2"]);
        bench.configure();
        bench.run(20);
        assert_eq!(bench.healthy().len(), 3, "seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut bench = Bench::new(seed);
        bench.cluster.tracing();
        bench.run(1);
        bench.configure();
        bench.run(1);
        bench.move_to("n1");
        bench.run(10);
        let trace: Vec<_> = bench.cluster.trace_tail().map(str::to_owned).collect();
        (bench.cluster.events, trace)
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
}

/// Every kind of fault at once, over many seeds: whatever happens, no promise about data breaks.
#[test]
fn no_acknowledged_write_is_lost_in_a_storm() {
    for seed in 0..15 {
        let mut bench = Bench::serving(seed);
        bench.rebuild.extend(NODES);
        let mut random = Random::new(seed);
        for _ in 0..30 {
            let victim = *random.pick(&NODES).unwrap();
            let span = Millis(random.between(200, 6_000));
            match random.below(7) {
                0 => bench.cluster.kill(node(victim)),
                1 => bench.cluster.isolate(node(victim), span),
                2 => bench.cluster.pause(node(victim), span),
                3 => bench.cluster.pause(Party::Host(names::host("h1")), span),
                4 => bench.cluster.cut(node(victim), Party::Host(names::host("h1")), span),
                5 => {
                    let other = *random.pick(&NODES).unwrap();
                    bench.cluster.cut(node(victim), node(other), span);
                }
                _ => {
                    let outage = random.pick(&[None, Some(Outage::Silent), None]).unwrap();
                    bench.cluster.store.outage = *outage;
                }
            }
            bench.run(random.between(0, 3));
            for label in NODES {
                bench.cluster.start(node(label));
            }
            if random.chance(500) {
                let successor = *random.pick(&NODES).unwrap();
                bench.move_to(successor);
            } else {
                bench.configure();
            }
        }
        bench.cluster.calm();
        bench.run(1);
        bench.move_to("n3");
        bench.run(30);
        assert_eq!(bench.health("n3"), Some(TargetHealth::Serving), "seed {seed}");
        assert_eq!(bench.healthy().len(), 3, "seed {seed}");
    }
}
