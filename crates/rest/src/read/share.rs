//! Shares: parts of volumes.

use model::VolumeId;
use plan::World;

use super::Item;
use crate::ShareShown;

pub(super) fn items(world: &World) -> Vec<Item<'_>> {
    let volumes = world.volumes.values().map(|view| &view.record);
    let shared = volumes.filter(|v| v.spec.share.is_some() || v.layout.share.is_some());
    shared
        .map(|volume| {
            let meta = &volume.meta;
            let key = format!("{},{}", meta.name, meta.id);
            Item::new(key, Some(&meta.labels), move || shown(world, meta.id))
        })
        .collect()
}

pub(super) fn shown(world: &World, id: VolumeId) -> Option<ShareShown> {
    let volume = &world.volume(id)?.record;
    let (spec, layout) = (volume.spec.share.clone(), volume.layout.share.clone());
    let any = spec.is_some() || layout.is_some();
    any.then(|| ShareShown { volume: volume.meta.name.clone(), spec, layout })
}
