//! Bytes that nobody was promised, thin promises counted whole: a pool full of promises is a bad
//! place even while it is empty.

use model::{Bytes, PoolId};

use crate::World;

pub(super) fn score(world: &World, pool: PoolId) -> i64 {
    let seen = world.pools.get(&pool).and_then(|view| view.seen.as_ref());
    let capacity = seen.map_or(Bytes::ZERO, |seen| seen.capacity);
    super::mebibytes(capacity) - super::mebibytes(world.committed(pool))
}
