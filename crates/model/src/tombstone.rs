//! The only thing for which an engine destroys data.

use serde::{Deserialize, Serialize};

use crate::{Epoch, Extra, NodeId, PoolId, ReplicaId, Revision, SnapshotId, Time, VolumeId};

/// An order to one node to remove one thing, by its id. It goes when it is observed done, or when
/// the node or pool is forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    pub node: NodeId,
    pub buried: Buried,
    pub at: Time,
    #[serde(skip)]
    pub revision: Revision,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Buried {
    Target { volume: VolumeId, epoch: Epoch },
    Replica { replica: ReplicaId, pool: PoolId },
    Snapshot { snapshot: SnapshotId, replica: ReplicaId, pool: PoolId },
    Pool { pool: PoolId },
}

impl Tombstone {
    pub fn new(node: NodeId, buried: Buried, at: Time) -> Self {
        Self { node, buried, at, revision: Revision::ZERO, extra: Extra::new() }
    }
}

impl Buried {
    /// The pool it lies in, whose presence must be observed before absence counts.
    pub const fn pool(&self) -> Option<PoolId> {
        match self {
            Self::Target { .. } => None,
            Self::Replica { pool, .. } | Self::Snapshot { pool, .. } | Self::Pool { pool } => {
                Some(*pool)
            }
        }
    }
}
