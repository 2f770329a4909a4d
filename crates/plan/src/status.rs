//! What people are told: derived, never stored, and read by no rule.

use alloc::{
    collections::BTreeSet,
    string::{String, ToString},
    vec::Vec,
};

use model::{
    Health, Liveness, Observed, PoolHealth, ReplicaId, SnapshotStage, Status, Subject, Target,
    TargetStage, VolumeId, VolumeStage, Wait,
};

use crate::{
    Plan, World,
    volume::{Copy, Look},
};

/// The state of a subject with its plan; `None` if there is no such thing.
pub fn status(world: &World, subject: Subject, plan: &Plan) -> Option<Status> {
    let health = match subject {
        Subject::Volume(id) => {
            let view = world.volume(id)?;
            match &view.membership {
                Some(membership) => volume(&Look::new(world, &view.record, membership)),
                None => Health::Faulted,
            }
        }
        Subject::Node(id) => match world.node(id)?.liveness {
            Liveness::Alive => Health::Healthy,
            Liveness::Dead => Health::Faulted,
            Liveness::Unknown => Health::Unknown,
        },
        Subject::Pool(id) => {
            world.pools.get(&id)?;
            match world.pool_seen(id) {
                Observed::Present(seen) if seen.health == PoolHealth::Online => Health::Healthy,
                Observed::Present(_) | Observed::Absent => Health::Faulted,
                Observed::Unknown => Health::Unknown,
            }
        }
        Subject::Snapshot(id) => match world.snapshots.get(&id)?.layout.stage {
            SnapshotStage::Ready => Health::Healthy,
            SnapshotStage::Taking => Health::Pending,
            SnapshotStage::Failed { .. } => Health::Faulted,
        },
        Subject::Host(id) => match world.hosts.get(&id)?.liveness {
            Liveness::Alive => Health::Healthy,
            Liveness::Dead => Health::Faulted,
            Liveness::Unknown => Health::Unknown,
        },
        Subject::Cluster => {
            if world.read_only().is_some() {
                Health::Faulted
            } else {
                Health::Healthy
            }
        }
    };
    let next = plan.step.iter().map(|step| alloc::format!("next: {}", step.action));
    let waits = plan.waits.iter().map(Wait::to_string);
    let words = next.chain(waits).chain(behind_words(world, subject)).collect();
    Some(Status { health, words })
}

fn volume(look: &Look<'_>) -> Health {
    let layout = &look.volume.layout;
    if look.volume.spec.deleting || layout.stage == VolumeStage::Creating {
        return Health::Pending;
    }
    let good = look.good().filter(|copy| !is_behind(look, copy)).count();
    let hopeful = look.copies.iter().any(|copy| copy.healthy && copy.loss().is_none());
    if look.good().next().is_none() {
        return if hopeful { Health::Unknown } else { Health::Faulted };
    }
    let is_served = look.target().is_some_and(|target| {
        target.stage == TargetStage::Serving && is_of_this_process(look, target)
    });
    if !layout.hosts.is_empty() && !is_served {
        return Health::Faulted;
    }
    let is_ended = look.target().is_some_and(|target| !is_of_this_process(look, target));
    let whole = good >= look.wanted() && layout.switchover.is_none() && !is_ended;
    if whole { Health::Healthy } else { Health::Degraded }
}

/// Whether the process that was told to serve is the one that its node has now.
fn is_of_this_process(look: &Look<'_>, target: &Target) -> bool {
    let node = look.world.node(target.node);
    node.is_some_and(|view| view.record.layout.instance == Some(target.instance))
}

/// Whether a copy was started anew and its target has only spoken with what was there before. The
/// record calls it healthy until the target notices.
fn is_behind(look: &Look<'_>, copy: &Copy<'_>) -> bool {
    let target = look.target();
    let seen = target.and_then(|target| look.world.target_seen(look.volume, target).present());
    let spoken = seen.and_then(|seen| seen.children.get(&copy.replica.id)?.instance);
    let is_now = copy.seen().and_then(|seen| seen.instance);
    spoken.zip(is_now).is_some_and(|(spoken, is_now)| spoken != is_now)
}

/// Copies that the record of a volume still calls healthy, and that were started anew since its
/// target spoke with them.
pub fn behind(world: &World, id: VolumeId) -> BTreeSet<ReplicaId> {
    let Some(view) = world.volume(id) else { return BTreeSet::new() };
    let Some(membership) = &view.membership else { return BTreeSet::new() };
    let look = Look::new(world, &view.record, membership);
    let behind = look.good().filter(|copy| is_behind(&look, copy));
    behind.map(|copy| copy.replica.id).collect()
}

fn behind_words(world: &World, subject: Subject) -> Vec<String> {
    let Subject::Volume(id) = subject else { return Vec::new() };
    let replicas = world.volume(id).into_iter().flat_map(|view| &view.record.layout.replicas);
    let behind = behind(world, id);
    let named = replicas.filter(|replica| behind.contains(&replica.id));
    let words = "was started anew, and its target has not spoken with it since";
    named.map(|replica| alloc::format!("the copy on node {} {words}", replica.node)).collect()
}
