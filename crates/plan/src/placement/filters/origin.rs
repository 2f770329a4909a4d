//! A copy that starts from a snapshot starts where the snapshot is.

use crate::{
    World,
    placement::{Ask, Candidate},
};

pub(crate) fn admits(_: &World, ask: &Ask<'_>, candidate: Candidate<'_>) -> bool {
    ask.within.as_ref().is_none_or(|pools| pools.contains(&candidate.id))
}
