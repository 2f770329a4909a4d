//! The rules of a pool.

use alloc::vec::Vec;

use model::{Observed, PoolHealth, PoolStage, Subject, Wait};

use crate::{Action, Step, Why, World, plan::Rule};

pub(crate) const RULES: &[Rule] = &[forget, delete, confirm];

fn is_empty(world: &World, subject: Subject) -> bool {
    let Subject::Pool(id) = subject else { return false };
    // A commit in flight may be placing a replica in it.
    world.index.pools.get(&id).is_none_or(|index| index.replicas == 0 && !index.is_pledged())
}

/// The hardware will never return: the record goes when no replica is in it any more.
fn forget(world: &World, subject: Subject, waits: &mut Vec<Wait>) -> Option<Step> {
    let Subject::Pool(id) = subject else { return None };
    let pool = &world.pools.get(&id)?.record;
    let node = world.node(pool.spec.node);
    if !(pool.spec.forgotten || node.is_none_or(|node| node.record.spec.forgotten)) {
        return None;
    }
    if !is_empty(world, subject) {
        waits.push(Wait::NodeEmptied { node: pool.spec.node });
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
    if !is_empty(world, subject) {
        waits.push(Wait::NodeEmptied { node: pool.spec.node });
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
