//! Only pools that are observed online: an unknown pool is no place for a promise.

use model::{Observed, PoolHealth};

use crate::{
    World,
    placement::{Ask, Candidate},
};

pub(crate) fn admits(world: &World, _: &Ask<'_>, candidate: Candidate<'_>) -> bool {
    matches!(world.pool_seen(candidate.id), Observed::Present(seen)
        if seen.health == PoolHealth::Online)
}
