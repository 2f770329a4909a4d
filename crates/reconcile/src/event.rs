//! What can happen to a controller.

use alloc::{boxed::Box, string::String, vec::Vec};

use model::{
    Change, Difference, EngineError, Entry, HostId, HostInventory, InstanceId, Inventory, LeaseId,
    NodeId, Revision,
};
use plan::Request;

use crate::CommitId;

#[derive(Clone, Debug)]
pub enum Event {
    /// Time passed. Anything may be handled late; a late tick is noticed and kills nobody.
    Tick,
    /// The whole store at one revision, in answer to `Effect::Load`.
    Loaded {
        entries: Vec<Entry>,
        revision: Revision,
    },
    /// One revision's changes, in order and without gaps from the last `Loaded` on.
    Changed {
        revision: Revision,
        changes: Vec<Change>,
    },
    /// The watch ended for good (compacted, or the store was replaced): load again.
    WatchLost,
    Committed {
        id: CommitId,
        outcome: Outcome,
    },
    Lease(LeaseAnswer),
    /// An engine process says who it is, on every connection.
    NodeRegistered {
        node: NodeId,
        name: String,
        address: String,
        instance: InstanceId,
    },
    HostRegistered {
        host: HostId,
        name: String,
        nqn: String,
        /// The storage node on the same machine, if there is one.
        node: Option<NodeId>,
        instance: InstanceId,
    },
    Inventory(Box<Inventory>),
    /// What changed since the engine's last inventory.
    Difference(Difference),
    HostInventory(HostInventory),
    Heartbeat {
        node: NodeId,
        instance: InstanceId,
    },
    HostHeartbeat {
        host: HostId,
        instance: InstanceId,
    },
    /// A host or peer made progress through this node: it lives, whatever its own stream says.
    HeardThrough {
        node: NodeId,
    },
    /// The stream was reset or the connection refused: the process is gone, no timer needed.
    NodeClosed {
        node: NodeId,
        instance: InstanceId,
    },
    HostClosed {
        host: HostId,
        instance: InstanceId,
    },
    /// The answer to `Effect::Apply`.
    NodeAnswered {
        node: NodeId,
        answer: Result<Revision, EngineError>,
    },
    HostAnswered {
        host: HostId,
        answer: Result<Revision, EngineError>,
    },
    Request {
        id: RequestId,
        request: Request,
        /// The revision of the spec that the user saw, if the request depends on it.
        if_spec: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed {
        revision: Revision,
    },
    /// A compare did not hold: nothing was written.
    Refused,
    /// Nothing was written; the store cannot be reached.
    Unavailable,
    /// It may or may not have been written. The driver reads until it knows, and answers again.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    Granted {
        lease: LeaseId,
    },
    Renewed {
        lease: LeaseId,
    },
    Ended {
        lease: LeaseId,
    },
    /// No answer in time.
    Unavailable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u64);
