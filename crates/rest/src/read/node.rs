//! Nodes.

use model::{NodeId, Subject};
use plan::World;

use super::{Item, status};
use crate::{NodeShown, NodeStatus};

pub(super) fn items(world: &World) -> Vec<Item<'_>> {
    let each = world.nodes.values().map(|view| &view.record.meta);
    each.map(|meta| {
        let key = format!("{},{}", meta.name, meta.id);
        Item::new(key, Some(&meta.labels), move || shown(world, meta.id))
    })
    .collect()
}

pub(super) fn shown(world: &World, id: NodeId) -> Option<NodeShown> {
    let view = world.node(id)?;
    let volumes = world.index.volume_ids_on(id).filter_map(|volume| world.volume(volume));
    let replicas = volumes.flat_map(|view| &view.record.layout.replicas);
    Some(NodeShown {
        node: view.record.clone(),
        status: NodeStatus {
            status: status(world, Subject::Node(id)),
            replicas: replicas.filter(|replica| replica.node == id).count(),
            targets: world.index.targets_on.get(&id).copied().unwrap_or(0),
        },
    })
}
