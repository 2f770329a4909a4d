//! Growing: first the replicas, then what the target shows.

use alloc::vec::Vec;

use model::Wait;

use super::Look;
use crate::{Action, Why};

pub(super) fn rule(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let layout = &look.volume.layout;
    let size = look.volume.spec.size;
    if size > layout.size {
        let needed = size.saturating_sub(layout.size);
        let thick = !look.volume.spec.thin;
        let tight = look
            .copies
            .iter()
            .filter(|copy| copy.loss().is_none())
            .find(|copy| thick && look.world.room(copy.replica.pool) < needed);
        if let Some(copy) = tight {
            waits.push(Wait::NoRoomToGrow { pool: copy.replica.pool, needed });
            return None;
        }
        return Some((Action::Grow { size }, Why::Asked));
    }
    if layout.exposed >= layout.size {
        return None;
    }
    for copy in look.copies.iter().filter(|copy| copy.healthy) {
        let small = copy.seen().is_none_or(|seen| seen.size < layout.size);
        // A lost copy is out before the new end is written to, and grows when it returns.
        if small && copy.loss().is_none() {
            let (replica, size) = (copy.replica.id, layout.size);
            waits.push(Wait::GrowthSeen { replica, size });
            return None;
        }
    }
    look.good().next()?;
    Some((Action::Expose { size: layout.size }, Why::Observed))
}
