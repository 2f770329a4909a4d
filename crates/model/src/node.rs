//! A machine that runs an engine.

use alloc::string::String;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, InstanceId, Meta, NodeId, Time};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    pub meta: Meta<NodeId>,
    pub spec: NodeSpec,
    #[serde(default)]
    pub layout: NodeLayout,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSpec {
    /// Where its engine listens.
    pub address: String,
    /// Nothing new is placed here.
    #[serde(default)]
    pub cordoned: bool,
    /// Targets and replicas move away; implies `cordoned`.
    #[serde(default)]
    pub draining: bool,
    /// The machine will never return: nothing waits for it.
    #[serde(default)]
    pub forgotten: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeLayout {
    /// The engine process that registered last. Configs name it, and any other process refuses
    /// them, so a stale leader cannot configure a process that its store has not heard of.
    #[serde(default)]
    pub instance: Option<InstanceId>,
    #[serde(default)]
    pub gone_since: Option<Time>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a controller believes of a node or host; held in memory, gathered anew after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveness {
    /// Not heard by this controller, which has not waited long enough to judge either.
    #[default]
    Unknown,
    Alive,
    Dead,
}
