//! Room for it, counting what is already promised: thick copies reserve all they may ever need.

use model::Bytes;

use crate::{
    World,
    placement::{Ask, Candidate},
};

/// A thin copy takes space as it is written. A pool with less than this left would fail it at once.
pub(crate) const THIN_START: Bytes = Bytes::mib(64);

pub(crate) fn admits(world: &World, ask: &Ask<'_>, candidate: Candidate<'_>) -> bool {
    let needed = if ask.volume.spec.thin { ask.size.min(THIN_START) } else { ask.size };
    world.room(candidate.id) >= needed
}
