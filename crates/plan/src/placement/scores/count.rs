//! Fewer replicas: a tie-breaker, since many small ones still cost memory and connections.

use model::PoolId;

use crate::World;

pub(super) fn score(world: &World, pool: PoolId) -> i64 {
    let replicas = world.index.pools.get(&pool).map_or(0, |index| index.replicas);
    i64::try_from(replicas).unwrap_or(i64::MAX / 64)
}
