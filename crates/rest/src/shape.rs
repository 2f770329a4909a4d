//! The shapes of the API that are not stored: statuses, pages, and what users send.
//!
//! Stored resources keep their own shape; a new field of theirs needs nothing here.

use model::{
    BlockDevice, Bytes, Event, Host, HostId, Labels, Millis, Node, Pool, Replica, ShareLayout,
    ShareSpec, Snapshot, Status, Switchover, Target, Volume, VolumeSpec,
    limits::{DISKS_PER_POOL_MAX, HOSTS_PER_VOLUME_MAX},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeStatus {
    #[serde(flatten)]
    pub status: Status,
    /// It is made, and published if that was asked for.
    pub available: bool,
    /// Copies that hold all acknowledged data, as far as is recorded and seen.
    pub healthy_copies: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolStatus {
    #[serde(flatten)]
    pub status: Status,
    /// As its engine reports it; absent while it is not heard.
    #[serde(default)]
    pub capacity: Option<Bytes>,
    #[serde(default)]
    pub used: Option<Bytes>,
    /// What new replicas may take.
    pub room: Bytes,
    pub replicas: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeStatus {
    #[serde(flatten)]
    pub status: Status,
    pub replicas: usize,
    pub targets: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeShown {
    #[serde(flatten)]
    pub volume: Volume,
    pub status: VolumeStatus,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeShown {
    #[serde(flatten)]
    pub node: Node,
    pub status: NodeStatus,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolShown {
    #[serde(flatten)]
    pub pool: Pool,
    /// The name of its node.
    pub node: String,
    pub status: PoolStatus,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostShown {
    #[serde(flatten)]
    pub host: Host,
    pub status: Status,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotShown {
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// The name of its volume.
    pub volume: String,
    pub status: Status,
}

/// The endpoint that serves a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetShown {
    /// The name of its volume.
    pub volume: String,
    /// The name of its node.
    pub node: String,
    /// Where it listens.
    pub address: String,
    pub target: Target,
    /// Hosts with an open session, as its engine reports.
    pub sessions: Vec<HostId>,
    /// As its engine reports.
    pub seen: String,
}

/// One copy of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplicaShown {
    /// The name of its volume.
    pub volume: String,
    pub pool: String,
    pub node: String,
    pub replica: Replica,
    /// Recorded as holding all acknowledged data, and not started anew since.
    pub healthy: bool,
    /// Progress of a running copy, in percent.
    #[serde(default)]
    pub copied: Option<u8>,
    /// As its engine reports.
    pub seen: String,
}

/// A disk of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockDeviceShown {
    /// The node's name, a colon and the device's: it finds this one.
    pub name: String,
    /// The name of its node.
    pub node: String,
    pub device: BlockDevice,
    /// The pool that is on it, by its name.
    #[serde(default)]
    pub pool: Option<String>,
    /// Nothing is on it: a pool can be made here.
    pub free: bool,
}

/// A volume exported over NFS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShareShown {
    /// The name of its volume.
    pub volume: String,
    #[serde(default)]
    pub spec: Option<ShareSpec>,
    #[serde(default)]
    pub layout: Option<ShareLayout>,
}

/// A failed path, and how far its cure is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwitchoverShown {
    /// The name of its volume.
    pub volume: String,
    pub stage: String,
    pub cause: String,
    pub switchover: Switchover,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Give it as `after` for the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventShown {
    /// Grows from event to event; `Last-Event-ID` of the stream.
    pub number: u64,
    #[serde(flatten)]
    pub event: Event,
}

/// The cluster as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterShown {
    /// The identity of its store; absent before it is founded.
    #[serde(default)]
    pub era: Option<model::Era>,
    pub revision: model::Revision,
    pub leading: bool,
    #[serde(default)]
    pub leader: Option<String>,
    /// Why nothing is decided, if so.
    #[serde(default)]
    pub read_only: Option<String>,
    /// Records that do not decode, and are left alone.
    pub quarantined: Vec<String>,
    pub nodes: usize,
    pub pools: usize,
    pub volumes: usize,
    pub hosts: usize,
}

/// A stored record as it lies in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordShown {
    pub key: String,
    pub modified: model::Revision,
    /// The bytes, if they are JSON; `null` if they are not.
    pub value: Value,
}

/// What a volume shall be. One that exists is compared: a larger size or another count of replicas
/// is a change, anything else a conflict; with `If-None-Match: *` nothing that exists is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumePut {
    /// Made by the client, so that a repeated request is recognised; made here if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<model::VolumeId>,
    #[serde(default)]
    pub labels: Labels,
    pub spec: VolumeSpec,
}

/// What a pool shall be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolPut {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<model::PoolId>,
    #[serde(default)]
    pub labels: Labels,
    /// The id or name of its node.
    #[schemars(length(min = 1))]
    pub node: String,
    /// Absolute paths of devices or files on that node.
    #[schemars(length(min = 1, max = DISKS_PER_POOL_MAX), inner(regex(pattern = "^/")))]
    pub disks: Vec<String>,
}

/// What a snapshot shall be. One of the same name is a conflict, unless `id` or `attempt` say that
/// it is the same request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SnapshotPut {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<model::SnapshotId>,
    /// The id or name of its volume.
    #[schemars(length(min = 1))]
    pub volume: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<model::AttemptId>,
    /// Taken within this time, or withdrawn and recorded as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Millis>,
}

/// Who shall have a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublicationPut {
    /// Ids or names of hosts.
    #[schemars(length(min = 1, max = HOSTS_PER_VOLUME_MAX))]
    pub hosts: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<model::AttemptId>,
    /// Published within this time, or withdrawn and recorded as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Millis>,
}

/// Who mounts a volume over NFS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharePut {
    /// Ids or names of hosts; none ends the share.
    pub consumers: Vec<String>,
}

/// Serve the best remaining copy, and lose what only the lost ones had.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Promote {
    pub accept_data_loss: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<model::ReplicaId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<model::AttemptId>,
}

/// End the target of a volume on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrillStart {
    /// Also if only one healthy copy is left.
    #[serde(default)]
    pub on_last_copy: bool,
}

/// What a drill showed, for the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrillReport {
    /// The node whose target was ended, and the one that serves now, by id or name.
    #[schemars(length(min = 1))]
    pub from: String,
    #[schemars(length(min = 1))]
    pub to: String,
    /// The longest time between two answers at the host.
    pub gap: Millis,
    pub reads: u64,
    pub writes: u64,
    /// Blocks that were compared before and after.
    pub compared: u64,
    /// Those that were wrong.
    pub wrong: u64,
    /// Those that differ while somebody else may have written them.
    pub changed: u64,
}

/// Start a new era from what the pools carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recover {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<model::Era>,
    /// Volumes that come back also if their newest copies are not all here.
    #[serde(default)]
    pub accept_data_loss: Vec<model::VolumeId>,
}
