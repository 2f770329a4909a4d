//! The config that a controller would compute, from the spec and the records.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use model::{
    Admission, Bytes, ChildItem, ConfigHead, Epoch, Era, HostId, InstanceId, Key, Meta, NodeConfig,
    NodeId, NodePart, Pool, PoolId, PoolItem, PoolLayout, PoolSpec, ReplicaId, ReplicaItem,
    Revision, Scope, TargetItem, Time, Volume, VolumeId, VolumeLayout, VolumePart, VolumeSpec,
};

use super::volume_id;
use crate::engine_command::{identity::named, spec};

#[derive(Debug)]
pub(super) struct Plan {
    node: NodeId,
    instance: InstanceId,
    pub(super) era: Era,
    pub(super) generation: Revision,
    pub(super) pools: BTreeMap<PoolId, PlannedPool>,
    pub(super) volumes: Vec<PlannedVolume>,
}

#[derive(Debug)]
pub(super) struct PlannedPool {
    pub(super) disk: String,
    /// It was seen before: it is never made again.
    pub(super) is_known: bool,
}

#[derive(Debug)]
pub(super) struct PlannedVolume {
    pub(super) id: VolumeId,
    pub(super) name: String,
    pub(super) size: Bytes,
    thin: bool,
    hosts: BTreeMap<HostId, String>,
    pub(super) replicas: Vec<(ReplicaId, PoolId)>,
    pub(super) is_known: bool,
    pub(super) epoch: Epoch,
}

impl Plan {
    pub(super) fn new(
        node: NodeId,
        instance: InstanceId,
        volumes: &[spec::Volume],
    ) -> Result<Self> {
        let (mut pools, mut planned) = (BTreeMap::new(), Vec::new());
        for volume in volumes {
            let id = volume_id(volume);
            let mut replicas = Vec::new();
            for disk in &volume.disks {
                let disk = disk.to_str().context("a disk's path must be UTF-8")?.to_owned();
                let pool = PoolId(named("pool", &disk));
                replicas.push((ReplicaId(named("replica", &format!("{id} {disk}"))), pool));
                pools.insert(pool, PlannedPool { disk, is_known: false });
            }
            planned.push(PlannedVolume {
                id,
                name: volume.name.clone(),
                size: volume.size()?,
                thin: volume.thin,
                hosts: hosts(&volume.hosts),
                replicas,
                is_known: false,
                epoch: Epoch::ZERO,
            });
        }
        let (era, generation) = (Era::from_u128(0), Revision::ZERO);
        Ok(Self { node, instance, era, generation, pools, volumes: planned })
    }

    pub(super) fn config(&self, serve: bool) -> NodeConfig {
        let head = ConfigHead {
            era: self.era,
            term: self.instance,
            instance: self.instance,
            generation: self.generation,
            scope: Scope::Whole,
            former: Vec::new(),
        };
        let mut parts = BTreeMap::new();
        for (id, nqn) in self.volumes.iter().flat_map(|volume| &volume.hosts) {
            parts.insert(Key::Host(*id), Some(NodePart::Host { nqn: nqn.clone() }));
        }
        for (id, pool) in &self.pools {
            let item = PoolItem {
                id: *id,
                disks: vec![pool.disk.clone()],
                must_exist: pool.is_known,
                carried: Box::new(self.pool(*id, pool)),
            };
            parts.insert(Key::Pool(*id), Some(NodePart::Pool(item)));
        }
        for volume in &self.volumes {
            let part = VolumePart {
                volume: volume.id,
                replicas: self.replicas(volume),
                target: Some(self.target(volume, serve)),
                needs: [].into(),
                carried: Box::new(volume.record()),
            };
            parts.insert(Key::Volume(volume.id), Some(NodePart::Volume(part)));
        }
        NodeConfig { head, parts }
    }

    fn replicas(&self, volume: &PlannedVolume) -> Vec<ReplicaItem> {
        let admission = Some(Admission { epoch: volume.epoch, node: Some(self.node) });
        let item = |(id, pool): &(ReplicaId, PoolId)| ReplicaItem {
            id: *id,
            pool: *pool,
            must_exist: volume.is_known,
            size: volume.size,
            thin: volume.thin,
            origin: None,
            admission,
        };
        volume.replicas.iter().map(item).collect()
    }

    fn target(&self, volume: &PlannedVolume, serve: bool) -> TargetItem {
        let child = |(replica, _): &(ReplicaId, PoolId)| ChildItem {
            replica: *replica,
            node: self.node,
            rebuild: true,
            retire: false,
        };
        TargetItem {
            epoch: volume.epoch,
            instance: self.instance,
            serve,
            size: volume.size,
            children: volume.replicas.iter().map(child).collect(),
            hosts: volume.hosts.keys().copied().collect(),
            snapshots: Vec::new(),
        }
    }

    /// The pool's record.
    pub(super) fn pool(&self, id: PoolId, pool: &PlannedPool) -> Pool {
        let spec = PoolSpec::new(self.node, vec![pool.disk.clone()]);
        Pool {
            meta: Meta::new(id, pool.disk.as_str(), Time(0)),
            spec,
            layout: PoolLayout::default(),
        }
    }
}

impl PlannedVolume {
    /// The volume's record.
    pub(super) fn record(&self) -> Volume {
        let replicas = u8::try_from(self.replicas.len()).unwrap_or(u8::MAX);
        let spec =
            VolumeSpec { size: self.size, replicas, thin: self.thin, ..VolumeSpec::default() };
        Volume {
            meta: Meta::new(self.id, self.name.as_str(), Time(0)),
            spec,
            layout: VolumeLayout::default(),
        }
    }
}

/// Those who may connect. Nobody named means whoever can reach a stand-alone engine.
fn hosts(named_ones: &BTreeSet<String>) -> BTreeMap<HostId, String> {
    let anybody = BTreeSet::from([engine::ANY.to_owned()]);
    let names = if named_ones.is_empty() { &anybody } else { named_ones };
    names.iter().map(|nqn| (HostId(named("host", nqn)), nqn.clone())).collect()
}
