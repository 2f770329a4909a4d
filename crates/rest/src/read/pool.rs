//! Pools.

use model::{PoolId, Subject};
use plan::World;

use super::{Item, node_name, status};
use crate::{PoolShown, PoolStatus};

pub(super) fn items(world: &World) -> Vec<Item<'_>> {
    let each = world.pools.values().map(|view| &view.record.meta);
    each.map(|meta| {
        let key = format!("{},{}", meta.name, meta.id);
        Item::new(key, Some(&meta.labels), move || shown(world, meta.id))
    })
    .collect()
}

pub(super) fn shown(world: &World, id: PoolId) -> Option<PoolShown> {
    let view = world.pools.get(&id)?;
    let node = view.record.spec.node;
    let volumes = world.index.volume_ids_on(node).filter_map(|volume| world.volume(volume));
    let replicas = volumes.flat_map(|view| &view.record.layout.replicas);
    Some(PoolShown {
        pool: view.record.clone(),
        node: node_name(world, node),
        status: PoolStatus {
            status: status(world, Subject::Pool(id)),
            capacity: view.seen.as_ref().map(|seen| seen.capacity),
            used: view.seen.as_ref().map(|seen| seen.used),
            room: world.room(id),
            replicas: replicas.filter(|replica| replica.pool == id).count(),
        },
    })
}
