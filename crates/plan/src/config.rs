//! What engines and hosts must have: a pure function of stored records.

use alloc::{boxed::Box, vec::Vec};

use model::{
    Admission, ChildItem, ConfigHead, Epoch, HostConfig, HostId, HostPart, HostStage, InstanceId,
    Key, NodeConfig, NodeId, NodePart, PathItem, PoolItem, PoolStage, Replica, ReplicaItem,
    ReplicaStage, Revision, Scope, ShareItem, ShareStage, SnapshotItem, TargetItem, TargetStage,
    Volume, VolumePart,
};

use crate::World;

/// Everything a node must have; `None` before its engine registered or the store was founded.
pub fn node_config(world: &World, id: NodeId, term: InstanceId) -> Option<NodeConfig> {
    let view = world.node(id)?;
    let head = head(world, view.record.layout.instance?, term)?;
    let pools = world.index.pools_of.get(&id).into_iter().flatten().map(|pool| Key::Pool(*pool));
    let volumes = world.index.volume_ids_on(id).map(Key::Volume);
    let tombstones = view.tombstones.keys().map(|buried| Key::Tombstone(id, *buried));
    // Small, and hardly ever changed: cheaper for all than to work out who needs whom.
    let peers = world.nodes.keys().copied().filter(|peer| *peer != id).map(Key::Node);
    let hosts = world.hosts.keys().copied().map(Key::Host);
    let keys = pools.chain(volumes).chain(tombstones).chain(peers).chain(hosts);
    let parts = keys.filter_map(|key| Some((key.clone(), Some(node_part(world, id, &key)?))));
    Some(NodeConfig { head, parts: parts.collect() })
}

/// What changed for a node since `base`: the parts of these records only.
pub fn node_difference(
    world: &World,
    id: NodeId,
    term: InstanceId,
    base: Revision,
    keys: impl IntoIterator<Item = Key>,
) -> Option<NodeConfig> {
    let instance = world.node(id)?.record.layout.instance?;
    let mut head = head(world, instance, term)?;
    head.scope = Scope::Difference { base };
    let part = |key: Key| {
        let part = node_part(world, id, &key);
        (key, part)
    };
    Some(NodeConfig { head, parts: keys.into_iter().map(part).collect() })
}

fn head(world: &World, instance: InstanceId, term: InstanceId) -> Option<ConfigHead> {
    let cluster = world.cluster.as_ref()?;
    Some(ConfigHead {
        era: cluster.era,
        term,
        instance,
        generation: world.revision,
        scope: Scope::Whole,
        former: cluster.former.clone(),
    })
}

fn node_part(world: &World, node: NodeId, key: &Key) -> Option<NodePart> {
    match key {
        Key::Pool(id) => {
            let pool = &world.pools.get(id)?.record;
            if pool.spec.node != node || pool.spec.forgotten {
                return None;
            }
            Some(NodePart::Pool(PoolItem {
                id: *id,
                disks: pool.spec.disks.clone(),
                must_exist: pool.layout.stage == PoolStage::Ready,
                carried: Box::new(pool.clone()),
            }))
        }
        Key::Volume(id) => {
            volume_part(world, node, &world.volume(*id)?.record).map(NodePart::Volume)
        }
        Key::Node(peer) => {
            let address = world.node(*peer)?.record.spec.address.clone();
            (*peer != node).then_some(NodePart::Peer { address })
        }
        Key::Host(host) => {
            let nqn = world.hosts.get(host)?.record.spec.nqn.clone();
            Some(NodePart::Host { nqn })
        }
        Key::Tombstone(own, buried) => {
            let known = world.node(node)?.tombstones.contains_key(buried);
            (*own == node && known).then_some(NodePart::Tombstone)
        }
        _ => None,
    }
}

fn volume_part(world: &World, node: NodeId, volume: &Volume) -> Option<VolumePart> {
    let here = volume.layout.replicas.iter().filter(|replica| replica.node == node);
    let replicas: Vec<ReplicaItem> = here.map(|replica| replica_item(volume, replica)).collect();
    let target = target_item(world, node, volume);
    if replicas.is_empty() && target.is_none() {
        return None;
    }
    let carried = Box::new(volume.clone());
    let needs = model::needs(volume);
    Some(VolumePart { volume: volume.meta.id, replicas, target, needs, carried })
}

fn replica_item(volume: &Volume, replica: &Replica) -> ReplicaItem {
    let epoch = volume.layout.epoch;
    let node = volume.layout.target.as_ref().map(|target| target.node);
    // Replicas placed later are rebuilt from their peers, not made from the snapshot.
    let first = volume.layout.stage == model::VolumeStage::Creating;
    ReplicaItem {
        id: replica.id,
        pool: replica.pool,
        must_exist: replica.stage != ReplicaStage::Creating,
        size: volume.layout.size,
        thin: volume.spec.thin,
        origin: volume.spec.origin.filter(|_| first),
        admission: (epoch > Epoch::ZERO).then_some(Admission { epoch, node }),
    }
}

fn target_item(world: &World, node: NodeId, volume: &Volume) -> Option<TargetItem> {
    let target = volume.layout.target.as_ref()?;
    if target.node != node || target.stage == TargetStage::Fencing {
        return None;
    }
    let child = |replica: &Replica| ChildItem {
        replica: replica.id,
        node: replica.node,
        rebuild: replica.rebuilding,
        retire: replica.stage == ReplicaStage::Retiring,
    };
    let admitted = volume.layout.hosts.iter().filter(|(_, stage)| **stage == HostStage::Admitted);
    let snapshots = world.snapshots_wanted(volume.meta.id).map(|snapshot| SnapshotItem {
        snapshot: snapshot.meta.id,
        name: snapshot.meta.name.clone(),
        attempt: snapshot.spec.attempt,
    });
    Some(TargetItem {
        epoch: target.epoch,
        instance: target.instance,
        serve: target.stage != TargetStage::Stopping,
        size: volume.layout.exposed,
        children: volume.layout.replicas.iter().map(child).collect(),
        hosts: admitted.map(|(host, _)| *host).collect(),
        snapshots: snapshots.collect(),
    })
}

/// Everything a host must have; `None` before its agent registered or the store was founded.
pub fn host_config(world: &World, id: HostId, term: InstanceId) -> Option<HostConfig> {
    let view = world.hosts.get(&id)?;
    let head = head(world, view.record.layout.instance?, term)?;
    let volumes = world.index.volume_ids_of_host(id);
    let parts = volumes.filter_map(|volume| {
        let key = Key::Volume(volume);
        let part = host_part(world, id, &key)?;
        Some((key, Some(part)))
    });
    Some(HostConfig { head, parts: parts.collect() })
}

/// A volume's part on one host; `None` when the host shall have nothing of it.
pub fn host_part(world: &World, host: HostId, key: &Key) -> Option<HostPart> {
    let Key::Volume(id) = key else { return None };
    let volume = &world.volume(*id)?.record;
    let layout = &volume.layout;
    if layout.hosts.get(&host) != Some(&HostStage::Admitted) {
        return None;
    }
    let serving = layout.target.as_ref().filter(|target| target.stage == TargetStage::Serving);
    let path = serving.and_then(|target| {
        let address = world.node(target.node)?.record.spec.address.clone();
        Some(PathItem { node: target.node, address, epoch: target.epoch })
    });
    let share = layout.share.as_ref().filter(|share| share.server == host);
    let share = share.and_then(|share| match share.stage {
        ShareStage::Fencing | ShareStage::Attaching => None,
        ShareStage::Mounting | ShareStage::Starting | ShareStage::Grace | ShareStage::Serving => {
            Some(ShareItem { epoch: share.epoch, serve: true })
        }
        ShareStage::Draining | ShareStage::Stopping => {
            Some(ShareItem { epoch: share.epoch, serve: false })
        }
    });
    Some(HostPart { volume: *id, path, share })
}
