//! Configs for the checks, said in few words.

use std::collections::BTreeMap;

use model::{
    Admission, Buried, Bytes, ConfigHead, Epoch, Era, InstanceId, Key, Mark, Meta, NodeConfig,
    NodeId, NodePart, Pool, PoolId, PoolItem, PoolLayout, PoolSpec, ReplicaId, ReplicaItem,
    Revision, Scope, Time, Volume, VolumeId, VolumeLayout, VolumePart, VolumeSpec,
};

#[derive(Clone, Debug)]
pub(super) struct Sketch {
    node: NodeId,
    head: ConfigHead,
    pools: BTreeMap<PoolId, String>,
    replicas: BTreeMap<ReplicaId, (PoolId, Bytes)>,
    tombstones: Vec<Buried>,
    must_exist: bool,
    epoch: Option<Epoch>,
}

impl Sketch {
    pub(super) fn new(node: NodeId, instance: InstanceId) -> Self {
        let head = ConfigHead {
            era: Era::from_u128(1),
            term: InstanceId::from_u128(0xc0),
            instance,
            generation: Revision(2),
            scope: Scope::Whole,
            former: Vec::new(),
        };
        Self {
            node,
            head,
            pools: BTreeMap::new(),
            replicas: BTreeMap::new(),
            tombstones: Vec::new(),
            must_exist: false,
            epoch: None,
        }
    }

    /// The same head, and nothing else.
    pub(super) fn difference_of(other: &Self) -> Self {
        Self { head: other.head.clone(), ..Self::new(other.node, other.head.instance) }
    }

    pub(super) fn pool(mut self, id: PoolId, disk: String) -> Self {
        self.pools.insert(id, disk);
        self
    }

    pub(super) fn replica(mut self, id: ReplicaId, pool: PoolId, size: Bytes) -> Self {
        self.replicas.insert(id, (pool, size));
        self
    }

    pub(super) fn tombstone(mut self, buried: Buried) -> Self {
        self.tombstones.push(buried);
        if let Buried::Pool { pool } = buried {
            self.pools.remove(&pool);
        }
        self
    }

    pub(super) fn must_exist(mut self) -> Self {
        self.must_exist = true;
        self
    }

    pub(super) fn admitting(mut self, epoch: Epoch) -> Self {
        self.epoch = Some(epoch);
        self
    }

    pub(super) fn at(mut self, generation: u64) -> Self {
        self.head.generation = Revision(generation);
        self
    }

    pub(super) fn since(mut self, base: u64) -> Self {
        self.head.scope = Scope::Difference { base: Revision(base) };
        self
    }

    pub(super) fn era(mut self, era: u128) -> Self {
        self.head.era = Era::from_u128(era);
        self
    }

    pub(super) fn replacing(mut self, era: u128) -> Self {
        self.head.former.push(Era::from_u128(era));
        self
    }

    pub(super) fn for_another_instance(mut self) -> Self {
        self.head.instance = InstanceId::from_u128(0xdead);
        self
    }

    pub(super) fn generation(&self) -> Revision {
        self.head.generation
    }

    pub(super) fn mark(&self) -> Mark {
        let ConfigHead { era, term, generation, .. } = self.head;
        Mark { era, term, revision: generation }
    }

    pub(super) fn config(&self) -> NodeConfig {
        let pools = self.pools.iter().map(|(id, disk)| (Key::Pool(*id), self.pool_part(*id, disk)));
        let replicas = self.replicas.iter().map(|(id, (pool, size))| {
            let part = self.volume_part(*id, *pool, *size);
            (Key::Volume(part.volume), NodePart::Volume(part))
        });
        let tombstones = self.tombstones.iter();
        let tombstones =
            tombstones.map(|buried| (Key::Tombstone(self.node, *buried), NodePart::Tombstone));
        let parts = pools.chain(replicas).chain(tombstones).map(|(key, part)| (key, Some(part)));
        NodeConfig { head: self.head.clone(), parts: parts.collect() }
    }

    fn pool_part(&self, id: PoolId, disk: &str) -> NodePart {
        let disks = vec![disk.to_owned()];
        let spec = PoolSpec::new(self.node, disks.clone());
        let meta = Meta::new(id, "pool", Time(1));
        let carried = Box::new(Pool { meta, spec, layout: PoolLayout::default() });
        NodePart::Pool(PoolItem { id, disks, must_exist: self.must_exist, carried })
    }

    /// Each replica is of a volume of its own.
    fn volume_part(&self, id: ReplicaId, pool: PoolId, size: Bytes) -> VolumePart {
        let volume = VolumeId(id.0);
        let admission = self.epoch.map(|epoch| Admission { epoch, node: Some(self.node) });
        let replica = ReplicaItem {
            id,
            pool,
            must_exist: self.must_exist,
            size,
            thin: false,
            origin: None,
            admission,
        };
        let carried = Volume {
            meta: Meta::new(volume, "volume", Time(1)),
            spec: VolumeSpec { size, replicas: 1, ..VolumeSpec::default() },
            layout: VolumeLayout::default(),
        };
        let (replicas, carried) = (vec![replica], Box::new(carried));
        VolumePart { volume, replicas, target: None, needs: [].into(), carried }
    }
}
