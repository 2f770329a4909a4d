//! Faults on purpose, for tests: refused unless the node was started for them.

use alloc::collections::BTreeSet;
use core::time::Duration;

use model::{PoolId, ReplicaId, VolumeId};
use serde::{Deserialize, Serialize};

/// What to break, until told otherwise; only a cut is over at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InjectedFault {
    /// Every write to the pool's disk fails.
    FailWrites { pool: PoolId },
    /// Every sync of the pool's disk fails.
    FailSyncs { pool: PoolId },
    /// Reads of the pool's disk fail from this byte on, for as many.
    FailReads { pool: PoolId, offset: u64, len: u64 },
    /// Every operation of the pool's disk completes this much later.
    Slow { pool: PoolId, by: Duration },
    /// The sessions that this replica has are cut; new ones are let in.
    CutReplica { replica: ReplicaId },
    /// Nobody has a session with this replica, targets of this node included.
    HideReplica { replica: ReplicaId },
    /// The volume's target works and cannot be reached: its name cannot be given to the port.
    FailExport { volume: VolumeId },
    /// Everything is as before.
    Heal,
}

/// Faults of sessions that stand; those of disks are with their pools.
#[derive(Debug, Default)]
pub(crate) struct InjectedFaults {
    pub(crate) hidden: BTreeSet<ReplicaId>,
    pub(crate) not_exported: BTreeSet<VolumeId>,
}
