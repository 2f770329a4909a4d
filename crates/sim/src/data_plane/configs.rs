//! What a node is told: everything that it must have, from what the control plane wants now.

use std::collections::BTreeMap;

use model::{
    Admission, Buried, Bytes, ConfigHead, Epoch, Era, InstanceId, Key, Meta, NodeConfig, NodePart,
    Pool, PoolItem, PoolLayout, PoolSpec, ReplicaId, ReplicaItem, Revision, Scope, Time, Volume,
    VolumeId, VolumeLayout, VolumePart, VolumeSpec,
};

use super::{
    node::{MAIN, SECOND, address, disk_path},
    world::{
        BLOCKS, HOST, IDLE_VOLUME, NODES, VOLUME, World, idle_replica_id, instance, node_id,
        pool_id, replica_id,
    },
};

const ERA: Era = Era::from_u128(0xe);
const TERM: InstanceId = InstanceId::from_u128(0xd);
const IDLE_BLOCKS: u64 = 64;

impl World {
    pub(super) fn config_for(&self, node: usize) -> NodeConfig {
        let head = ConfigHead {
            era: ERA,
            term: TERM,
            instance: instance(node, self.nodes[node].process),
            generation: Revision(self.control.generation),
            scope: Scope::Whole,
            former: Vec::new(),
        };
        let mut parts = BTreeMap::new();
        for disk in [MAIN, SECOND] {
            let item = pool_item(node, disk);
            parts.insert(Key::Pool(item.id), Some(NodePart::Pool(item)));
        }
        for peer in (0..NODES).filter(|peer| *peer != node) {
            let address = address(peer);
            parts.insert(Key::Node(node_id(peer)), Some(NodePart::Peer { address }));
        }
        parts.insert(Key::Host(HOST), Some(NodePart::Host { nqn: HOST.nqn() }));
        for part in self.volume_parts(node) {
            parts.insert(Key::Volume(part.volume), Some(NodePart::Volume(part)));
        }
        for buried in self.tombstones(node) {
            parts.insert(Key::Tombstone(node_id(node), buried), Some(NodePart::Tombstone));
        }
        NodeConfig { head, parts }
    }

    fn volume_parts(&self, node: usize) -> Vec<VolumePart> {
        let issued = self.control.target.as_ref();
        let admission = issued
            .map(|target| Admission { epoch: target.item.epoch, node: Some(node_id(target.node)) });
        let main = pool_id(node, MAIN);
        let replicas = (node < self.copies)
            .then(|| ReplicaItem { admission, ..replica_item(replica_id(node), main, BLOCKS) });
        let target = issued.filter(|target| target.node == node && target.is_started);
        let volume = VolumePart {
            replicas: replicas.into_iter().collect(),
            target: target.map(|target| target.item.clone()),
            ..volume_part(VOLUME)
        };
        let idle = replica_item(idle_replica_id(node), pool_id(node, SECOND), IDLE_BLOCKS);
        let idle = VolumePart { replicas: vec![idle], ..volume_part(IDLE_VOLUME) };
        let filler = self.control.syncs[node].filler.map(|(id, blocks)| {
            let item = ReplicaItem { thin: false, ..replica_item(id, main, blocks) };
            VolumePart { replicas: vec![item], ..volume_part(VolumeId(id.0)) }
        });
        [volume, idle].into_iter().chain(filler).collect()
    }

    fn tombstones(&self, node: usize) -> Vec<Buried> {
        let pool = pool_id(node, MAIN);
        let targets =
            self.control.replaced.iter().filter(|(at, _, is_buried)| *at == node && *is_buried);
        let targets =
            targets.map(|(_, epoch, _)| Buried::Target { volume: VOLUME, epoch: Epoch(*epoch) });
        let fillers = self.control.syncs[node].old_fillers.iter();
        let fillers = fillers.map(|replica| Buried::Replica { replica: *replica, pool });
        let snapshots = self.snapshots.deleted.iter().map(|snapshot| {
            let (snapshot, replica) = (*snapshot, replica_id(node));
            Buried::Snapshot { snapshot, replica, pool }
        });
        targets.chain(fillers).chain(snapshots).collect()
    }
}

fn replica_item(id: ReplicaId, pool: model::PoolId, blocks: u64) -> ReplicaItem {
    ReplicaItem {
        id,
        pool,
        // A disk that was swapped gets a blank replica: the record must not be fooled by it.
        must_exist: false,
        size: Bytes(blocks * block::BLOCK as u64),
        thin: true,
        origin: None,
        admission: None,
    }
}

fn volume_part(volume: VolumeId) -> VolumePart {
    let meta = Meta::new(volume, "volume", Time(0));
    let (spec, layout) = (VolumeSpec::default(), VolumeLayout::default());
    VolumePart {
        volume,
        replicas: Vec::new(),
        target: None,
        needs: std::collections::BTreeSet::default(),
        carried: Box::new(Volume { meta, spec, layout }),
    }
}

fn pool_item(node: usize, disk: usize) -> PoolItem {
    let (id, disks) = (pool_id(node, disk), vec![disk_path(node, disk)]);
    let spec = PoolSpec::new(node_id(node), disks.clone());
    let meta = Meta::new(id, format!("pool-{node}-{disk}"), Time(0));
    let carried = Box::new(Pool { meta, spec, layout: PoolLayout::default() });
    PoolItem { id, disks, must_exist: true, carried }
}
