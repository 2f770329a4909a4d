//! A large cluster as records and inventories: one node per pool, every volume with three replicas,
//! every second one published. Short of room, each volume lacks one replica and no pool has space.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    AttemptId, Bytes, Cluster, Epoch, Era, Extra, Host, HostId, HostInventory, HostLayout,
    HostSpec, HostStage, InstanceId, Inventory, Key, Membership, Meta, Node, NodeId, NodeLayout,
    NodeSpec, PathHealth, PathSeen, Pool, PoolHealth, PoolId, PoolLayout, PoolSeen, PoolSpec,
    PoolStage, Publication, Publish, Record, Replica, ReplicaHealth, ReplicaId, ReplicaSeen,
    ReplicaStage, Revision, Roster, SCHEMA, Target, TargetHealth, TargetSeen, TargetStage, Time,
    Volume, VolumeId, VolumeLayout, VolumeSpec, VolumeStage,
};
use plan::Request;

#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) pools: usize,
    pub(crate) volumes: usize,
    pub(crate) short_of_room: bool,
}

const SIZE: Bytes = Bytes::gib(1);
pub(crate) const HOST: HostId = HostId::from_u128(1 << 100);

fn number(index: usize) -> u128 {
    u128::try_from(index).expect("a small number") + 1
}

pub(crate) fn node_id(index: usize) -> NodeId {
    NodeId::from_u128((1 << 96) | number(index))
}

pub(crate) fn pool_id(index: usize) -> PoolId {
    PoolId::from_u128((2 << 96) | number(index))
}

pub(crate) fn volume_id(index: usize) -> VolumeId {
    // Spread over the key space, as random ids are.
    let mixed = number(index).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    VolumeId::from_u128(mixed)
}

fn replica_id(volume: usize, copy: usize) -> ReplicaId {
    let mixed = (number(volume) * 4 + number(copy)).wrapping_mul(0xda94_2042_e4dd_58b5_bf58_476d);
    ReplicaId::from_u128(mixed)
}

pub(crate) fn instance(index: usize) -> InstanceId {
    InstanceId::from_u128((3 << 96) | number(index))
}

impl Shape {
    fn copies(&self) -> usize {
        if self.short_of_room { 2 } else { 3 }
    }

    fn pool_of(&self, volume: usize, copy: usize) -> usize {
        (volume + copy * (self.pools / 3)) % self.pools
    }

    fn capacity(&self) -> Bytes {
        let held = self.volumes * self.copies() / self.pools + 2;
        let held = u64::try_from(held).expect("a small number");
        if self.short_of_room { Bytes(SIZE.0 * held) } else { Bytes(SIZE.0 * (held * 4 + 64)) }
    }

    /// Full to the brim where room is short.
    pub(crate) fn pool_seen(&self, spare: Bytes) -> PoolSeen {
        let capacity = self.capacity();
        let used =
            if self.short_of_room { capacity.saturating_sub(spare) } else { Bytes(SIZE.0 * 64) };
        let reserved = used;
        PoolSeen { health: PoolHealth::Online, capacity, used, reserved, mark: None, carried: None }
    }

    pub(crate) fn volume(&self, index: usize) -> (Volume, Membership) {
        let id = volume_id(index);
        let published = index.is_multiple_of(2);
        let copy = |copy| {
            let pool = self.pool_of(index, copy);
            let mut replica =
                Replica::placed(replica_id(index, copy), pool_id(pool), node_id(pool));
            replica.stage = ReplicaStage::Ready;
            replica
        };
        let replicas: Vec<Replica> = (0..self.copies()).map(copy).collect();
        let mut membership = Membership::founded(id, replicas.iter().map(|replica| replica.id));
        let mut layout = VolumeLayout {
            stage: VolumeStage::Created,
            size: SIZE,
            exposed: SIZE,
            placed: 3,
            ..VolumeLayout::default()
        };
        let mut spec = VolumeSpec { size: SIZE, replicas: 3, thin: false, ..VolumeSpec::default() };
        if published {
            let home = self.pool_of(index, 0);
            let attempt = AttemptId::from_u128(number(index));
            spec.publish = Some(Publish {
                attempt,
                deadline: Time(1),
                hosts: BTreeSet::from([HOST]),
                extra: Extra::new(),
            });
            layout.epoch = Epoch(1);
            layout.publication = Publication::Published { attempt };
            layout.hosts = BTreeMap::from([(HOST, HostStage::Admitted)]);
            layout.target = Some(Target {
                node: node_id(home),
                instance: instance(home),
                epoch: Epoch(1),
                stage: TargetStage::Serving,
                since: Time(1),
                extra: Extra::new(),
            });
            membership.epoch = Epoch(1);
            membership.owner = Some(instance(home));
            membership.clean = false;
        }
        layout.replicas = replicas;
        (Volume { meta: Meta::new(id, format!("v{index}"), Time(1)), spec, layout }, membership)
    }

    pub(crate) fn records(&self) -> Vec<(Key, Record)> {
        let mut records = vec![(
            Key::Cluster,
            Record::Cluster(Cluster {
                era: Era::from_u128(7),
                schema: SCHEMA,
                former: vec![],
                extra: Extra::new(),
            }),
        )];
        let host = Host {
            meta: Meta::new(HOST, "h", Time(1)),
            spec: HostSpec::default(),
            layout: HostLayout { instance: Some(instance(100_000)), ..HostLayout::default() },
        };
        records.push((Key::Host(HOST), Record::Host(host.into())));
        for index in 0..self.pools {
            let layout = NodeLayout { instance: Some(instance(index)), ..NodeLayout::default() };
            let node = Node {
                meta: Meta::new(node_id(index), format!("n{index}"), Time(1)),
                spec: NodeSpec::default(),
                layout,
            };
            let mut pool = Pool {
                meta: Meta::new(pool_id(index), format!("p{index}"), Time(1)),
                spec: PoolSpec::new(node_id(index), vec!["/dev/sdb".into()]),
                layout: PoolLayout::default(),
            };
            pool.layout.stage = PoolStage::Ready;
            records.push((Key::Node(node_id(index)), Record::Node(node.into())));
            records.push((Key::Pool(pool_id(index)), Record::Pool(pool.into())));
        }
        for index in 0..self.volumes {
            let (volume, membership) = self.volume(index);
            let id = volume.meta.id;
            let name = Key::name("volume", &volume.meta.name);
            records.push((name, Record::Name(id.to_string())));
            records.push((Key::Volume(id), Record::Volume(volume.into())));
            records.push((Key::Membership(id), Record::Membership(membership.into())));
        }
        records
    }

    /// What every engine reports, in order of nodes.
    pub(crate) fn inventories(&self) -> Vec<Inventory> {
        let mut all: Vec<Inventory> = (0..self.pools)
            .map(|index| Inventory {
                node: node_id(index),
                instance: instance(index),
                generation: Revision(u64::MAX >> 1),
                sequence: 1,
                pools: BTreeMap::from([(pool_id(index), self.pool_seen(Bytes::ZERO))]),
                replicas: BTreeMap::new(),
                targets: BTreeMap::new(),
                devices: Vec::new(),
            })
            .collect();
        for index in 0..self.volumes {
            let (volume, _) = self.volume(index);
            let id = volume.meta.id;
            for (copy, replica) in volume.layout.replicas.iter().enumerate() {
                let seen = ReplicaSeen {
                    size: SIZE,
                    epoch: volume.layout.epoch,
                    roster: Roster(1),
                    ..ReplicaSeen::new(id, replica.pool, ReplicaHealth::Online)
                };
                all[self.pool_of(index, copy)].replicas.insert(replica.id, seen);
            }
            if let Some(target) = &volume.layout.target {
                let seen = TargetSeen {
                    hosts: BTreeSet::from([HOST]),
                    ..TargetSeen::new(target.epoch, TargetHealth::Serving, SIZE)
                };
                all[self.pool_of(index, 0)].targets.insert(id, seen);
            }
        }
        all
    }

    pub(crate) fn host_inventory(&self) -> HostInventory {
        let published = (0..self.volumes).map(|index| self.volume(index).0);
        let paths = published.filter_map(|volume| {
            let target = volume.layout.target?;
            let health = PathHealth::Live;
            let path = PathSeen { node: target.node, epoch: target.epoch, health };
            Some((volume.meta.id, vec![path]))
        });
        HostInventory {
            host: HOST,
            instance: instance(100_000),
            generation: Revision(u64::MAX >> 1),
            sequence: 1,
            paths: paths.collect(),
            shares: BTreeMap::new(),
        }
    }
}

pub(crate) fn create(shape: &Shape, index: usize) -> Request {
    let index = shape.volumes + 10_000 + index;
    let spec = VolumeSpec { size: SIZE, replicas: 3, ..VolumeSpec::default() };
    Request::CreateVolume {
        id: volume_id(index),
        name: format!("v{index}"),
        labels: BTreeMap::new(),
        spec: spec.into(),
    }
}
