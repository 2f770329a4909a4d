//! What a controller asks its driver to do.

use alloc::string::String;

use model::{Epoch, HostConfig, HostId, LeaseId, NodeConfig, NodeId, Txn, VolumeId};
use plan::{Accepted, Refusal};

use crate::RequestId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitId(pub u64);

#[derive(Clone, Debug)]
pub enum Effect {
    /// List the whole store, then watch from the revision after it.
    Load,
    Commit {
        id: CommitId,
        txn: Txn,
    },
    GrantLease {
        ttl: model::Millis,
    },
    RenewLease {
        lease: LeaseId,
    },
    RevokeLease {
        lease: LeaseId,
    },
    Apply {
        node: NodeId,
        config: NodeConfig,
    },
    ApplyHost {
        host: HostId,
        config: HostConfig,
    },
    /// End a target at once, for a drill.
    Strike {
        node: NodeId,
        volume: VolumeId,
        epoch: Epoch,
    },
    Reply {
        id: RequestId,
        reply: Result<Accepted, Refusal>,
    },
    /// For logs: a step was committed, or a wait began.
    Note {
        words: String,
    },
}
