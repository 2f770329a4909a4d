//! Tombstones go when what they name is observed to be gone.

use alloc::vec::Vec;

use model::{Buried, Inventory, Key, Liveness, Observed, PoolHealth, Subject, Tombstone, Wait};

use crate::{Action, Step, Why, World};

/// One transaction's worth, far below the store's limit of operations.
const CLEARED_AT_ONCE: usize = 48;

pub(super) fn rule(world: &World, subject: Subject, waits: &mut Vec<Wait>) -> Option<Step> {
    let Subject::Node(id) = subject else { return None };
    let view = world.node(id)?;
    let inventory = view.inventory.as_ref().filter(|_| view.liveness == Liveness::Alive);
    let is_done = |tombstone: &Tombstone| match &tombstone.buried {
        // Nothing of a pool that nobody has a record of can be told to its node.
        Buried::Replica { pool, .. } | Buried::Snapshot { pool, .. }
            if !world.pools.contains_key(pool) && world.unreadable(&Key::Pool(*pool)).is_none() =>
        {
            true
        }
        buried => inventory.is_some_and(|inventory| {
            inventory.generation >= tombstone.revision && is_gone(world, inventory, buried)
        }),
    };
    let done: Vec<Buried> = view
        .tombstones
        .values()
        .filter(|tombstone| is_done(tombstone))
        .take(CLEARED_AT_ONCE)
        .map(|tombstone| tombstone.buried)
        .collect();
    if done.is_empty() {
        let first = view.tombstones.keys().next();
        waits.extend(first.map(|buried| Wait::TombstoneDone { node: id, buried: *buried }));
        return None;
    }
    Some(Step { subject, action: Action::ClearTombstones { done }, why: Why::Observed })
}

/// Absence counts only under a parent that is present.
fn is_gone(world: &World, inventory: &Inventory, buried: &Buried) -> bool {
    let under = |pool| {
        matches!(world.pool_seen(pool), Observed::Present(seen)
            if seen.health == PoolHealth::Online)
    };
    match buried {
        Buried::Target { volume, epoch } => {
            inventory.targets.get(volume).is_none_or(|seen| seen.epoch != *epoch)
        }
        Buried::Replica { replica, pool } => {
            under(*pool) && !inventory.replicas.contains_key(replica)
        }
        Buried::Snapshot { snapshot, replica, pool } => {
            let seen = inventory.replicas.get(replica);
            under(*pool) && seen.is_none_or(|seen| !seen.snapshots.contains_key(snapshot))
        }
        Buried::Pool { pool } => !inventory.pools.contains_key(pool),
    }
}
