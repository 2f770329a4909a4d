//! The labels that the volume asks for, on the pool or on its node.

use crate::{
    World,
    placement::{Ask, Candidate},
};

pub(crate) fn admits(_: &World, ask: &Ask<'_>, candidate: Candidate<'_>) -> bool {
    ask.volume.spec.topology.affinity.iter().all(|(key, value)| {
        let pool = candidate.pool.record.meta.labels.get(key);
        pool.or_else(|| candidate.node.record.meta.labels.get(key)) == Some(value)
    })
}
