//! Targets: parts of volumes.

use model::{TargetHealth, VolumeId};
use plan::World;

use super::{Item, node_name};
use crate::TargetShown;

pub(super) fn items(world: &World) -> Vec<Item<'_>> {
    let with = world.volumes.values().filter(|view| view.record.layout.target.is_some());
    with.map(|view| {
        let meta = &view.record.meta;
        let key = format!("{},{}", meta.name, meta.id);
        Item::new(key, Some(&meta.labels), move || shown(world, meta.id))
    })
    .collect()
}

pub(super) fn shown(world: &World, id: VolumeId) -> Option<TargetShown> {
    let volume = &world.volume(id)?.record;
    let target = volume.layout.target.clone()?;
    let node = world.node(target.node);
    let inventory = node.and_then(|view| view.inventory.as_ref());
    let seen = inventory.and_then(|inventory| inventory.targets.get(&id));
    let seen = seen.filter(|seen| seen.epoch == target.epoch);
    Some(TargetShown {
        volume: volume.meta.name.clone(),
        node: node_name(world, target.node),
        address: node.map(|view| view.record.spec.address.clone()).unwrap_or_default(),
        sessions: seen.iter().flat_map(|seen| &seen.hosts).copied().collect(),
        seen: match seen.map(|seen| &seen.health) {
            None => "not seen".into(),
            Some(TargetHealth::Starting) => "starting".into(),
            Some(TargetHealth::Serving) => "serving".into(),
            Some(TargetHealth::Fenced) => "fenced".into(),
            Some(TargetHealth::Failed { reason }) => format!("failed: {reason}"),
        },
        target,
    })
}
