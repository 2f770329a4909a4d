//! What the parts of a node say to each other. A message may cross shards: nothing in it points
//! into another part.

use alloc::boxed::Box;

use block::Buffer;
use model::{Epoch, PoolId, ReplicaId, VolumeId};

use crate::{TargetKey, config::ConfigWork, registry::Handle};

#[derive(Debug)]
pub(crate) enum Message {
    /// To a replica: a target of this node opens a session.
    OpenReplica {
        replica: ReplicaId,
        session: u64,
        from: LocalTarget,
    },
    ReplicaRequest {
        replica: ReplicaId,
        session: u64,
        tag: u64,
        request: mirror::Request<Buffer>,
    },
    CloseReplica {
        replica: ReplicaId,
        session: u64,
    },
    /// To a target: what a replica answered.
    ChildAnswer(ChildAnswer),
    /// To a target: anything else. Rare, and large.
    TargetInput {
        target: TargetKey,
        input: Box<mirror::Input<Buffer>>,
    },
    /// A pool may have something to say.
    PollPool(Handle<PoolId>),
    /// What a replica asked for is answered without its pool.
    ReplicaDiskDone {
        replica: Handle<ReplicaId>,
        id: u64,
        result: Result<pool::Reply, pool::Error>,
    },
    /// A pool did, or refused, what the config wants.
    ConfigWorkDone {
        pool: PoolId,
        work: ConfigWork,
        result: Result<pool::Reply, pool::Error>,
    },
}

/// What a replica answered to a target.
#[derive(Debug)]
pub(crate) struct ChildAnswer {
    pub(crate) to: LocalTarget,
    pub(crate) child: ReplicaId,
    pub(crate) tag: u64,
    pub(crate) answer: mirror::Answer<Buffer>,
}

/// A target of this node, and the number by which it knows a session with a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalTarget {
    pub(crate) volume: Handle<VolumeId>,
    pub(crate) epoch: Epoch,
    pub(crate) session: u64,
}

impl LocalTarget {
    pub(crate) const fn key(&self) -> TargetKey {
        TargetKey { volume: self.volume.id, epoch: self.epoch }
    }
}
