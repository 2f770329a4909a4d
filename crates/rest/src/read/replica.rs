//! Replicas: parts of volumes.

use model::{Replica, ReplicaId, Volume};
use plan::{Standing, World};

use super::{Item, names::pool_name, node_name};
use crate::ReplicaShown;

pub(super) fn items(world: &World) -> Vec<Item<'_>> {
    let volumes = world.volumes.values().map(|view| &view.record);
    let each = volumes.flat_map(|v| v.layout.replicas.iter().map(move |replica| (v, replica)));
    each.map(|(volume, replica)| {
        let key = format!("{},{}", volume.meta.name, replica.id);
        Item::new(key, Some(&volume.meta.labels), move || make(world, volume, replica))
    })
    .collect()
}

/// Replicas have no names: only the id finds one.
pub(super) fn shown(world: &World, id: &str) -> Option<ReplicaShown> {
    let id: ReplicaId = id.parse().ok()?;
    let volume = &world.volume(*world.index.replica_home.get(&id)?)?.record;
    Some(make(world, volume, volume.replica(id)?))
}

fn make(world: &World, volume: &Volume, replica: &Replica) -> ReplicaShown {
    let view = world.volume(volume.meta.id);
    let membership = view.and_then(|view| view.membership.as_ref());
    let node = volume.layout.target.as_ref().and_then(|target| world.node(target.node));
    let inventory = node.and_then(|view| view.inventory.as_ref());
    let target = inventory.and_then(|inventory| inventory.targets.get(&volume.meta.id));
    let child = target.and_then(|seen| seen.children.get(&replica.id));
    let is_behind = plan::behind(world, volume.meta.id).contains(&replica.id);
    let is_recorded = membership.is_some_and(|membership| membership.is_healthy(replica.id));
    ReplicaShown {
        volume: volume.meta.name.clone(),
        pool: pool_name(world, replica.pool),
        node: node_name(world, replica.node),
        replica: replica.clone(),
        healthy: is_recorded && !is_behind,
        copied: child.and_then(|child| child.copied),
        seen: match world.standing(volume, replica) {
            Standing::Usable(_) if is_behind => "online, not yet known to its target".into(),
            Standing::Usable(_) => "online".into(),
            Standing::Unmade => "not yet made".into(),
            Standing::Unknown => "not heard".into(),
            Standing::Lost(loss) => format!("lost: {loss}"),
        },
    }
}
