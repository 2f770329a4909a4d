//! Snapshots.

use model::{SnapshotId, Subject};
use plan::World;

use super::{Item, status, volume_name};
use crate::SnapshotShown;

pub(super) fn items(world: &World) -> Vec<Item<'_>> {
    let each = world.snapshots.values().map(|snapshot| &snapshot.meta);
    each.map(|meta| {
        let key = format!("{},{}", meta.name, meta.id);
        Item::new(key, Some(&meta.labels), move || shown(world, meta.id))
    })
    .collect()
}

pub(super) fn shown(world: &World, id: SnapshotId) -> Option<SnapshotShown> {
    let snapshot = world.snapshots.get(&id)?.clone();
    let volume = volume_name(world, snapshot.spec.volume);
    Some(SnapshotShown { snapshot, volume, status: status(world, Subject::Snapshot(id)) })
}
