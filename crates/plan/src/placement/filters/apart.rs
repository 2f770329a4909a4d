//! One replica per node: a second one would die with the first.

use crate::{
    World,
    placement::{Ask, Candidate},
};

pub(crate) fn admits(_: &World, ask: &Ask<'_>, candidate: Candidate<'_>) -> bool {
    let node = candidate.pool.record.spec.node;
    ask.beside.iter().all(|(_, taken)| *taken != node)
}
