//! A machine that consumes volumes.

use alloc::string::String;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, HostId, InstanceId, Meta, NodeId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    pub meta: Meta<HostId>,
    pub spec: HostSpec,
    #[serde(default)]
    pub layout: HostLayout,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostSpec {
    /// The NVMe qualified name it connects with.
    pub nqn: String,
    /// The storage node on the same machine, if there is one.
    #[serde(default)]
    pub node: Option<NodeId>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostLayout {
    /// The agent process that registered last: configs name it.
    #[serde(default)]
    pub instance: Option<InstanceId>,
    #[serde(flatten)]
    pub extra: Extra,
}
