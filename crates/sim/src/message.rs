//! Everything that travels between two parties.

use std::rc::Rc;

use model::{
    EngineError, Epoch, HostConfig, HostInventory, InstanceId, Inventory, NodeConfig, NodeId,
    Revision, VolumeId,
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
