//! Everything that travels between two parties.

use std::{collections::BTreeMap, rc::Rc};

use model::{
    AttemptId, Bytes, EngineError, Epoch, HostConfig, HostInventory, InstanceId, Inventory,
    NodeConfig, NodeId, ReplicaId, Revision, Roster, SnapshotId, VolumeId,
};
use plan::{Accepted, Refusal, Request};
use ports::{Entry, Kept, LeaseRequest, StoreError, Txn, TxnOutcome, WatchEvent};

#[derive(Clone, Debug)]
pub enum Message {
    ToStore {
        call: Call,
        op: StoreOp,
    },
    FromStore {
        call: Call,
        answer: StoreAnswer,
    },
    /// A push to a watcher.
    Watched(Watched),

    Apply(Rc<NodeConfig>),
    Applied(Result<Revision, EngineError>),
    Registered(InstanceId),
    HostRegistered {
        instance: InstanceId,
        node: Option<NodeId>,
    },
    Inventory(Rc<Inventory>),
    ApplyHost(Rc<HostConfig>),
    HostApplied(Result<Revision, EngineError>),
    HostInventory(Rc<HostInventory>),
    /// The process of the sender is gone: its connections were reset.
    Reset(InstanceId),

    Child(ChildRequest),
    ChildReply(ChildReply),
    Path(PathRequest),
    PathReply(PathReply),
    /// Of a connection between two machines, where bytes travel.
    Stream(StreamPiece),

    Request {
        id: u64,
        request: Rc<Request>,
    },
    Reply {
        id: u64,
        reply: Result<Accepted, Refusal>,
    },
}

#[derive(Clone, Debug)]
pub struct StreamPiece {
    pub stream: StreamId,
    pub event: StreamEvent,
}

/// A connection, by the process that dialled and the number that it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    pub dialler: InstanceId,
    pub number: u64,
}

#[derive(Clone, Debug)]
pub enum StreamEvent {
    Dial,
    /// By this process.
    Accepted(InstanceId),
    Bytes(Rc<[u8]>),
    Close,
}

/// Who waits for an answer, so that it finds its way and a late one is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub caller: Caller,
    pub number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Controller,
    Target {
        volume: VolumeId,
        epoch: Epoch,
    },
    /// An engine process, as its stream to a controller tells it.
    Process {
        instance: InstanceId,
    },
}

#[derive(Clone, Debug)]
pub enum StoreOp {
    List,
    Read(Vec<String>),
    Commit(Rc<Txn>),
    Lease(LeaseRequest),
    /// What happened from here on, and pushes of what happens later.
    Watch {
        from: Revision,
    },
}

#[derive(Clone, Debug)]
pub enum StoreAnswer {
    Listed {
        entries: Vec<Entry>,
        revision: Revision,
        incarnation: u32,
    },
    Read {
        entries: Vec<Entry>,
        revision: Revision,
    },
    Committed(Result<TxnOutcome, StoreError>),
    Lease(Result<Kept, StoreError>),
    Watched(Watched),
    /// The store says at once that it cannot serve: nothing was written.
    Unavailable,
}

#[derive(Clone, Debug)]
pub struct Watched {
    pub from: Revision,
    pub next: Revision,
    pub events: Vec<WatchEvent>,
    /// Counts the stores that this one was restored as: another one has another history.
    pub incarnation: u32,
    /// The history from `from` on is forgotten.
    pub compacted: bool,
}

/// From a target to the engine that holds a replica. Requests of one session arrive in order.
#[derive(Clone, Debug)]
pub struct ChildRequest {
    pub session: u64,
    pub sequence: u32,
    pub volume: VolumeId,
    pub replica: ReplicaId,
    pub epoch: Epoch,
    pub op: ChildOp,
}

#[derive(Clone, Debug)]
pub enum ChildOp {
    /// Raises the epoch, drains and closes older sessions, answers with the header.
    Fence,
    Ping,
    Write {
        block: usize,
        value: u64,
    },
    Read {
        block: usize,
    },
    Roster {
        roster: Roster,
        members: Rc<BTreeMap<ReplicaId, bool>>,
    },
    Freeze {
        snapshot: SnapshotId,
        name: String,
        attempt: AttemptId,
        size: Bytes,
    },
    Thaw {
        snapshot: SnapshotId,
    },
    /// Every snapshot with its data, for a copy that lacks them.
    Frozen,
    CopyFrozen(Rc<Frozen>),
}

pub type Frozen = BTreeMap<SnapshotId, crate::fakes::disk::SnapshotDisk>;

#[derive(Clone, Debug)]
pub struct ChildReply {
    pub session: u64,
    pub sequence: u32,
    pub volume: VolumeId,
    pub replica: ReplicaId,
    pub epoch: Epoch,
    pub result: Result<ChildDone, ChildError>,
}

#[derive(Clone, Debug)]
pub enum ChildDone {
    Header(Header),
    Done,
    Value(u64),
    Frozen(Rc<Frozen>),
}

/// What a replica tells a target that fenced it.
#[derive(Clone, Debug)]
pub struct Header {
    pub roster: Roster,
    pub snapshots: BTreeMap<SnapshotId, AttemptId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildError {
    /// A newer target was admitted.
    Stale {
        epoch: Epoch,
    },
    NoSpace,
    /// There is no such replica here, or its pool cannot be used.
    Gone,
    /// The session is not open (any more), or a request of it was lost.
    Closed,
}

/// From a host to a target. Requests of one session arrive in order.
#[derive(Clone, Copy, Debug)]
pub struct PathRequest {
    pub session: u64,
    pub volume: VolumeId,
    pub epoch: Epoch,
    pub op: PathOp,
}

#[derive(Clone, Copy, Debug)]
pub enum PathOp {
    Connect,
    Disconnect,
    Ping,
    Write { tag: u64, block: usize, value: u64 },
    Read { tag: u64, block: usize },
}

#[derive(Clone, Copy, Debug)]
pub struct PathReply {
    pub session: u64,
    pub volume: VolumeId,
    pub result: PathResult,
}

#[derive(Clone, Copy, Debug)]
pub enum PathResult {
    Connected,
    Refused,
    Pong,
    Wrote {
        tag: u64,
    },
    Value {
        tag: u64,
        value: u64,
    },
    /// Every copy is full: the write did not happen.
    NoSpace {
        tag: u64,
    },
    Closed,
}
