//! The causal chain: what holds a resource up, what holds that up, and what a person can do.

use model::{HostId, Liveness, NodeId, PoolId, ReplicaHealth, Subject, VolumeId, Wait};
use plan::World;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Health, Problem,
    read::{host_id, node_id, pool_id, readable, snapshot_id, volume_id},
};

/// Why a resource is as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Why {
    pub about: String,
    pub health: Health,
    /// What is being done now, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    pub causes: Vec<Cause>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    pub words: String,
    /// What a person can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    /// What is behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub because: Vec<Cause>,
}

/// A drain that waits for many volumes names the first ones: the others wait for much the same.
const DRAIN_SHOWN_MAX: usize = 20;

/// What can be asked about.
pub(crate) const KINDS: &[&str] = &["volume", "node", "pool", "snapshot", "host", "cluster"];

pub(crate) fn why(world: &World, kind: &str, name: &str) -> Result<Why, Problem> {
    let subject = match kind.trim_end_matches('s') {
        "volume" => Subject::Volume(volume_id(world, name)?),
        "node" => Subject::Node(node_id(world, name)?),
        "pool" => Subject::Pool(pool_id(world, name)?),
        "snapshot" => Subject::Snapshot(snapshot_id(world, name)?),
        "host" => Subject::Host(host_id(world, name)?),
        "cluster" => Subject::Cluster,
        _ => {
            let detail = format!("it must be one of {}", KINDS.join(", "));
            return Err(Problem::field("kind", detail));
        }
    };
    let plan = plan::plan(world, subject);
    let status = plan::status(world, subject, &plan);
    let step = plan.step.map(|step| format!("{}, because {}", step.action, step.why));
    let mut causes: Vec<Cause> = plan.waits.iter().map(|wait| cause(world, name, wait)).collect();
    causes.extend(standing(world, subject));
    causes.extend(refusals(world, subject));
    causes.extend(unrecorded(world, subject));
    causes.extend(drain(world, subject));
    Ok(Why {
        about: readable(world, &subject.to_string()),
        health: status.map_or(Health::Unknown, |status| status.health),
        step: step.map(|words| readable(world, &words)),
        causes,
    })
}

fn cause(world: &World, name: &str, wait: &Wait) -> Cause {
    Cause {
        words: readable(world, &wait.to_string()),
        next_step: advice(world, name, wait),
        because: behind(world, wait),
    }
}

/// What a person can do; nothing where waiting is the cure.
fn advice(world: &World, name: &str, wait: &Wait) -> Option<String> {
    let words = match wait {
        Wait::NoRoom { .. } | Wait::NoRoomToGrow { .. } => {
            "add a pool or free space in one: `holdfast get pools`".into()
        }
        Wait::NoHealthyCopy { .. } => format!(
            "bring one of these pools back; if they are lost for good, \
             `holdfast promote {name} --accept-data-loss`"
        ),
        Wait::NowhereToServe => {
            "bring a node with a healthy copy back, or uncordon one: `holdfast get nodes`".into()
        }
        Wait::HostSilent { host } => {
            let host = readable(world, &host.to_string());
            format!("if it is gone for good, `holdfast unpublish {name} --host {host} --force`")
        }
        Wait::ReadOnly { .. } => {
            "find out which store is the right one; then `holdfast recover`".into()
        }
        Wait::Quarantined { .. } => "look at the record with `holdfast doctor`".into(),
        // What is in a pool without a record comes back with the pool: see `unrecorded`.
        Wait::OrphanUnproven { replica, .. } if is_in_unrecorded_pool(world, *replica) => {
            return None;
        }
        Wait::OrphanUnproven { .. } => {
            "if it should be a part of this cluster, `holdfast recover` brings it back".into()
        }
        _ => return None,
    };
    Some(words)
}

/// The machines that a wait waits for, where they are not well.
fn behind(world: &World, wait: &Wait) -> Vec<Cause> {
    let replica_node = |id: &model::ReplicaId| {
        let volume = world.volume(*world.index.replica_home.get(id)?)?;
        volume.record.replica(*id).map(|replica| replica.node)
    };
    match wait {
        Wait::ReplicaMade { node, .. }
        | Wait::PoolMade { node, .. }
        | Wait::Fence { node, .. }
        | Wait::TargetStarts { node, .. }
        | Wait::TargetStops { node, .. }
        | Wait::TombstoneDone { node, .. }
        | Wait::NodeHeard { node }
        | Wait::NodeEmptied { node } => node_trouble(world, *node).into_iter().collect(),
        Wait::ReplicaReturns { replica, .. }
        | Wait::GrowthSeen { replica, .. }
        | Wait::CopyRuns { replica, .. } => {
            replica_node(replica).and_then(|node| node_trouble(world, node)).into_iter().collect()
        }
        Wait::HostLeaves { host }
        | Wait::HostSilent { host }
        | Wait::SessionsClose { host }
        | Wait::PathLive { host, .. }
        | Wait::PathRetried { host, .. } => host_trouble(world, *host).into_iter().collect(),
        Wait::NoHealthyCopy { missing } => {
            missing.iter().filter_map(|pool| pool_trouble(world, *pool)).collect()
        }
        _ => Vec::new(),
    }
}

fn node_trouble(world: &World, id: NodeId) -> Option<Cause> {
    let view = world.node(id)?;
    let name = &view.record.meta.name;
    let words = match view.liveness {
        Liveness::Alive => return None,
        Liveness::Dead => format!("node {name} does not answer"),
        Liveness::Unknown => format!("node {name} has not been heard by this controller yet"),
    };
    let advice = format!(
        "start its engine; if the machine will never return, `holdfast forget node {name}`"
    );
    let next_step = (view.liveness == Liveness::Dead).then_some(advice);
    Some(Cause { words, next_step, because: Vec::new() })
}

fn host_trouble(world: &World, id: HostId) -> Option<Cause> {
    let view = world.hosts.get(&id)?;
    if view.liveness == Liveness::Alive {
        return None;
    }
    let words = format!("host {} does not answer", view.record.meta.name);
    Some(Cause { words, next_step: Some("start its agent".into()), because: Vec::new() })
}

fn pool_trouble(world: &World, id: PoolId) -> Option<Cause> {
    let view = world.pools.get(&id)?;
    let health = view.seen.as_ref().map(|seen| &seen.health);
    let name = &view.record.meta.name;
    let because: Vec<Cause> = node_trouble(world, view.record.spec.node).into_iter().collect();
    let words = match health {
        Some(health) if because.is_empty() => format!("pool {name} is {health:?}"),
        _ => format!("pool {name} is not seen"),
    };
    Some(Cause { words, next_step: None, because })
}

/// What is wrong with the subject itself, whether or not a plan waits for it.
fn standing(world: &World, subject: Subject) -> Option<Cause> {
    match subject {
        Subject::Node(id) => node_trouble(world, id),
        Subject::Host(id) => host_trouble(world, id),
        Subject::Pool(id) => {
            let node = world.pools.get(&id)?.record.spec.node;
            node_trouble(world, node)
        }
        _ => None,
    }
}

/// Pools on a node's disks that no record knows, as after the node was forgotten and came back.
fn unrecorded(world: &World, subject: Subject) -> Vec<Cause> {
    let Subject::Node(id) = subject else { return Vec::new() };
    let Some(view) = world.node(id) else { return Vec::new() };
    let pools = view.inventory.iter().flat_map(|inventory| &inventory.pools);
    let unknown = pools.filter(|(pool, _)| !world.pools.contains_key(pool));
    let shown = unknown.filter_map(|(pool, seen)| {
        let (carried, node) = (seen.carried.as_ref()?, &view.record.meta.name);
        let (name, disks) = (&carried.meta.name, carried.spec.disks.join(" --disk "));
        Some(Cause {
            words: format!("its disk carries pool {name}, which is in no record of this cluster"),
            next_step: Some(format!(
                "`holdfast create pool {name} --node {node} --disk {disks} --id {pool}` takes it \
                 with what it holds"
            )),
            because: Vec::new(),
        })
    });
    shown.collect()
}

fn is_in_unrecorded_pool(world: &World, replica: model::ReplicaId) -> bool {
    let seen = world.nodes.values().filter_map(|view| view.inventory.as_ref());
    let mut seen = seen.filter_map(|inventory| inventory.replicas.get(&replica));
    seen.any(|seen| !world.pools.contains_key(&seen.pool))
}

/// What a drain of the node still waits for, volume by volume; or that it is over.
fn drain(world: &World, subject: Subject) -> Vec<Cause> {
    let Subject::Node(id) = subject else { return Vec::new() };
    let Some(view) = world.node(id).filter(|view| view.record.spec.draining) else {
        return Vec::new();
    };
    let mut left: Vec<Cause> =
        world.index.volume_ids_on(id).filter_map(|volume| left_here(world, id, volume)).collect();
    if let Some(found) = world.unreadable_volume() {
        let words = format!("the drain may not be over: {found}, and it may have a copy here");
        let next_step = Some("look at the record with `holdfast doctor`".to_owned());
        left.push(Cause { words, next_step, because: Vec::new() });
    }
    if left.is_empty() {
        let name = &view.record.meta.name;
        let next_step =
            format!("it can be stopped; to use it again, `holdfast drain {name} --cancel`");
        let words = "it is drained: no copy and no target is left here".to_owned();
        return vec![Cause { words, next_step: Some(next_step), because: Vec::new() }];
    }
    let more = left.len().saturating_sub(DRAIN_SHOWN_MAX);
    left.truncate(DRAIN_SHOWN_MAX);
    if more > 0 {
        let words = format!("the drain waits for {more} more volumes");
        left.push(Cause { words, next_step: None, because: Vec::new() });
    }
    left
}

/// What of a volume is on a node that is being drained, and what holds it up there.
fn left_here(world: &World, node: NodeId, id: VolumeId) -> Option<Cause> {
    let volume = &world.volume(id)?.record;
    let layout = &volume.layout;
    let has_copy = layout.replicas.iter().any(|replica| replica.node == node);
    let has_target = layout.target.as_ref().is_some_and(|target| target.node == node);
    let what = match (has_copy, has_target) {
        (true, true) => "a copy and the target",
        (true, false) => "a copy",
        (false, true) => "the target",
        (false, false) => return None,
    };
    let name = &volume.meta.name;
    let plan = plan::plan(world, Subject::Volume(id));
    let because = match &plan.step {
        Some(step) => {
            let words = format!("next: {}, because {}", step.action, step.why);
            let words = readable(world, &words);
            vec![Cause { words, next_step: None, because: Vec::new() }]
        }
        None => plan.waits.iter().map(|wait| cause(world, name, wait)).collect(),
    };
    let is_stuck = plan.waits.iter().any(|wait| matches!(wait, Wait::NoRoom { .. }));
    let fewer = layout.replicas.len().saturating_sub(1).max(1);
    let next_step = (is_stuck && has_copy).then(|| {
        format!(
            "add a node or a pool, or keep fewer copies: \
             `holdfast scale {name} --replicas {fewer}`"
        )
    });
    let words = format!("the drain waits for volume {name}, which has {what} here");
    Some(Cause { words, next_step, because })
}

/// Copies of a volume that their engines will not make, and why.
fn refusals(world: &World, subject: Subject) -> Vec<Cause> {
    let Subject::Volume(id) = subject else { return Vec::new() };
    let replicas = world.volume(id).map(|view| &view.record.layout.replicas);
    let refused = replicas.into_iter().flatten().filter_map(|replica| {
        let view = world.node(replica.node)?;
        let seen = view.inventory.as_ref()?.replicas.get(&replica.id)?;
        let ReplicaHealth::Refused { reason } = &seen.health else { return None };
        let words = format!("node {} refuses its copy: {reason}", view.record.meta.name);
        Some(Cause { words, next_step: None, because: Vec::new() })
    });
    refused.collect()
}
