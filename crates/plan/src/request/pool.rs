//! Requests about pools.

use alloc::{format, string::String, vec::Vec};

use model::{Buried, Key, Labels, Meta, Pool, PoolId, PoolLayout, PoolSpec, Record, Txn, validate};

use super::{Refusal, claim_name, difference, may_name, node::last_copy, not_found, refuse_buried};
use crate::World;

pub(super) fn create(
    world: &World,
    id: PoolId,
    name: &str,
    labels: &Labels,
    spec: &PoolSpec,
) -> Result<Txn, Refusal> {
    validate::name("meta.name", name)?;
    validate::labels("meta.labels", labels)?;
    spec.validate()?;
    if let Some(view) = world.pools.get(&id) {
        return repeated(world, &view.record, name, labels, spec);
    }
    refuse_buried(world, &id, |buried| matches!(buried, Buried::Pool { pool } if *pool == id))?;
    let node = world.node(spec.node).ok_or_else(|| not_found(world, &Key::Node(spec.node)))?;
    if node.record.spec.forgotten {
        return Err(Refusal::Conflict { why: format!("node {} is being forgotten", spec.node) });
    }
    refuse_unrecorded(world, id, spec)?;
    let mut meta = Meta::new(id, name, world.now);
    meta.labels.clone_from(labels);
    let pool = Pool { meta, spec: spec.clone(), layout: PoolLayout::default() };
    let txn = Txn::default().put(Key::Pool(id), Record::Pool(pool.into()), model::Revision::ZERO);
    claim_name(world, txn, "pool", name, &id)
}

/// A repeated create succeeds if it asks for the same. It never changes what is there.
fn repeated(
    world: &World,
    old: &Pool,
    name: &str,
    labels: &Labels,
    spec: &PoolSpec,
) -> Result<Txn, Refusal> {
    let (what, spec_now) = (format!("pool {}", old.meta.name), &old.spec);
    if spec_now.deleting || spec_now.forgotten {
        let how = if spec_now.deleting { "deleted" } else { "forgotten" };
        return Err(Refusal::Conflict {
            why: format!("{what} is being {how}: wait until it is gone"),
        });
    }
    let differences = difference::of_pool(world, old, name, labels, spec);
    if differences.is_empty() {
        return Ok(Txn::default());
    }
    let age = world.now.since(old.meta.created);
    Err(Refusal::Exists { what, age, differences })
}

/// A disk of a node that was forgotten, or came from elsewhere, carries a pool that the engine has
/// open: another one cannot be made there, and whoever asks must hear how to get it back.
fn refuse_unrecorded(world: &World, id: PoolId, spec: &PoolSpec) -> Result<(), Refusal> {
    let Some(node) = world.node(spec.node) else { return Ok(()) };
    let on_disk = node.inventory.iter().flat_map(|inventory| &inventory.pools);
    let found = on_disk.filter_map(|(found, seen)| Some((found, seen.carried.as_ref()?)));
    for (found, carried) in
        found.filter(|(found, _)| **found != id && !world.pools.contains_key(found))
    {
        let disk = spec.disks.iter().find(|disk| carried.spec.disks.contains(disk));
        if let Some(disk) = disk {
            let (old, node) = (&carried.meta.name, &node.record.meta.name);
            let why = format!(
                "disk {disk} of node {node} carries pool {old}, which is in no record: to take it \
                 with what it holds, say the same with --id {found}; to overwrite it, stop the \
                 engine of {node} and use `holdfast pool create` there"
            );
            return Err(Refusal::Conflict { why });
        }
    }
    Ok(())
}

fn change(world: &World, id: PoolId, change: impl FnOnce(&mut PoolSpec)) -> Result<Txn, Refusal> {
    let old = &world.pools.get(&id).ok_or_else(|| not_found(world, &Key::Pool(id)))?.record;
    let mut new = old.clone();
    change(&mut new.spec);
    if new == *old {
        return Ok(Txn::default());
    }
    new.meta.spec_revision += 1;
    Ok(Txn::default().put(Key::Pool(id), Record::Pool(new.into()), old.meta.revision))
}

/// The volumes with a replica in a pool.
fn users(world: &World, id: PoolId) -> Vec<(model::VolumeId, String)> {
    let Some(view) = world.pools.get(&id) else { return Vec::new() };
    let volumes = world.index.volume_ids_on(view.record.spec.node);
    let inside = volumes
        .filter_map(|volume| world.volume(volume))
        .filter(|volume| volume.record.layout.replicas.iter().any(|replica| replica.pool == id));
    inside.map(|view| (view.record.meta.id, view.record.meta.name.clone())).collect()
}

/// A pool in use is not deleted; the refusal names what uses it.
pub(super) fn delete(world: &World, id: PoolId) -> Result<Txn, Refusal> {
    let users = users(world, id);
    if !users.is_empty() {
        let named: Vec<String> = users.iter().take(5).map(|(_, name)| name.clone()).collect();
        let more = users.len().saturating_sub(named.len());
        let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
        return Err(Refusal::InUse { by: format!("volumes {}{tail}", named.join(", ")) });
    }
    refuse_unread_users(world, id)?;
    change(world, id, |spec| spec.deleting = true)
}

pub(super) fn forget(world: &World, id: PoolId) -> Result<Txn, Refusal> {
    for (volume, _) in users(world, id) {
        if let Some(name) = last_copy(world, volume, |replica| replica.pool == id)? {
            let why = format!(
                "pool {id} holds the last healthy copy of volume {name}; promote another copy of \
                 it, or delete it, first"
            );
            return Err(Refusal::Impossible { why });
        }
    }
    refuse_unread_users(world, id)?;
    change(world, id, |spec| spec.forgotten = true)
}

/// A volume whose record does not decode may have a replica in the pool, and its last one.
fn refuse_unread_users(world: &World, id: PoolId) -> Result<(), Refusal> {
    let name = world.pools.get(&id).map(|view| &view.record.meta.name);
    match (world.unreadable_volume(), name) {
        (Some(found), Some(name)) => Err(may_name(found, &format!("pool {name}"))),
        _ => Ok(()),
    }
}
