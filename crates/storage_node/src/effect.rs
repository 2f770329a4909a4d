//! What a storage node wants done, and the names by which it hears of the outcome.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::{net::SocketAddr, time::Duration};

use block::Buffer;
use mirror::StoreRequest;
use model::{EngineError, Epoch, HostId, Inventory, NodeId, PoolId, ReplicaId, Revision, VolumeId};
use nvme::Outgoing;
use pool::Io;

/// A connection, accepted or dialled. Its number is given again once the node heard that it is
/// gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u32);

/// A disk that the driver has open, by the driver's own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u32);

/// One operation of a disk, until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskIoId(pub u32);

/// Whoever asked for something that is answered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// One target in one life: answers for another one are thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetKey {
    pub volume: VolumeId,
    pub epoch: Epoch,
}

/// A disk to be opened for a pool. The newest attempt counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDisk {
    pub pool: PoolId,
    pub attempt: u64,
    pub paths: Vec<String>,
}

/// Why a disk could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskOpenError {
    Missing {
        reason: String,
    },
    /// Another process has it.
    Busy {
        reason: String,
    },
    Refused {
        reason: String,
    },
}

/// An operation of a disk failed, with the system's number.
pub type DiskFailure = pool::IoError;

#[derive(Debug)]
pub enum Effect {
    /// Answered by `disk_opened`.
    OpenDisk(OpenDisk),
    /// Not used any more; what is under way on it may end.
    CloseDisk(DiskId),
    /// Answered by `disk_done`. With a delay it is begun so much later. A read brings the memory to
    /// fill, which may hold old bytes: it comes back full, or not at all.
    Disk {
        io: DiskIoId,
        disk: DiskId,
        op: Io,
        buffer: Option<Buffer>,
        delay: Option<Duration>,
    },
    /// Answered by `connected`.
    Dial {
        conn: ConnId,
        to: SocketAddr,
    },
    /// Hand it back with `recycle`.
    Send {
        conn: ConnId,
        outgoing: Outgoing,
    },
    /// When everything before was sent. Answered by `closed`.
    Close(ConnId),
    /// Answered by `store_answered`.
    AskStore {
        target: TargetKey,
        call: u64,
        request: StoreRequest,
    },
    Applied {
        ticket: Ticket,
        result: Result<Revision, EngineError>,
    },
    Inventory {
        ticket: Ticket,
        inventory: Box<Inventory>,
    },
    /// Inventories up to this sequence number are out of date.
    Outdated {
        sequence: u64,
    },
    /// Everything is left clean, or abandoned: nothing more comes.
    Stopped,
    Log(LogEvent),
}

/// Something that happened, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    WaitingForDisk {
        pool: PoolId,
        reason: String,
    },
    PoolImported {
        pool: PoolId,
        stop: pool::Stop,
        replayed: u64,
    },
    FormattingPool {
        pool: PoolId,
        reason: String,
    },
    PoolRefused {
        pool: PoolId,
        reason: String,
    },
    PoolFaulted {
        pool: PoolId,
        reason: String,
    },
    PoolErased {
        pool: PoolId,
    },
    EraseFailed {
        reason: String,
    },
    /// A pool refused what the config wants of it.
    ConfigRefused {
        pool: PoolId,
        what: String,
        reason: String,
    },
    DeviceFailed {
        reason: String,
    },
    ReplicaCreated {
        pool: PoolId,
        replica: ReplicaId,
    },
    ReplicaDestroyed {
        pool: PoolId,
        replica: ReplicaId,
    },
    NoAddress {
        node: NodeId,
    },
    ReplicaUnreachable {
        replica: ReplicaId,
        reason: String,
    },
    HostReconnected {
        host: HostId,
    },
    TargetStarting {
        target: TargetKey,
    },
    TargetEnded {
        target: TargetKey,
    },
    TargetFailedOnPurpose {
        target: TargetKey,
    },
    TargetUnreachable {
        volume: VolumeId,
        reason: &'static str,
    },
    Target {
        target: TargetKey,
        notice: mirror::Notice,
    },
}
