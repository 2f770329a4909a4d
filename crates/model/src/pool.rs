//! A node's storage.

use alloc::{string::String, vec::Vec};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, Meta, NodeId, PoolId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    pub meta: Meta<PoolId>,
    pub spec: PoolSpec,
    #[serde(default)]
    pub layout: PoolLayout,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolSpec {
    pub node: NodeId,
    pub disks: Vec<String>,
    /// Asked to go; accepted only while nothing uses it.
    #[serde(default)]
    pub deleting: bool,
    /// The hardware will never return: nothing waits for it.
    #[serde(default)]
    pub forgotten: bool,
    #[serde(flatten)]
    pub extra: Extra,
}

impl PoolSpec {
    /// One that is to stay.
    pub fn new(node: NodeId, disks: Vec<String>) -> Self {
        Self { node, disks, deleting: false, forgotten: false, extra: Extra::new() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolLayout {
    #[serde(default)]
    pub stage: PoolStage,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PoolStage {
    /// May be made on blank disks.
    #[default]
    Creating,
    /// Was observed once: from now on it must be found, and a missing one is never made again (a
    /// swapped disk must not become a blank healthy copy).
    Ready,
}
