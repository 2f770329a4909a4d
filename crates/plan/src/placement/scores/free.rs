//! Bytes that are not written or reserved.

use model::{Bytes, PoolId};

use crate::World;

pub(super) fn score(world: &World, pool: PoolId) -> i64 {
    let seen = world.pools.get(&pool).and_then(|view| view.seen.as_ref());
    super::mebibytes(seen.map_or(Bytes::ZERO, |seen| seen.capacity.saturating_sub(seen.used)))
}
