//! No two replicas in one zone, rack, or whatever label the volume spreads over.

use alloc::string::String;

use model::{NodeId, PoolId};

use crate::{
    World,
    placement::{Ask, Candidate},
};

pub(crate) fn admits(world: &World, ask: &Ask<'_>, candidate: Candidate<'_>) -> bool {
    let here = (candidate.id, candidate.pool.record.spec.node);
    ask.volume.spec.topology.spread.iter().all(|key| {
        // A pool without the label is nowhere on that map, and shares its place with nobody.
        let Some(value) = label(world, here, key) else { return true };
        ask.beside.iter().all(|other| label(world, *other, key) != Some(value))
    })
}

fn label<'a>(world: &'a World, place: (PoolId, NodeId), key: &str) -> Option<&'a String> {
    let pool = world.pools.get(&place.0).and_then(|view| view.record.meta.labels.get(key));
    pool.or_else(|| world.node(place.1).and_then(|view| view.record.meta.labels.get(key)))
}
