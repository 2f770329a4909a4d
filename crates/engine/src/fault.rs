//! Faults on purpose, for tests: refused unless the process was started for them.

use std::time::Duration;

use model::{PoolId, ReplicaId};
use serde::{Deserialize, Serialize};

/// What to break, until told otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// Every write to the pool's disk fails.
    FailWrites { pool: PoolId },
    /// Every sync of the pool's disk fails.
    FailSyncs { pool: PoolId },
    /// Reads of the pool's disk fail from this byte on, for as many.
    FailReads { pool: PoolId, offset: u64, len: u64 },
    /// Every operation of the pool's disk completes this much later.
    Slow { pool: PoolId, by: Duration },
    /// Sessions with this replica are cut.
    CutReplica { replica: ReplicaId },
    /// Everything is as before.
    Heal,
}
