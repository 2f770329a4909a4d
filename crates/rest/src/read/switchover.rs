//! Switchovers: failed paths with their stage, parts of volumes.

use model::VolumeId;
use plan::World;

use super::Item;
use crate::SwitchoverShown;

pub(super) fn items(world: &World) -> Vec<Item<'_>> {
    let with = world.volumes.values().filter(|view| view.record.layout.switchover.is_some());
    with.map(|view| {
        let meta = &view.record.meta;
        let key = format!("{},{}", meta.name, meta.id);
        Item::new(key, Some(&meta.labels), move || shown(world, meta.id))
    })
    .collect()
}

pub(super) fn shown(world: &World, id: VolumeId) -> Option<SwitchoverShown> {
    let volume = &world.volume(id)?.record;
    let switchover = volume.layout.switchover.clone()?;
    Some(SwitchoverShown {
        volume: volume.meta.name.clone(),
        stage: switchover.stage.to_string(),
        cause: switchover.cause.to_string(),
        switchover,
    })
}
