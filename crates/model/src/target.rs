//! The NVMe/TCP endpoint that serves a volume: a part of the volume's layout.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Epoch, Extra, InstanceId, NodeId, Time};

/// One target in one process instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    pub node: NodeId,
    /// The engine process that may serve it. Another process of the same node takes a new epoch.
    pub instance: InstanceId,
    pub epoch: Epoch,
    pub stage: TargetStage,
    pub since: Time,
    #[serde(flatten)]
    pub extra: Extra,
}

/// ```text
/// Fencing ─▶ Starting ─▶ Serving ─▶ Stopping ─▶ (gone)
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TargetStage {
    /// The epoch is issued; the replicas are told to admit it and nothing older.
    Fencing,
    /// Every replica recorded healthy admits it, or cannot be reached by anyone: it may start.
    Starting,
    /// Was observed serving at its epoch: hosts get a path.
    Serving,
    /// Asked to shut down cleanly.
    Stopping,
}

/// A target that was replaced and is to be removed from its node.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct TargetRef {
    pub node: NodeId,
    pub epoch: Epoch,
}

impl Target {
    pub const fn reference(&self) -> TargetRef {
        TargetRef { node: self.node, epoch: self.epoch }
    }
}

impl fmt::Display for TargetStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fencing => "fencing",
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Stopping => "stopping",
        })
    }
}
