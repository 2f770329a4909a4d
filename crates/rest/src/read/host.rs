//! Hosts.

use model::{HostId, Subject};
use plan::World;

use super::{Item, status};
use crate::HostShown;

pub(super) fn items(world: &World) -> Vec<Item<'_>> {
    let each = world.hosts.values().map(|view| &view.record.meta);
    each.map(|meta| {
        let key = format!("{},{}", meta.name, meta.id);
        Item::new(key, Some(&meta.labels), move || shown(world, meta.id))
    })
    .collect()
}

pub(super) fn shown(world: &World, id: HostId) -> Option<HostShown> {
    let host = world.hosts.get(&id)?.record.clone();
    Some(HostShown { host, status: status(world, Subject::Host(id)) })
}
