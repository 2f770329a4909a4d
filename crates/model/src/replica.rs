//! One copy of a volume, in one pool: a part of the volume's layout.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, NodeId, PoolId, ReplicaId, Time};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replica {
    pub id: ReplicaId,
    pub pool: PoolId,
    pub node: NodeId,
    pub stage: ReplicaStage,
    /// Since when it could not be used, as seen by the leader that wrote it down.
    #[serde(default)]
    pub gone_since: Option<Time>,
    /// Not replaced before this time: it may come back with most of its data.
    #[serde(default)]
    pub rebuild_after: Option<Time>,
    /// Holds one of the cluster's rebuild slots: the target may copy to it.
    #[serde(default)]
    pub rebuilding: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

impl Replica {
    pub fn placed(id: ReplicaId, pool: PoolId, node: NodeId) -> Self {
        Self {
            id,
            pool,
            node,
            stage: ReplicaStage::Creating,
            gone_since: None,
            rebuild_after: None,
            rebuilding: false,
            extra: Extra::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaStage {
    /// The engine may make it.
    Creating,
    /// Was observed once: a missing one is reported, never made again.
    Ready,
    /// On its way out: the target takes it out of the membership, then it is dropped.
    Retiring,
}
