//! One volume over some nodes: its ids, and what each engine is told about it.

use std::{collections::BTreeMap, path::PathBuf};

use model::{
    Admission, Buried, Bytes, ChildItem, ConfigHead, Epoch, Era, HostId, InstanceId, Key, Meta,
    NodeConfig, NodeId, NodePart, Pool, PoolId, PoolItem, PoolLayout, PoolSpec, ReplicaId,
    ReplicaItem, Revision, Scope, TargetItem, Time, Volume, VolumeId, VolumeLayout, VolumePart,
    VolumeSpec,
};

pub const VOLUME: VolumeId = VolumeId::from_u128(0x70_0001);
pub const HOST: HostId = HostId::from_u128(0x40_0001);

/// What never changes while it runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Node by node, the file of its pool. Each holds one replica.
    pub disks: Vec<PathBuf>,
    /// One more node, without a disk: the target is there.
    pub has_bare: bool,
    pub size: Bytes,
    /// The name that the workload connects with.
    pub host_nqn: String,
}

/// Where the target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    pub node: NodeId,
    pub instance: InstanceId,
    pub epoch: Epoch,
}

/// What changes, and is told.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// The highest epoch ever issued.
    pub epoch: Epoch,
    pub seat: Option<Seat>,
    pub addresses: BTreeMap<NodeId, String>,
    /// Nodes whose pool and replica were seen: they are never made again.
    pub made: BTreeMap<NodeId, bool>,
}

impl Plan {
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.disks.len() + usize::from(self.has_bare)).map(node)
    }

    /// The node without a disk, if there is one.
    pub fn bare(&self) -> Option<NodeId> {
        self.has_bare.then(|| node(self.disks.len()))
    }

    fn homes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.disks.len()).map(node)
    }

    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        self.homes().map(replica_of)
    }

    /// Everything that an engine must have.
    pub fn config(
        &self,
        own: NodeId,
        instance: InstanceId,
        generation: Revision,
        course: &Course,
    ) -> NodeConfig {
        let head = ConfigHead {
            era: Era::from_u128(1),
            term: InstanceId::from_u128(0xc0),
            instance,
            generation,
            scope: Scope::Whole,
            former: Vec::new(),
        };
        let mut parts = BTreeMap::new();
        if self.bare() != Some(own) {
            parts.insert(Key::Pool(pool_of(own)), Some(self.pool(own, course)));
        }
        parts.insert(Key::Volume(VOLUME), Some(NodePart::Volume(self.volume(own, course))));
        let nqn = self.host_nqn.clone();
        parts.insert(Key::Host(HOST), Some(NodePart::Host { nqn }));
        for (peer, address) in &course.addresses {
            let address = address.clone();
            if *peer != own {
                parts.insert(Key::Node(*peer), Some(NodePart::Peer { address }));
            }
        }
        if let Some(former) = course.epoch.0.checked_sub(1).filter(|former| *former > 0) {
            // Whatever served before is over.
            let buried = Buried::Target { volume: VOLUME, epoch: Epoch(former) };
            parts.insert(Key::Tombstone(own, buried), Some(NodePart::Tombstone));
        }
        NodeConfig { head, parts }
    }

    /// The volume's record, as the store and every pool keep it.
    pub fn record(&self, course: &Course) -> Volume {
        let replicas = u8::try_from(self.disks.len()).unwrap_or(u8::MAX);
        Volume {
            meta: Meta::new(VOLUME, "volume", Time(1)),
            spec: VolumeSpec { size: self.size, replicas, thin: true, ..VolumeSpec::default() },
            layout: VolumeLayout { epoch: course.epoch, ..VolumeLayout::default() },
        }
    }

    fn pool(&self, own: NodeId, course: &Course) -> NodePart {
        let at = self.nodes().position(|node| node == own);
        let disk = at.and_then(|at| self.disks.get(at)?.to_str()).unwrap_or_default();
        let disks = vec![disk.to_owned()];
        let spec = PoolSpec::new(own, disks.clone());
        let id = pool_of(own);
        let meta = Meta::new(id, "pool", Time(1));
        let carried = Box::new(Pool { meta, spec, layout: PoolLayout::default() });
        NodePart::Pool(PoolItem { id, disks, must_exist: course.is_made(own), carried })
    }

    fn volume(&self, own: NodeId, course: &Course) -> VolumePart {
        let node = course.seat.map(|seat| seat.node);
        let admission =
            (course.epoch > Epoch::ZERO).then_some(Admission { epoch: course.epoch, node });
        let replica = ReplicaItem {
            id: replica_of(own),
            pool: pool_of(own),
            must_exist: course.is_made(own),
            size: self.size,
            thin: true,
            origin: None,
            admission,
        };
        let target = course.seat.filter(|seat| seat.node == own).map(|seat| self.target(seat));
        let carried = Box::new(self.record(course));
        let replicas = if self.bare() == Some(own) { vec![] } else { vec![replica] };
        VolumePart { volume: VOLUME, replicas, target, needs: [].into(), carried }
    }

    fn target(&self, seat: Seat) -> TargetItem {
        let child = |node: NodeId| ChildItem {
            replica: replica_of(node),
            node,
            rebuild: true,
            retire: false,
        };
        TargetItem {
            epoch: seat.epoch,
            instance: seat.instance,
            serve: true,
            size: self.size,
            children: self.homes().map(child).collect(),
            hosts: [HOST].into(),
            snapshots: Vec::new(),
        }
    }
}

impl Course {
    fn is_made(&self, node: NodeId) -> bool {
        self.made.get(&node).copied().unwrap_or(false)
    }
}

pub fn node(at: usize) -> NodeId {
    NodeId::from_u128(0x10_0001 + at as u128)
}

pub fn pool_of(node: NodeId) -> PoolId {
    PoolId::from_u128(0x20_0000_0000 + node.0.as_u128())
}

pub fn replica_of(node: NodeId) -> ReplicaId {
    ReplicaId::from_u128(0x30_0000_0000 + node.0.as_u128())
}
