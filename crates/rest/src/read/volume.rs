//! Volumes.

use model::{Publication, Subject, Volume, VolumeId, VolumeStage};
use plan::World;

use super::{Item, status};
use crate::{VolumeShown, VolumeStatus};

pub(super) fn items(world: &World) -> Vec<Item<'_>> {
    let each = world.volumes.values().map(|view| &view.record.meta);
    each.map(|meta| {
        // A deleted volume may be followed by one of the same name.
        let key = format!("{},{}", meta.name, meta.id);
        Item::new(key, Some(&meta.labels), move || shown(world, meta.id))
    })
    .collect()
}

pub(super) fn shown(world: &World, id: VolumeId) -> Option<VolumeShown> {
    let view = world.volume(id)?;
    Some(VolumeShown {
        volume: view.record.clone(),
        status: VolumeStatus {
            status: status(world, Subject::Volume(id)),
            available: is_available(&view.record),
            healthy_copies: world.redundancy(id).saturating_sub(plan::behind(world, id).len()),
        },
    })
}

/// Made, and published if that was asked for.
pub(crate) fn is_available(volume: &Volume) -> bool {
    let wanted = volume.spec.publish.as_ref().map(|publish| publish.attempt);
    let done = match &volume.layout.publication {
        Publication::Published { attempt } => wanted == Some(*attempt),
        _ => false,
    };
    volume.layout.stage == VolumeStage::Created
        && !volume.spec.deleting
        && (wanted.is_none() || done)
}
