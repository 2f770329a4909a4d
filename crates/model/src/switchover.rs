//! Moving a volume to a new target while the application keeps its device.
//!
//! ```text
//! Init ─▶ RepublishVolume ─▶ ReplacePath ─▶ DeleteTarget ─▶ (Successful: gone from the layout)
//!              ▲      │           │
//!              └──────┴───────────┘  the successor was lost: again, with a new epoch
//! any ─▶ Errored: nowhere to go for now; begins again when that changes
//! ```

use alloc::{collections::BTreeSet, string::String};
use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Epoch, Extra, NodeId, TargetRef, Time};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Switchover {
    pub stage: SwitchoverStage,
    pub cause: SwitchoverCause,
    /// The target that was lost or is being left.
    pub from: TargetRef,
    pub started: Time,
    /// Nodes on which a successor failed in this switchover.
    #[serde(default)]
    pub tried: BTreeSet<NodeId>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SwitchoverStage {
    Init,
    RepublishVolume { epoch: Epoch },
    ReplacePath { epoch: Epoch },
    DeleteTarget { epoch: Epoch },
    Errored { reason: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SwitchoverCause {
    /// Its node is judged dead.
    NodeDead,
    /// Its process ended, or another one registered.
    ProcessGone,
    /// It stopped serving by itself: fenced, failed or lost all its copies.
    NotServing,
    /// A host cannot reach it although it serves.
    PathFailed,
    /// Its node is drained.
    Drain,
}

/// What was observed that may end a stage. Each is a predicate on the world, judged by the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A successor was issued this epoch.
    Republished(Epoch),
    /// The target of this epoch serves.
    Serving(Epoch),
    /// Every host that is still wanted has a live path to this epoch and no older one.
    PathsReplaced(Epoch),
    /// Every old target was handed to its node's tombstones.
    Buried(Epoch),
    /// The successor of this epoch is lost.
    SuccessorLost(Epoch),
}

/// What follows an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Stage(SwitchoverStage),
    Successful,
}

impl SwitchoverStage {
    /// What `seen` leads to, or `None` when it is stale or does not belong here.
    pub fn next(&self, seen: Seen) -> Option<Next> {
        use SwitchoverStage::{DeleteTarget, Init, ReplacePath, RepublishVolume};
        let stage = match (self, seen) {
            // A successor may be issued from any stage: the one before it may have died meanwhile.
            (_, Seen::Republished(epoch)) if self.epoch() < Some(epoch) => {
                RepublishVolume { epoch }
            }
            (RepublishVolume { epoch }, Seen::Serving(seen)) if *epoch == seen => {
                ReplacePath { epoch: seen }
            }
            (ReplacePath { epoch }, Seen::PathsReplaced(seen)) if *epoch == seen => {
                DeleteTarget { epoch: seen }
            }
            (DeleteTarget { epoch }, Seen::Buried(seen)) if *epoch == seen => {
                return Some(Next::Successful);
            }
            (
                RepublishVolume { epoch } | ReplacePath { epoch } | DeleteTarget { epoch },
                Seen::SuccessorLost(seen),
            ) if *epoch == seen => Init,
            _ => return None,
        };
        Some(Next::Stage(stage))
    }

    /// The epoch of the successor, once there is one.
    pub const fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Init | Self::Errored { .. } => None,
            Self::RepublishVolume { epoch }
            | Self::ReplacePath { epoch }
            | Self::DeleteTarget { epoch } => Some(*epoch),
        }
    }
}

impl fmt::Display for SwitchoverStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Init => f.write_str("Init"),
            Self::RepublishVolume { epoch } => write!(f, "RepublishVolume at epoch {epoch}"),
            Self::ReplacePath { epoch } => write!(f, "ReplacePath to epoch {epoch}"),
            Self::DeleteTarget { epoch } => write!(f, "DeleteTarget before epoch {epoch}"),
            Self::Errored { reason } => write!(f, "Errored: {reason}"),
        }
    }
}

impl fmt::Display for SwitchoverCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeDead => "the target's node is dead",
            Self::ProcessGone => "the target's process is gone",
            Self::NotServing => "the target stopped serving",
            Self::PathFailed => "a host cannot reach the target",
            Self::Drain => "the target's node is drained",
        })
    }
}
