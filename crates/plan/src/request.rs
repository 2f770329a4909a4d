//! What users may ask for.

use alloc::{collections::BTreeSet, string::String};

use model::{
    AttemptId, Bytes, HostId, Invalid, Labels, NodeId, PoolId, PoolSpec, ReplicaId, SnapshotId,
    Time, VolumeId, VolumeSpec,
};

/// One request. Ids are made by the client, so that a repeated one is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    CreatePool {
        id: PoolId,
        name: String,
        labels: Labels,
        spec: PoolSpec,
    },
    DeletePool {
        pool: PoolId,
    },
    ForgetPool {
        pool: PoolId,
    },
    LabelNode {
        node: NodeId,
        labels: Labels,
    },
    CordonNode {
        node: NodeId,
        cordoned: bool,
    },
    DrainNode {
        node: NodeId,
        draining: bool,
    },
    ForgetNode {
        node: NodeId,
    },
    CreateVolume {
        id: VolumeId,
        name: String,
        labels: Labels,
        spec: VolumeSpec,
    },
    DeleteVolume {
        volume: VolumeId,
        if_spec: Option<u64>,
        with_snapshots: bool,
    },
    ResizeVolume {
        volume: VolumeId,
        if_spec: Option<u64>,
        size: Bytes,
    },
    ScaleVolume {
        volume: VolumeId,
        if_spec: Option<u64>,
        replicas: u8,
    },
    PublishVolume {
        volume: VolumeId,
        if_spec: Option<u64>,
        attempt: AttemptId,
        deadline: Time,
        hosts: BTreeSet<HostId>,
    },
    UnpublishVolume {
        volume: VolumeId,
        if_spec: Option<u64>,
        host: HostId,
        force: bool,
    },
    ShareVolume {
        volume: VolumeId,
        if_spec: Option<u64>,
        consumers: BTreeSet<HostId>,
    },
    PromoteVolume {
        volume: VolumeId,
        attempt: AttemptId,
        replica: Option<ReplicaId>,
        accept_data_loss: bool,
    },
    CreateSnapshot {
        id: SnapshotId,
        name: String,
        volume: VolumeId,
        attempt: AttemptId,
        deadline: Time,
    },
    DeleteSnapshot {
        snapshot: SnapshotId,
    },
    /// Start a new era from what the pools carry. Volumes whose newest copies are not all here come
    /// back only if named.
    Recover {
        era: model::Era,
        accept_data_loss: BTreeSet<VolumeId>,
    },
}

/// Why a request was not accepted. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("there is no {what}")]
    NotFound { what: String },
    #[error("the name {name:?} is taken by {by}")]
    NameTaken { name: String, by: String },
    /// The spec changed since the revision that the user saw, or the resource is being deleted.
    #[error("conflict: {why}")]
    Conflict { why: String },
    /// It is well formed, but cannot be done now; `why` says what would have to change.
    #[error("{why}")]
    Impossible { why: String },
    #[error("in use by {by}")]
    InUse { by: String },
    #[error("the controller is read-only: {why}")]
    ReadOnly { why: String },
    #[error("this controller does not lead")]
    NotLeading,
    #[error("the store is unavailable")]
    StoreUnavailable,
}
