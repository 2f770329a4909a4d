//! Block devices: the disks of the nodes, as their engines tell of them.

use model::{BlockDevice, NodeId};
use plan::World;

use super::{Item, node_id, node_name};
use crate::{BlockDeviceShown, Problem};

pub(super) fn items(world: &World) -> Vec<Item<'_>> {
    let with = world.nodes.values().filter_map(|view| {
        let inventory = view.inventory.as_ref()?;
        Some((&view.record.meta, &inventory.devices))
    });
    with.flat_map(|(meta, devices)| {
        devices.iter().map(move |device| {
            let key = format!("{},{},{}", meta.name, meta.id, device.name);
            Item::new(key, Some(&meta.labels), move || make(world, meta.id, device))
        })
    })
    .collect()
}

/// `NODE:DEVICE`; a node that is not heard has none.
pub(super) fn shown(world: &World, name: &str) -> Result<Option<BlockDeviceShown>, Problem> {
    let Some((node, device)) = name.rsplit_once(':') else { return Ok(None) };
    let id = node_id(world, node)?;
    let inventory = world.node(id).and_then(|view| view.inventory.as_ref());
    let devices = inventory.into_iter().flat_map(|inventory| &inventory.devices);
    let found = devices.into_iter().find(|found| found.name == device);
    Ok(found.map(|found| make(world, id, found)))
}

fn make(world: &World, node: NodeId, device: &BlockDevice) -> BlockDeviceShown {
    let is_on = |disk: &String| *disk == device.path || device.partitions.contains(disk);
    let mut pools = world.pools.values().map(|view| &view.record);
    let pool = pools.find(|pool| pool.spec.node == node && pool.spec.disks.iter().any(is_on));
    let pool = pool.map(|pool| pool.meta.name.clone());
    let node = node_name(world, node);
    BlockDeviceShown {
        name: format!("{node}:{}", device.name),
        node,
        free: pool.is_none() && !device.is_in_use() && !device.read_only,
        pool,
        device: device.clone(),
    }
}
