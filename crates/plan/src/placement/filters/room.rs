//! Room for it, counting what is already promised: thick copies reserve all they may ever need.

use model::Bytes;

use crate::{
    World,
    placement::{Ask, Candidate},
};

/// A thin copy takes space as it is written. A pool with less than this left would fail it at once.
const THIN_START: Bytes = Bytes::mib(64);

/// What must be free in one pool for it.
pub(crate) fn needed(ask: &Ask<'_>) -> Bytes {
    if ask.volume.spec.thin { ask.size.min(THIN_START) } else { ask.size }
}

pub(crate) fn admits(world: &World, ask: &Ask<'_>, candidate: Candidate<'_>) -> bool {
    world.room(candidate.id) >= needed(ask)
}
