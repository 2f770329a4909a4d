//! A way from a host to a target.

use serde::{Deserialize, Serialize};

use crate::{Epoch, NodeId, Time};

/// One path as the host sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSeen {
    pub node: NodeId,
    pub epoch: Epoch,
    pub health: PathHealth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathHealth {
    Connecting,
    Live,
    Failed { kind: PathFailure, since: Time },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PathFailure {
    /// The other side reset or closed the connection.
    Reset,
    /// No answer to keep-alives.
    Silent,
    /// The target answered, but refused this host or this epoch.
    Refused,
}
