//! What a user asks for, and what was decided about it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AttemptId, Bytes, Epoch, Extra, HostId, Meta, Millis, Replica, ReplicaId, ShareLayout,
    ShareSpec, SnapshotId, Switchover, Target, TargetRef, Time, Topology, VolumeId,
    limits::{REPLICAS_MAX, VOLUME_SIZE_MAX, VOLUME_SIZE_MIN, VOLUME_SIZE_STEP},
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    pub meta: Meta<VolumeId>,
    pub spec: VolumeSpec,
    #[serde(default)]
    pub layout: VolumeLayout,
}

/// Written only by users' requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeSpec {
    #[schemars(extend(
        "minimum" = VOLUME_SIZE_MIN.0,
        "maximum" = VOLUME_SIZE_MAX.0,
        "multipleOf" = VOLUME_SIZE_STEP.0
    ))]
    pub size: Bytes,
    #[schemars(range(min = 1, max = REPLICAS_MAX))]
    pub replicas: u8,
    /// Space is taken when it is written, not when it is promised.
    #[serde(default)]
    pub thin: bool,
    #[serde(default)]
    pub topology: Topology,
    /// Volumes of one group keep their replicas apart from each other's.
    #[serde(default)]
    pub affinity_group: Option<String>,
    #[serde(default)]
    pub policy: Policy,
    #[serde(default)]
    pub access: Access,
    #[serde(default)]
    pub publish: Option<Publish>,
    #[serde(default)]
    pub share: Option<ShareSpec>,
    /// Hosts that were unpublished by force: nobody waits for their word.
    #[serde(default)]
    pub severed: BTreeSet<HostId>,
    /// The snapshot it starts from.
    #[serde(default)]
    pub origin: Option<SnapshotId>,
    /// A person accepted data loss to get the best remaining copy served.
    #[serde(default)]
    pub promote: Option<Promotion>,
    #[serde(default)]
    pub deleting: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// How long a lost replica may return before it is replaced; by redundancy left if not given.
    #[serde(default)]
    pub rebuild_wait: Option<Millis>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Access {
    /// One host at a time.
    #[default]
    Exclusive,
    /// Several hosts at once, which settle among themselves who writes (live migration).
    Many,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Publish {
    /// Made by the user for each try; only a new one is tried again after a failure.
    pub attempt: AttemptId,
    /// Published by then, or withdrawn and recorded as failed.
    pub deadline: Time,
    pub hosts: BTreeSet<HostId>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Promotion {
    pub attempt: AttemptId,
    /// Chosen by the person; the best one if not.
    #[serde(default)]
    pub replica: Option<ReplicaId>,
}

/// Written only by the planner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeLayout {
    #[serde(default)]
    pub stage: VolumeStage,
    #[serde(default)]
    pub replicas: Vec<Replica>,
    /// How many replicas were ever placed: makes the ids of the next ones new.
    #[serde(default)]
    pub placed: u32,
    /// What each replica must have room for.
    #[serde(default)]
    pub size: Bytes,
    /// What the target shows: follows `size` once every healthy replica has it.
    #[serde(default)]
    pub exposed: Bytes,
    /// The highest epoch ever issued.
    #[serde(default)]
    pub epoch: Epoch,
    #[serde(default)]
    pub target: Option<Target>,
    /// Replaced targets that are not yet handed to their nodes' tombstones.
    #[serde(default)]
    pub old_targets: Vec<TargetRef>,
    #[serde(default)]
    pub hosts: BTreeMap<HostId, HostStage>,
    #[serde(default)]
    pub publication: Publication,
    #[serde(default)]
    pub switchover: Option<Switchover>,
    /// When the target last moved, and how often in short order: moves back off.
    #[serde(default)]
    pub moved_at: Option<Time>,
    #[serde(default)]
    pub moves: u32,
    #[serde(default)]
    pub share: Option<ShareLayout>,
    /// Every promotion that accepted data loss, for ever.
    #[serde(default)]
    pub promotions: Vec<AttemptId>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum VolumeStage {
    #[default]
    Creating,
    /// Every first replica was observed.
    Created,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HostStage {
    /// The target lets it in, and it gets a path.
    Admitted,
    /// It is told to leave; the target lets it in no more and closes its sessions.
    Leaving,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Publication {
    #[default]
    None,
    Pending {
        attempt: AttemptId,
    },
    Published {
        attempt: AttemptId,
    },
    Failed {
        attempt: AttemptId,
        reason: String,
    },
}

impl Publication {
    pub const fn attempt(&self) -> Option<AttemptId> {
        match self {
            Self::None => None,
            Self::Pending { attempt }
            | Self::Published { attempt }
            | Self::Failed { attempt, .. } => Some(*attempt),
        }
    }
}

impl Volume {
    pub fn replica(&self, id: ReplicaId) -> Option<&Replica> {
        self.layout.replicas.iter().find(|replica| replica.id == id)
    }
}
