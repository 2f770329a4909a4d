//! Choosing pools for replicas.
//!
//! Filters rule pools out, one criterion per file; scores order the rest, and the world keeps that
//! order, so that a choice walks from the best pool on and stops when it has enough. Only a choice
//! that fails looks at every pool, to say why.

pub mod filters;
pub mod scores;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    vec::Vec,
};

use model::{Bytes, NodeId, PoolId, Volume, Wait};

use crate::{
    World,
    world::{NodeView, PoolView},
};

/// What is looked for.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    pub volume: &'a Volume,
    pub size: Bytes,
    /// Where the volume's other copies are, which the new ones must be apart from.
    pub beside: Vec<(PoolId, NodeId)>,
    /// Only these pools, if given: they hold the snapshot to start from.
    pub within: Option<BTreeSet<PoolId>>,
    /// Nodes that the volume's group already uses: passed over while there are others.
    group_nodes: BTreeSet<NodeId>,
}

impl<'a> Ask<'a> {
    pub fn new(world: &World, volume: &'a Volume) -> Self {
        let beside = volume.layout.replicas.iter().map(|r| (r.pool, r.node)).collect();
        Self {
            volume,
            size: volume.layout.size,
            beside,
            within: None,
            group_nodes: group_nodes(world, volume),
        }
    }
}

fn group_nodes(world: &World, volume: &Volume) -> BTreeSet<NodeId> {
    let Some(group) = &volume.spec.affinity_group else { return BTreeSet::new() };
    let members = world.index.groups.get(group).into_iter().flatten();
    members
        .filter(|member| **member != volume.meta.id)
        .filter_map(|member| world.volume(*member))
        .flat_map(|view| view.record.layout.replicas.iter().map(|replica| replica.node))
        .collect()
}

/// A pool and its node, as a filter sees them.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub id: PoolId,
    pub pool: &'a PoolView,
    pub node: &'a NodeView,
}

/// `count` pools, or why there are not that many.
pub fn place(world: &World, ask: &Ask<'_>, count: usize) -> Result<Vec<(PoolId, NodeId)>, Wait> {
    let mut ask = ask.clone();
    let mut chosen = Vec::new();
    for keep_group_apart in [true, false] {
        for (_, id) in &world.index.order {
            if chosen.len() == count {
                return Ok(chosen);
            }
            let Some(candidate) = candidate(world, *id) else { continue };
            let node = candidate.pool.record.spec.node;
            let apart = !keep_group_apart || !ask.group_nodes.contains(&node);
            if apart && filters::ALL.iter().all(|filter| (filter.admits)(world, &ask, candidate)) {
                chosen.push((*id, node));
                ask.beside.push((*id, node));
            }
        }
        if chosen.len() == count {
            return Ok(chosen);
        }
    }
    Err(Wait::NoRoom { needed: filters::needed(&ask), because: reasons(world, &ask) })
}

fn candidate(world: &World, id: PoolId) -> Option<Candidate<'_>> {
    let pool = world.pools.get(&id)?;
    let node = world.node(pool.record.spec.node)?;
    Some(Candidate { id, pool, node })
}

/// How many pools each criterion rules out, each pool counted once, by the first that does.
fn reasons(world: &World, ask: &Ask<'_>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for id in world.pools.keys() {
        let Some(candidate) = candidate(world, *id) else { continue };
        let ruled_out =
            filters::ALL.iter().position(|filter| !(filter.admits)(world, ask, candidate));
        if let Some(index) = ruled_out {
            *counts.entry(index).or_default() += 1;
        }
    }
    counts
        .into_iter()
        .map(|(index, count)| (filters::ALL[index].words.to_string(), count))
        .collect()
}
