//! What people are told: derived, never stored, and read by no rule.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use model::{
    Liveness, Observed, PoolHealth, SnapshotStage, Subject, TargetStage, VolumeStage, Wait,
};

use crate::{Plan, World, volume::Look};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub health: Health,
    /// What happens next, or why nothing does, most telling first.
    pub words: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// As it was asked for.
    Healthy,
    /// On its way to that for the first time, or on its way out.
    Pending,
    /// Usable, with less redundancy than asked for, or on its way to another target.
    Degraded,
    /// Cannot be used now.
    Faulted,
    /// Not heard of yet.
    Unknown,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Pending => "pending",
            Self::Degraded => "degraded",
            Self::Faulted => "faulted",
            Self::Unknown => "unknown",
        })
    }
}

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
    let words = next.chain(plan.waits.iter().map(Wait::to_string)).collect();
    Some(Status { health, words })
}

fn volume(look: &Look<'_>) -> Health {
    let layout = &look.volume.layout;
    if look.volume.spec.deleting || layout.stage == VolumeStage::Creating {
        return Health::Pending;
    }
    let good = look.good().count();
    let hopeful = look.copies.iter().any(|copy| copy.healthy && copy.loss().is_none());
    if good == 0 {
        return if hopeful { Health::Unknown } else { Health::Faulted };
    }
    let serving = look.target().is_some_and(|target| target.stage == TargetStage::Serving);
    if !layout.hosts.is_empty() && !serving {
        return Health::Faulted;
    }
    let whole = good >= look.wanted() && layout.switchover.is_none();
    if whole { Health::Healthy } else { Health::Degraded }
}
