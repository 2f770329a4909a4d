//! What rules a pool out, one criterion per file.

mod affinity;
mod apart;
mod commitment;
mod cordon;
mod online;
mod origin;
mod room;
mod spread;

pub(super) use self::room::needed;
use super::{Ask, Candidate};
use crate::World;

pub(crate) struct Filter {
    /// Completes "3 pools …".
    pub(crate) words: &'static str,
    pub(crate) admits: fn(&World, &Ask<'_>, Candidate<'_>) -> bool,
}

/// In the order in which a refusal is explained: the plainest first.
pub(crate) const ALL: &[Filter] = &[
    Filter { words: "not online", admits: online::admits },
    Filter { words: "cordoned, drained or leaving", admits: cordon::admits },
    Filter { words: "without the snapshot to start from", admits: origin::admits },
    Filter { words: "outside the affinity labels", admits: affinity::admits },
    Filter { words: "on a node that has a copy", admits: apart::admits },
    Filter { words: "sharing a spread label with a copy", admits: spread::admits },
    Filter { words: "without room", admits: room::admits },
    Filter { words: "promised too often to thin volumes", admits: commitment::admits },
];
