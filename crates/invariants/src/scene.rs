//! A small cluster for tests: four nodes with a pool each, two hosts, a leader, and one volume.
//!
//! Every state is reached by legal commits that are checked on the way, so a false alarm anywhere
//! on the way of a volume fails every test.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::ToString,
    vec,
    vec::Vec,
};

use model::{
    AttemptId, Buried, Bytes, Cluster, Epoch, Era, Event, EventKind, Extra, Host, HostId,
    HostLayout, HostSpec, HostStage, InstanceId, Inventory, Key, Membership, Meta, Node, NodeId,
    NodeLayout, NodeSpec, Pool, PoolHealth, PoolId, PoolLayout, PoolSeen, PoolSpec, PoolStage,
    Publish, Record, Replica, ReplicaHealth, ReplicaId, ReplicaSeen, ReplicaStage, Revision,
    Roster, Severity, Snapshot, SnapshotId, SnapshotLayout, SnapshotSpec, SnapshotStage, Subject,
    Target, TargetRef, TargetStage, Time, Tombstone, Volume, VolumeId, VolumeLayout, VolumeSpec,
    VolumeStage, Write,
};

use crate::{Author, Broken, Commit, Records, Seen, check_all, check_commit};

pub(crate) const VOLUME: VolumeId = VolumeId::from_u128(0x100);
pub(crate) const SNAPSHOT: SnapshotId = SnapshotId::from_u128(0x200);

pub(crate) const fn node(number: u128) -> NodeId {
    NodeId::from_u128(number)
}

pub(crate) const fn pool(number: u128) -> PoolId {
    PoolId::from_u128(0x10 + number)
}

pub(crate) const fn replica(number: u128) -> ReplicaId {
    ReplicaId::from_u128(0x20 + number)
}

pub(crate) const fn host(number: u128) -> HostId {
    HostId::from_u128(0x30 + number)
}

/// The engine process of a node.
pub(crate) const fn engine(number: u128) -> InstanceId {
    InstanceId::from_u128(0x40 + number)
}

pub(crate) const fn attempt(number: u128) -> AttemptId {
    AttemptId::from_u128(0x50 + number)
}

/// Replica `number` as it is placed in pool `number` on node `number`.
pub(crate) fn copy(number: u128) -> Replica {
    Replica::placed(replica(number), pool(number), node(number))
}

pub(crate) fn put(record: Record) -> Write {
    Write::put(record.key().unwrap(), record)
}

pub(crate) fn bury(number: u128, buried: Buried) -> Write {
    put(Record::Tombstone(Tombstone::new(node(number), buried, Time(0)).into()))
}

pub(crate) fn bury_copy(number: u128) -> Write {
    bury(number, Buried::Replica { replica: replica(number), pool: pool(number) })
}

pub(crate) fn event(number: u64, severity: Severity) -> Write {
    let event = Event {
        at: Time(0),
        subject: Subject::Volume(VOLUME),
        name: "v".into(),
        kind: EventKind::Stepped,
        words: "words".into(),
        severity,
        extra: Extra::new(),
    };
    Write::put(Key::Event(number), Record::Event(event.into()))
}

#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) records: Records,
    pub(crate) leader: Author,
}

impl Scene {
    /// Nodes, pools, hosts and a leader.
    pub(crate) fn empty() -> Self {
        let mut scene = Self { records: Records::default(), leader: Author::Other };
        let cluster =
            Cluster { era: Era::from_u128(1), schema: 1, former: Vec::new(), extra: Extra::new() };
        let leader = Record::Leader(InstanceId::from_u128(0x99));
        scene.legal_by(Author::Other, &[put(Record::Cluster(cluster)), put(leader)]);
        scene.leader = Author::Leader { created: scene.records.revision };
        let nodes: Vec<_> = (1..=4).map(|number| put(Record::Node(new_node(number)))).collect();
        let pools: Vec<_> = (1..=4).flat_map(new_pool).collect();
        let hosts: Vec<_> = (1..=2).map(|number| put(Record::Host(new_host(number)))).collect();
        scene.legal(&nodes);
        scene.legal(&pools);
        scene.legal(&hosts);
        scene
    }

    /// And a thick volume with blank copies on nodes 1 and 2, just asked for.
    pub(crate) fn founded() -> Self {
        let mut scene = Self::empty();
        scene.legal(&found(|_| {}));
        scene
    }

    /// And its copies observed, its target serving on node 1 at epoch 1 to host 1.
    pub(crate) fn serving() -> Self {
        let mut scene = Self::founded();
        scene.legal(&scene.edit(|volume, _| {
            volume.layout.stage = VolumeStage::Created;
            volume.layout.replicas.iter_mut().for_each(|r| r.stage = ReplicaStage::Ready);
        }));
        scene.legal(&scene.edit(|volume, _| {
            let hosts = BTreeSet::from([host(1)]);
            let (attempt, deadline) = (attempt(1), Time(1_000));
            volume.spec.publish = Some(Publish { attempt, deadline, hosts, extra: Extra::new() });
            volume.meta.spec_revision += 1;
        }));
        scene.legal(&scene.issue(1, 1));
        scene.legal(&scene.stage(TargetStage::Starting));
        scene.claim(1);
        scene.legal(&scene.edit(|volume, _| {
            volume.layout.target.as_mut().unwrap().stage = TargetStage::Serving;
            volume.layout.hosts.insert(host(1), HostStage::Admitted);
        }));
        scene
    }

    /// And a third, healthy copy on node 3, which nobody asked for.
    pub(crate) fn surplus() -> Self {
        let mut scene = Self::serving();
        scene.legal(&scene.edit(|volume, _| {
            volume.layout.replicas.push(copy(3));
            volume.layout.placed += 1;
        }));
        scene.legal_by(
            by(1),
            &scene.edit(|_, membership| {
                membership.children.insert(replica(3), true);
                membership.roster = membership.roster.next();
            }),
        );
        scene
    }

    /// And shut down cleanly: nobody owns the membership.
    pub(crate) fn stopped(mut self) -> Self {
        self.legal(&self.stage(TargetStage::Stopping));
        self.legal_by(
            by(1),
            &self.edit(|_, membership| {
                membership.clean = true;
                membership.owner = None;
            }),
        );
        self.legal(&self.edit(|volume, _| volume.layout.target = None));
        self
    }

    /// And a snapshot with a copy on node 1.
    pub(crate) fn with_snapshot(mut self) -> Self {
        let snapshot = Snapshot {
            meta: Meta::new(SNAPSHOT, "s", Time(0)),
            spec: SnapshotSpec {
                volume: VOLUME,
                attempt: attempt(9),
                deadline: Time(1_000),
                deleting: false,
                extra: Extra::new(),
            },
            layout: SnapshotLayout {
                stage: SnapshotStage::Ready,
                copies: BTreeSet::from([replica(1)]),
                ..SnapshotLayout::default()
            },
        };
        let name = name("snapshot", "s", &SNAPSHOT);
        self.legal(&[put(Record::Snapshot(snapshot.into())), name]);
        self
    }

    /// A user wants the volume to go.
    pub(crate) fn ask_to_delete(&mut self) {
        self.legal(&self.edit(|volume, _| {
            volume.spec.deleting = true;
            volume.meta.spec_revision += 1;
        }));
    }

    /// The writes that delete the volume as a whole.
    pub(crate) fn delete(&self) -> Vec<Write> {
        let volume = &self.records.volumes[&VOLUME];
        let mut writes = vec![
            Write::delete(Key::Volume(VOLUME)),
            Write::delete(Key::Membership(VOLUME)),
            Write::delete(Key::name("volume", "v")),
        ];
        for replica in &volume.layout.replicas {
            let buried = Buried::Replica { replica: replica.id, pool: replica.pool };
            writes
                .push(put(Record::Tombstone(Tombstone::new(replica.node, buried, Time(0)).into())));
        }
        for target in volume.layout.target.iter().map(Target::reference) {
            let buried = Buried::Target { volume: VOLUME, epoch: target.epoch };
            writes
                .push(put(Record::Tombstone(Tombstone::new(target.node, buried, Time(0)).into())));
        }
        writes
    }

    /// The writes of a change to the volume: only what differs is written.
    pub(crate) fn edit(&self, edit: impl FnOnce(&mut Volume, &mut Membership)) -> Vec<Write> {
        let (was, membership_was) = self.records.volume(VOLUME).unwrap();
        let (mut volume, mut membership) = (was.clone(), membership_was.clone());
        edit(&mut volume, &mut membership);
        let mut writes = Vec::new();
        if volume != *was {
            writes.push(put(Record::Volume(volume.into())));
        }
        if membership != *membership_was {
            writes.push(put(Record::Membership(membership.into())));
        }
        writes
    }

    /// A new epoch for a target on a node; the old target waits for its burial.
    pub(crate) fn issue(&self, number: u128, epoch: u64) -> Vec<Write> {
        self.edit(|volume, membership| issue(volume, membership, number, epoch))
    }

    pub(crate) fn stage(&self, stage: TargetStage) -> Vec<Write> {
        self.edit(|volume, _| volume.layout.target.as_mut().unwrap().stage = stage)
    }

    /// The engine of a node claims the membership.
    pub(crate) fn claim(&mut self, number: u128) {
        self.legal_by(
            by(number),
            &self.edit(|_, membership| {
                membership.owner = Some(engine(number));
                membership.roster = membership.roster.next();
                membership.clean = false;
            }),
        );
    }

    pub(crate) fn edit_node(&self, number: u128, edit: impl FnOnce(&mut Node)) -> Vec<Write> {
        let mut node = self.records.nodes[&node(number)].clone();
        edit(&mut node);
        vec![put(Record::Node(node))]
    }

    pub(crate) fn edit_pool(&self, number: u128, edit: impl FnOnce(&mut Pool)) -> Vec<Write> {
        let mut pool = self.records.pools[&pool(number)].clone();
        edit(&mut pool);
        vec![put(Record::Pool(pool))]
    }

    pub(crate) fn edit_snapshot(&self, edit: impl FnOnce(&mut Snapshot)) -> Vec<Write> {
        let mut snapshot = self.records.snapshots[&SNAPSHOT].clone();
        edit(&mut snapshot);
        vec![put(Record::Snapshot(snapshot))]
    }

    /// A person gives up the pool of that number.
    pub(crate) fn forget_pool(&mut self, number: u128) {
        self.legal(&self.edit_pool(number, |pool| {
            pool.spec.forgotten = true;
            pool.meta.spec_revision += 1;
        }));
    }

    /// Everything that is stored, as one list.
    pub(crate) fn all(&self) -> Vec<Write> {
        let records = &self.records;
        let mut writes = Vec::new();
        writes.extend(records.nodes.values().cloned().map(|record| put(Record::Node(record))));
        writes.extend(records.pools.values().cloned().map(|record| put(Record::Pool(record))));
        writes.extend(records.volumes.values().cloned().map(|record| put(Record::Volume(record))));
        let memberships = records.memberships.values().cloned();
        writes.extend(memberships.map(|record| put(Record::Membership(record))));
        let snapshots = records.snapshots.values().cloned();
        writes.extend(snapshots.map(|record| put(Record::Snapshot(record))));
        writes.extend(records.hosts.values().cloned().map(|record| put(Record::Host(record))));
        let names = records.names.iter();
        writes.extend(names.map(|((kind, text), id)| name(kind, text, id)));
        writes
    }

    pub(crate) fn apply(&mut self, author: Author, writes: &[Write]) -> Commit {
        self.records.apply(self.records.revision.next(), author, writes)
    }

    /// A commit of the leader that must break nothing.
    pub(crate) fn legal(&mut self, writes: &[Write]) {
        self.legal_by(self.leader, writes);
    }

    pub(crate) fn legal_by(&mut self, author: Author, writes: &[Write]) {
        let commit = self.apply(author, writes);
        assert_eq!(check_commit(&self.records, &commit), [], "a legal commit");
        assert_eq!(check_all(&self.records), [], "a legal state");
    }

    /// A commit of the leader that must break this promise, and maybe others.
    pub(crate) fn breaks(&self, promise: &str, writes: &[Write]) {
        self.breaks_by(self.leader, promise, writes);
    }

    pub(crate) fn breaks_by(&self, author: Author, promise: &str, writes: &[Write]) {
        let mut scene = self.clone();
        let commit = scene.apply(author, writes);
        must_name(promise, &check_commit(&scene.records, &commit));
    }
}

pub(crate) fn must_name(promise: &str, broken: &[Broken]) {
    assert!(broken.iter().any(|broken| broken.promise == promise), "{promise} not in {broken:#?}");
}

/// The engine of a node, as an author.
pub(crate) const fn by(number: u128) -> Author {
    Author::Engine { instance: engine(number) }
}

pub(crate) fn issue(volume: &mut Volume, membership: &mut Membership, number: u128, epoch: u64) {
    let old = volume.layout.target.replace(Target {
        node: node(number),
        instance: engine(number),
        epoch: Epoch(epoch),
        stage: TargetStage::Fencing,
        since: Time(0),
        extra: Extra::new(),
    });
    volume.layout.old_targets.extend(old.as_ref().map(Target::reference));
    volume.layout.epoch = Epoch(epoch);
    membership.epoch = Epoch(epoch);
    membership.owner = None;
}

/// The writes that found the volume.
pub(crate) fn found(edit: impl FnOnce(&mut Volume)) -> Vec<Write> {
    let mut volume = Volume {
        meta: Meta::new(VOLUME, "v", Time(0)),
        spec: VolumeSpec { size: Bytes::gib(1), replicas: 2, ..VolumeSpec::default() },
        layout: VolumeLayout {
            replicas: vec![copy(1), copy(2)],
            placed: 2,
            size: Bytes::gib(1),
            exposed: Bytes::gib(1),
            ..VolumeLayout::default()
        },
    };
    edit(&mut volume);
    let members = volume.layout.replicas.iter().map(|replica| replica.id);
    let membership = Membership::founded(VOLUME, members);
    vec![
        put(Record::Volume(volume.into())),
        put(Record::Membership(membership.into())),
        name("volume", "v", &VOLUME),
    ]
}

pub(crate) fn reference(number: u128, epoch: u64) -> TargetRef {
    TargetRef { node: node(number), epoch: Epoch(epoch) }
}

pub(crate) fn name(kind: &str, text: &str, id: &impl ToString) -> Write {
    Write::put(Key::name(kind, text), Record::Name(id.to_string()))
}

/// The true machines of a scene: every replica of the layout at its place.
pub(crate) struct Machines {
    pub(crate) inventories: BTreeMap<NodeId, Inventory>,
    pub(crate) steady: BTreeSet<NodeId>,
    pub(crate) steady_hosts: BTreeSet<HostId>,
}

impl Machines {
    pub(crate) fn of(records: &Records) -> Self {
        let mut inventories: BTreeMap<NodeId, Inventory> = BTreeMap::new();
        for number in 1..=4 {
            let seen = PoolSeen {
                health: PoolHealth::Online,
                capacity: Bytes::gib(10),
                used: Bytes::ZERO,
                reserved: Bytes::ZERO,
                mark: None,
                carried: None,
            };
            let inventory = Inventory {
                node: node(number),
                instance: engine(number),
                generation: Revision::ZERO,
                sequence: 1,
                pools: BTreeMap::from([(pool(number), seen)]),
                replicas: BTreeMap::new(),
                targets: BTreeMap::new(),
                devices: Vec::new(),
            };
            inventories.insert(node(number), inventory);
        }
        for volume in records.volumes.values() {
            for replica in &volume.layout.replicas {
                let inventory = inventories.get_mut(&replica.node).unwrap();
                inventory.replicas.insert(replica.id, made(volume, replica));
            }
        }
        let steady = inventories.keys().copied().collect();
        let steady_hosts = (1..=2).map(host).collect();
        Self { inventories, steady, steady_hosts }
    }

    pub(crate) fn seen(&self) -> Seen<'_> {
        Seen {
            inventories: &self.inventories,
            steady: &self.steady,
            steady_hosts: &self.steady_hosts,
            overcommit: 4,
        }
    }
}

fn made(volume: &Volume, replica: &Replica) -> ReplicaSeen {
    ReplicaSeen {
        size: volume.layout.size,
        epoch: volume.layout.epoch,
        roster: Roster(1),
        ..ReplicaSeen::new(volume.meta.id, replica.pool, ReplicaHealth::Online)
    }
}

fn new_node(number: u128) -> Box<Node> {
    Box::new(Node {
        meta: Meta::new(node(number), format!("n{number}"), Time(0)),
        spec: NodeSpec { address: "address".into(), ..NodeSpec::default() },
        layout: NodeLayout { instance: Some(engine(number)), ..NodeLayout::default() },
    })
}

fn new_pool(number: u128) -> [Write; 2] {
    let text = format!("p{number}");
    let record = Pool {
        meta: Meta::new(pool(number), text.as_str(), Time(0)),
        spec: PoolSpec::new(node(number), vec!["/dev/disk".into()]),
        layout: PoolLayout { stage: PoolStage::Ready, extra: Extra::new() },
    };
    [put(Record::Pool(record.into())), name("pool", &text, &pool(number))]
}

fn new_host(number: u128) -> Box<Host> {
    Box::new(Host {
        meta: Meta::new(host(number), format!("h{number}"), Time(0)),
        spec: HostSpec::default(),
        layout: HostLayout::default(),
    })
}
