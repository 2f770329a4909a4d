//! Why nothing is done just now: reasons are data, with words for people.

use alloc::{string::String, vec::Vec};
use core::fmt;

use crate::{Buried, Bytes, Epoch, HostId, NodeId, PoolId, ReplicaId, SnapshotId, Time};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// No pool takes another replica; `because` counts the pools by the reason that ruled them out.
    NoRoom {
        needed: Bytes,
        because: Vec<(String, usize)>,
    },
    /// A pool the replicas live in lacks the space to grow.
    NoRoomToGrow {
        pool: PoolId,
        needed: Bytes,
    },
    /// An engine was told to make it and has not yet.
    ReplicaMade {
        replica: ReplicaId,
        node: NodeId,
    },
    PoolMade {
        pool: PoolId,
        node: NodeId,
    },
    /// A copy has not yet refused older targets.
    Fence {
        replica: ReplicaId,
        node: NodeId,
        epoch: Epoch,
    },
    TargetStarts {
        node: NodeId,
        epoch: Epoch,
        until: Time,
    },
    TargetStops {
        node: NodeId,
        epoch: Epoch,
        until: Time,
    },
    PathLive {
        host: HostId,
        epoch: Epoch,
    },
    /// The host retries by itself; the target moves if that does not help.
    PathRetried {
        host: HostId,
        until: Time,
    },
    /// A user's attempt, withdrawn if it is not done by then.
    Attempt {
        until: Time,
    },
    HostLeaves {
        host: HostId,
    },
    /// The host does not answer: only a forced unpublish goes on without its word.
    HostSilent {
        host: HostId,
    },
    SessionsClose {
        host: HostId,
    },
    /// Nothing that holds all acknowledged data can be reached.
    NoHealthyCopy {
        missing: Vec<PoolId>,
    },
    /// No node may run the target.
    NowhereToServe,
    CopyRuns {
        replica: ReplicaId,
        percent: Option<u8>,
    },
    /// Every rebuild slot is taken by volumes at least as endangered.
    RebuildSlot {
        copies_left: usize,
    },
    /// A lost copy may still return by itself.
    ReplicaReturns {
        replica: ReplicaId,
        until: Time,
    },
    Backoff {
        until: Time,
    },
    /// This controller has led for too short a time to judge who is gone.
    Observing {
        until: Time,
    },
    NodeHeard {
        node: NodeId,
    },
    ReadOnly {
        why: String,
    },
    Quarantined {
        why: String,
    },
    GrowthSeen {
        replica: ReplicaId,
        size: Bytes,
    },
    SnapshotTaken {
        snapshot: SnapshotId,
        until: Time,
    },
    SnapshotDeleted {
        snapshot: SnapshotId,
    },
    /// Others must be healthy before a copy goes.
    OthersHealthy {
        replica: ReplicaId,
    },
    /// A copy that is not wanted any more holds a snapshot that no healthy one does.
    SnapshotKept {
        replica: ReplicaId,
        snapshot: SnapshotId,
    },
    TombstoneDone {
        node: NodeId,
        buried: Buried,
    },
    OrphanGrace {
        until: Time,
    },
    /// Its absence from the store does not prove that it was deleted: kept, and shown.
    OrphanUnproven {
        replica: ReplicaId,
        why: String,
    },
    NodeEmptied {
        node: NodeId,
    },
    ShareStage {
        host: HostId,
        until: Time,
    },
}

/// What must change before planning again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Space for this many bytes in one pool.
    Room(Bytes),
    Slot,
    Until(Time),
    /// News of the resource itself or of what it touches, which wakes it anyway.
    News,
}

impl Wait {
    pub const fn cause(&self) -> Cause {
        match self {
            Self::NoRoom { needed, .. } | Self::NoRoomToGrow { needed, .. } => Cause::Room(*needed),
            Self::RebuildSlot { .. } => Cause::Slot,
            Self::ReplicaReturns { until, .. }
            | Self::Backoff { until }
            | Self::Observing { until }
            | Self::OrphanGrace { until }
            | Self::TargetStarts { until, .. }
            | Self::TargetStops { until, .. }
            | Self::PathRetried { until, .. }
            | Self::Attempt { until }
            | Self::SnapshotTaken { until, .. }
            | Self::ShareStage { until, .. } => Cause::Until(*until),
            _ => Cause::News,
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serving_words(f)
    }
}

/// The words, in three parts by what is waited for: serving, copying, and everything else.
impl Wait {
    fn serving_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { needed, because } => {
                write!(f, "no pool can take another replica of {needed}")?;
                for (index, (reason, count)) in because.iter().enumerate() {
                    let lead = if index == 0 { ": " } else { ", " };
                    write!(f, "{lead}{count} {reason}")?;
                }
                Ok(())
            }
            Self::NoRoomToGrow { pool, needed } => {
                write!(f, "pool {pool} lacks {needed} for the replica to grow")
            }
            Self::ReplicaMade { replica, node } => {
                write!(f, "node {node} has not yet made replica {replica}")
            }
            Self::PoolMade { pool, node } => write!(f, "node {node} has not yet made pool {pool}"),
            Self::Fence { replica, node, epoch } => write!(
                f,
                "replica {replica} on node {node} does not yet refuse targets older than {epoch}"
            ),
            Self::TargetStarts { node, epoch, until } => write!(
                f,
                "the target of epoch {epoch} is starting on node {node} and has until {until}"
            ),
            Self::TargetStops { node, epoch, until } => write!(
                f,
                "the target of epoch {epoch} is shutting down on node {node} and has until {until}"
            ),
            Self::PathLive { host, epoch } => {
                write!(f, "host {host} has no live path yet to the target of epoch {epoch}")
            }
            Self::PathRetried { host, until } => {
                write!(f, "host {host} lost its path and retries until {until}")
            }
            Self::Attempt { until } => write!(f, "the attempt is withdrawn at {until}"),
            Self::HostLeaves { host } => write!(f, "host {host} still has paths to drop"),
            Self::HostSilent { host } => write!(
                f,
                "host {host} does not answer; if it is gone for good, unpublish it by force"
            ),
            Self::SessionsClose { host } => {
                write!(f, "the target still has sessions of host {host}")
            }
            Self::NoHealthyCopy { missing } => {
                f.write_str("no copy that holds all acknowledged data can be reached; missing")?;
                for (index, pool) in missing.iter().enumerate() {
                    write!(f, "{}pool {pool}", if index == 0 { ": " } else { ", " })?;
                }
                f.write_str("; bring one back, or promote an older copy and accept data loss")
            }
            other => other.copying_words(f),
        }
    }

    fn copying_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NowhereToServe => f.write_str("no node may run the target"),
            Self::CopyRuns { replica, percent: Some(percent) } => {
                write!(f, "replica {replica} is being rebuilt: {percent} %")
            }
            Self::CopyRuns { replica, percent: None } => {
                write!(f, "replica {replica} is about to be rebuilt")
            }
            Self::RebuildSlot { copies_left } => {
                write!(f, "all rebuild slots are taken; {copies_left} healthy copies are left here")
            }
            Self::ReplicaReturns { replica, until } => {
                write!(f, "replica {replica} is gone and replaced unless it returns by {until}")
            }
            other => other.other_words(f),
        }
    }

    fn other_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backoff { until } => write!(f, "tried too often; again at {until}"),
            Self::Observing { until } => {
                write!(
                    f,
                    "this controller leads only since recently and judges nobody before {until}"
                )
            }
            Self::NodeHeard { node } => write!(f, "node {node} has not been heard"),
            Self::ReadOnly { why } => write!(f, "the controller is read-only: {why}"),
            Self::Quarantined { why } => write!(f, "quarantined: {why}"),
            Self::GrowthSeen { replica, size } => {
                write!(f, "replica {replica} has not yet grown to {size}")
            }
            Self::SnapshotTaken { snapshot, until } => write!(
                f,
                "snapshot {snapshot} is not yet on every healthy replica and has until {until}"
            ),
            Self::SnapshotDeleted { snapshot } => {
                write!(f, "snapshot {snapshot} is deleted first")
            }
            Self::OthersHealthy { replica } => {
                write!(f, "replica {replica} stays until the others are healthy without it")
            }
            Self::SnapshotKept { replica, snapshot } => {
                write!(f, "replica {replica} stays: no healthy one holds snapshot {snapshot}")
            }
            Self::TombstoneDone { node, buried } => {
                write!(f, "node {node} has not yet removed {buried}")
            }
            Self::OrphanGrace { until } => write!(f, "an orphan is left alone until {until}"),
            Self::OrphanUnproven { replica, why } => {
                write!(f, "replica {replica} is in no record, and kept: {why}")
            }
            Self::NodeEmptied { node } => write!(f, "node {node} still holds replicas or targets"),
            Self::ShareStage { host, until } => {
                write!(f, "the share's server on host {host} has until {until} to go on")
            }
            // Told by the two before.
            _ => Ok(()),
        }
    }
}
