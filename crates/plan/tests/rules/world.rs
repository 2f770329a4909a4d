//! The world keeps its indexes true, whatever comes in and in whatever order.

use std::collections::BTreeMap;

use fixtures::{Random, Scene};
use model::{
    Buried, Bytes, ChildSeen, Difference, Inventory, Key, Mark, PoolHealth, Record, ReplicaHealth,
    Revision, Subject,
};
use plan::{History, Verdict, World, sweep};

const TEXT: &str = "node a b c zone=x; pool a1 b1 c1 a2 100G; host h k; \
                    volume v 5G x2 publish=h on=a: a1, b1; volume w 5G x2 thin group=g: b1, c1; \
                    volume y 5G x2 group=g epoch=1: a1, c1 faulted rebuilding; \
                    snapshot s of v: a1, b1";

/// Everything that is kept besides records and reports. Entries of pools that hold nothing and are
/// not in order say nothing.
fn indexes(world: &World) -> String {
    let index = &world.index;
    let pools: BTreeMap<_, _> = index.pools.iter().filter(|(_, pool)| !is_default(*pool)).collect();
    let rooms: Vec<Bytes> = world.pools.keys().map(|pool| world.room(*pool)).collect();
    let pools_of: Vec<_> = index.pools_of.iter().filter(|(_, pools)| !pools.is_empty()).collect();
    let nodes: Vec<Vec<_>> =
        world.nodes.keys().map(|node| index.volume_ids_on(*node).collect()).collect();
    let hosts: Vec<Vec<_>> =
        world.hosts.keys().map(|host| index.volume_ids_of_host(*host).collect()).collect();
    // Stray targets are looked for when their node reports, and only then.
    let is_replica = |buried: &&Buried| matches!(buried, Buried::Replica { .. });
    let orphans = world.nodes.values().map(|view| view.orphans.keys().filter(is_replica));
    let orphans: Vec<Vec<&Buried>> = orphans.map(Iterator::collect).collect();
    format!(
        "{pools:#?} {:#?} {rooms:?} {:#?} {pools_of:#?} {nodes:#?} {hosts:#?} {:#?} {:#?} {:#?} \
         {:#?} {} {:#?} {orphans:#?} {:#?}",
        index.order,
        index.replica_home,
        index.targets_on,
        index.groups,
        index.snapshots_of,
        index.clones_of,
        index.rebuilds,
        index.rebuilds_into,
        world.disputes,
    )
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[track_caller]
fn assert_same(one: &World, two: &World, when: &str) {
    let (left, right) = (indexes(one), indexes(two));
    let mut pairs = left.lines().zip(right.lines());
    assert_eq!(pairs.find(|(left, right)| left != right), None, "{when}");
    let volumes = |world: &World| {
        let plans = sweep(world).into_iter();
        plans.filter(|(subject, _)| matches!(subject, Subject::Volume(_))).collect::<Vec<_>>()
    };
    assert_eq!(volumes(one), volumes(two), "{when}");
}

/// The same records and reports, put into an empty world.
fn rebuilt(world: &World) -> World {
    let mut new = World::default();
    new.now = world.now;
    new.revision = world.revision;
    new.salt = world.salt;
    let mut put = |key: Key, record: Record| new.put(&key, record, Revision(1));
    if let Some(cluster) = &world.cluster {
        put(Key::Cluster, Record::Cluster(cluster.clone()));
    }
    for (id, view) in &world.nodes {
        put(Key::Node(*id), Record::Node(view.record.clone().into()));
        for (buried, tombstone) in &view.tombstones {
            let record = Record::Tombstone(tombstone.clone().into());
            put(Key::Tombstone(*id, *buried), record);
        }
    }
    for (id, view) in &world.pools {
        put(Key::Pool(*id), Record::Pool(view.record.clone().into()));
    }
    for (id, view) in &world.hosts {
        put(Key::Host(*id), Record::Host(view.record.clone().into()));
    }
    for (id, view) in &world.volumes {
        put(Key::Volume(*id), Record::Volume(view.record.clone().into()));
        if let Some(membership) = &view.membership {
            put(Key::Membership(*id), Record::Membership(membership.clone().into()));
        }
    }
    for (id, snapshot) in &world.snapshots {
        put(Key::Snapshot(*id), Record::Snapshot(snapshot.clone().into()));
    }
    new.history = world.history.clone();
    for (id, view) in &world.nodes {
        new.judge_node(*id, view.liveness);
        if let Some(inventory) = view.inventory.clone() {
            new.observe(inventory);
        }
    }
    for (id, view) in &world.hosts {
        new.judge_host(*id, view.liveness);
        view.inventory.iter().cloned().for_each(|inventory| {
            new.observe_host(inventory);
        });
    }
    new
}

/// One change of a record or a report, as a store or an engine may bring it.
fn change(scene: &mut Scene, removed: &mut Vec<(Key, Record)>, random: &mut Random) {
    let world = &mut scene.world;
    let volumes: Vec<_> = world.volumes.keys().copied().collect();
    let nodes: Vec<_> = world.nodes.keys().copied().collect();
    let (Some(volume), Some(node)) = (random.pick(&volumes), random.pick(&nodes)) else { return };
    world.revision = world.revision.next();
    match random.below(9) {
        0 => {
            let key = Key::Volume(*volume);
            let view = world.volumes[volume].clone();
            let record = Record::Volume(view.record.into());
            removed.push((key.clone(), record));
            if let Some(membership) = view.membership {
                removed.push((Key::Membership(*volume), Record::Membership(membership.into())));
            }
            world.remove(&key);
            world.remove(&Key::Membership(*volume));
        }
        1 => {
            for (key, mut record) in removed.drain(..) {
                record.set_revision(world.revision);
                world.put(&key, record, world.revision);
            }
        }
        2 => {
            let mut record = world.volumes[volume].record.clone();
            record.layout.replicas.truncate(1);
            record.layout.size = Bytes(record.layout.size.0 + (1 << 30));
            record.layout.target = None;
            record.meta.revision = world.revision;
            world.put(&Key::Volume(*volume), Record::Volume(record.into()), world.revision);
        }
        3 => {
            let mut record = world.volumes[volume].record.clone();
            for replica in &mut record.layout.replicas {
                replica.rebuilding = !replica.rebuilding;
            }
            record.spec.affinity_group = None;
            record.meta.revision = world.revision;
            world.put(&Key::Volume(*volume), Record::Volume(record.into()), world.revision);
        }
        4 => {
            let mut record = world.nodes[node].record.clone();
            record.spec.draining = !record.spec.draining;
            world.put(&Key::Node(*node), Record::Node(record.into()), world.revision);
        }
        5 => {
            let liveness = [model::Liveness::Dead, model::Liveness::Alive][random.below(2)];
            world.judge_node(*node, liveness);
        }
        6 => {
            let key = Key::Snapshot(scene.names.snapshot("s"));
            world.remove(&key);
        }
        _ => {
            if let Some(old) = world.nodes[node].inventory.clone() {
                world.observe(report(old, random));
            }
        }
    }
}

/// The next inventory of an engine, with a few things changed.
fn report(old: Inventory, random: &mut Random) -> Inventory {
    let mut new = old;
    new.sequence += 1;
    new.generation = Revision(new.generation.0 + u64::from(random.one_in(3)));
    for pool in new.pools.values_mut() {
        if random.one_in(2) {
            continue;
        }
        pool.used = Bytes::gib(u64::try_from(random.below(50)).unwrap());
        pool.health = match random.below(3) {
            0 => PoolHealth::Importing,
            1 => PoolHealth::Faulted { reason: "random".into() },
            _ => PoolHealth::Online,
        };
    }
    let replicas: Vec<_> = new.replicas.keys().copied().collect();
    if let Some(replica) = random.pick(&replicas) {
        match random.below(4) {
            0 => drop(new.replicas.remove(replica)),
            1 => new.replicas.get_mut(replica).unwrap().health = ReplicaHealth::Missing,
            _ => new.replicas.get_mut(replica).unwrap().roster.0 += 1,
        }
    }
    for target in new.targets.values_mut() {
        if random.one_in(2) {
            continue;
        }
        target.hosts.clear();
        for child in target.children.values_mut() {
            *child = ChildSeen { copied: Some(7), is_full: false, instance: None };
        }
        target.epoch.0 += u64::from(random.one_in(3));
    }
    if random.one_in(5) {
        new.targets.clear();
    }
    new
}

#[test]
fn indexes_are_what_a_fresh_look_at_the_records_gives() {
    for seed in 0..10 {
        let mut random = Random::seeded(seed);
        let mut scene = Scene::new(TEXT);
        let mut removed = Vec::new();
        for step in 0..20 {
            change(&mut scene, &mut removed, &mut random);
            let fresh = rebuilt(&scene.world);
            assert_same(&scene.world, &fresh, &format!("seed {seed}, step {step}"));
        }
    }
}

#[test]
fn a_difference_says_the_same_as_the_whole() {
    for seed in 0..20 {
        let mut random = Random::seeded(seed);
        let scene = Scene::new(TEXT);
        let (mut whole, mut parts) = (scene.world.clone(), scene.world);
        for step in 0..12 {
            let nodes: Vec<_> = whole.nodes.keys().copied().collect();
            let node = random.pick(&nodes).unwrap();
            let old = whole.nodes[node].inventory.clone().unwrap();
            let new = report(old.clone(), &mut random);
            let by_parts = parts.observe_difference(Difference::between(&old, &new)).unwrap();
            let by_whole = whole.observe(new);
            assert_eq!(by_parts, by_whole, "seed {seed}, step {step}");
            assert_same(&parts, &whole, &format!("seed {seed}, step {step}"));
        }
    }
}

#[test]
fn a_difference_that_does_not_fit_asks_for_the_whole() {
    let mut scene = Scene::new("node a; pool a1");
    let old = scene.world.nodes[&scene.names.node("a")].inventory.clone().unwrap();
    let fits = Difference::between(&old, &Inventory { sequence: 2, ..old.clone() });
    let later = Difference { base: 5, sequence: 6, ..fits.clone() };
    let other = Difference { instance: scene.names.instance("x"), ..fits.clone() };
    assert!(scene.world.observe_difference(later).is_err());
    assert!(scene.world.observe_difference(other).is_err());
    assert!(scene.world.observe_difference(fits.clone()).is_ok());
    // Said twice it changes nothing.
    assert_eq!(scene.world.observe_difference(fits), Ok(plan::Touched::new()));
}

#[test]
fn reports_of_another_process_or_from_before_say_nothing() {
    let mut scene = Scene::new("node a; pool a1; volume v 1G x1: a1");
    let node = scene.names.node("a");
    let old = scene.world.nodes[&node].inventory.clone().unwrap();
    let mut wrong = Inventory { sequence: 9, instance: scene.names.instance("x"), ..old.clone() };
    wrong.replicas.clear();
    assert!(scene.world.observe(wrong).is_empty());
    assert!(scene.world.observe(old).is_empty());
    assert_eq!(scene.plans(), [""; 0]);
}

/// OP-4, RC-6, M-23: what a pool has seen lies in this store's past, in another, or cannot be told.
#[test]
fn a_mark_is_judged_by_the_terms_that_the_store_remembers() {
    let scene = Scene::new("");
    let cluster = scene.world.cluster.unwrap();
    let (one, two) = (scene.names.instance("one"), scene.names.instance("two"));
    let mut history = History::default();
    history.add(Revision(10), 1, one);
    history.add(Revision(20), 2, two);
    let judge = |era: &str, term, revision| {
        let mark = Mark { era: scene.names.era(era), term, revision: Revision(revision) };
        match history.judge(&mark, &cluster) {
            Verdict::Proven => "proven",
            Verdict::Unproven { .. } => "unproven",
            Verdict::Foreign { .. } => "foreign",
        }
    };
    assert_eq!(judge("era", one, 10), "proven");
    assert_eq!(judge("era", one, 19), "proven");
    // The first leader's term ended with the second one's beginning.
    assert_eq!(judge("era", one, 20), "foreign");
    assert_eq!(judge("era", two, 30), "proven");
    // The leader of the newest term knows what it has configured.
    assert_eq!(judge("era", two, 31), "proven");
    assert_eq!(judge("era", scene.names.instance("x"), 15), "foreign");
    assert_eq!(judge("era", scene.names.instance("x"), 9), "unproven");
    assert_eq!(judge("former-era", one, 15), "unproven");
    assert_eq!(judge("another-era", one, 15), "foreign");
}

#[test]
fn terms_are_counted_on_and_pruned_from_the_oldest() {
    let mut history = History::default();
    assert_eq!(history.next_number(), 1);
    for number in 1..=45 {
        history.add(Revision(number * 10), number, model::InstanceId::from_u128(number.into()));
    }
    assert_eq!(history.next_number(), 46);
    assert_eq!(history.surplus().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    history.prune(1);
    assert_eq!(history.surplus().collect::<Vec<_>>(), [2, 3, 4, 5]);
}
