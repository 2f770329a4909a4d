//! The rules of a pool.

use alloc::{string::ToString, vec::Vec};

use model::{Observed, Pool, PoolHealth, PoolStage, Subject, Wait};

use crate::{Action, Step, Why, World, plan::Rule};

pub(crate) const RULES: &[Rule] = &[forget, delete, confirm];

/// What keeps a pool from going, if something does.
fn is_in_use(world: &World, pool: &Pool) -> Option<Wait> {
    // A commit in flight may be placing a replica in it.
    let index = world.index.pools.get(&pool.meta.id);
    if index.is_some_and(|index| index.replicas > 0 || index.is_pledged()) {
        return Some(Wait::NodeEmptied { node: pool.spec.node });
    }
    // A volume that nobody can read may have a replica in it.
    let why = world.unreadable_volume()?.to_string();
    Some(Wait::Quarantined { why })
}

/// The hardware will never return: the record goes when no replica is in it any more.
fn forget(world: &World, subject: Subject, waits: &mut Vec<Wait>) -> Option<Step> {
    let Subject::Pool(id) = subject else { return None };
    let pool = &world.pools.get(&id)?.record;
    let node = world.node(pool.spec.node);
    if !(pool.spec.forgotten || node.is_none_or(|node| node.record.spec.forgotten)) {
        return None;
    }
    if let Some(wait) = is_in_use(world, pool) {
        waits.push(wait);
        return None;
    }
    Some(Step { subject, action: Action::ForgetPool, why: Why::Asked })
}

fn delete(world: &World, subject: Subject, waits: &mut Vec<Wait>) -> Option<Step> {
    let Subject::Pool(id) = subject else { return None };
    let pool = &world.pools.get(&id)?.record;
    if !pool.spec.deleting {
        return None;
    }
    if let Some(wait) = is_in_use(world, pool) {
        waits.push(wait);
        return None;
    }
    Some(Step { subject, action: Action::DeletePool, why: Why::Asked })
}

fn confirm(world: &World, subject: Subject, waits: &mut Vec<Wait>) -> Option<Step> {
    let Subject::Pool(id) = subject else { return None };
    let pool = &world.pools.get(&id)?.record;
    if pool.layout.stage == PoolStage::Ready {
        return None;
    }
    match world.pool_seen(id) {
        Observed::Present(seen) if seen.health == PoolHealth::Online => {
            Some(Step { subject, action: Action::ConfirmPool, why: Why::Observed })
        }
        _ => {
            waits.push(Wait::PoolMade { pool: id, node: pool.spec.node });
            None
        }
    }
}
