//! A frozen image of a volume.

use alloc::{collections::BTreeSet, string::String};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AttemptId, Bytes, Extra, Meta, ReplicaId, SnapshotId, Time, VolumeId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    pub meta: Meta<SnapshotId>,
    pub spec: SnapshotSpec,
    pub layout: SnapshotLayout,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotSpec {
    pub volume: VolumeId,
    /// Names the transaction on every replica, so that a half-taken one can be removed whole.
    pub attempt: AttemptId,
    /// Taken by then, or withdrawn and recorded as failed.
    pub deadline: Time,
    #[serde(default)]
    pub deleting: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotLayout {
    pub stage: SnapshotStage,
    #[serde(default)]
    pub size: Bytes,
    /// The replicas that hold it.
    #[serde(default)]
    pub copies: BTreeSet<ReplicaId>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SnapshotStage {
    #[default]
    Taking,
    Ready,
    Failed {
        reason: String,
    },
}
