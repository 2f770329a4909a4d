//! Thin volumes may be promised more than there is, but not without end.

use model::Bytes;

use crate::{
    World,
    placement::{Ask, Candidate},
};

/// Promised bytes per byte of capacity. Four leaves time to add disks between the first watermark
/// and a full pool at the growth that operators of thin pools report.
pub const OVERCOMMIT: u64 = 4;

pub(crate) fn admits(world: &World, ask: &Ask<'_>, candidate: Candidate<'_>) -> bool {
    if !ask.volume.spec.thin {
        return true;
    }
    let capacity = candidate.pool.seen.as_ref().map_or(Bytes::ZERO, |seen| seen.capacity);
    let limit = Bytes(capacity.0.saturating_mul(OVERCOMMIT));
    world.committed(candidate.id).saturating_add(ask.size) <= limit
}
