//! What a pool is asked, what it asks of its disk, and what it answers.

use alloc::{boxed::Box, string::String, vec::Vec};

use block::{BLOCK, Buffer, Durability, Extent};
use model::{AttemptId, Mark, ReplicaId, Revision, Roster, SnapshotId, VolumeId};
use serde::{Deserialize, Serialize};

use crate::{Note, codec::index};

/// Given by the caller; comes back with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Given by the pool; comes back with the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoId(pub u64);

/// Something that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Image {
    Replica(ReplicaId),
    Snapshot(ReplicaId, SnapshotId),
}

impl Image {
    /// A snapshot of a replica, or the replica itself.
    pub fn of(replica: ReplicaId, snapshot: Option<SnapshotId>) -> Self {
        snapshot.map_or(Self::Replica(replica), |snapshot| Self::Snapshot(replica, snapshot))
    }
}

/// `D` is what stands for the data: buffers, or less where a proof explores what replicas ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request<D = Buffer> {
    Read {
        image: Image,
        extent: Extent,
    },
    /// What a resync needs: the data, and where there is none; only what may differ from an older
    /// snapshot, if one is named.
    Fetch {
        image: Image,
        since: Option<SnapshotId>,
        extent: Extent,
    },
    /// Answered when a crash of the process can no longer lose it; if durable, when nothing can.
    Write {
        replica: ReplicaId,
        extent: Extent,
        data: D,
        durability: Durability,
    },
    /// Reads as zeros from now on, and its space is given back. Durable as a write is.
    Zero {
        replica: ReplicaId,
        extent: Extent,
        durability: Durability,
    },
    /// Every write answered before is durable when this is answered.
    Flush,
    /// Durable when answered, and after every note that was asked for before.
    Note {
        replica: ReplicaId,
        note: Box<Note>,
    },
    Create(Box<NewReplica>),
    /// The data is gone for every reader at once; its space comes back when that is durable.
    Delete {
        replica: ReplicaId,
    },
    /// Only to more blocks.
    Resize {
        replica: ReplicaId,
        blocks: u64,
    },
    /// `roster` is that of the volume when it was frozen first; `blocks` its size, if the replica
    /// has grown since.
    Snapshot {
        replica: ReplicaId,
        snapshot: SnapshotId,
        attempt: AttemptId,
        roster: Roster,
        blocks: Option<u64>,
        name: String,
    },
    /// Takes back every snapshot of this attempt; none is fine.
    AbortSnapshot {
        replica: ReplicaId,
        attempt: AttemptId,
    },
    DeleteSnapshot {
        replica: ReplicaId,
        snapshot: SnapshotId,
    },
    /// One hash per block.
    Hash {
        image: Image,
        extent: Extent,
    },
    /// What the controller can be rebuilt from: a replica's, or the pool's own.
    Carry {
        replica: Option<ReplicaId>,
        revision: Revision,
        bytes: Vec<u8>,
    },
    /// The newest history that was seen.
    Mark {
        mark: Mark,
    },
    /// The device has this many blocks now.
    Grow {
        blocks: u64,
    },
    /// Writes the tables, so that the next import has less to replay.
    Checkpoint,
    /// The last request: the pool is left clean and answers nothing more.
    Export,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewReplica {
    pub replica: ReplicaId,
    pub volume: VolumeId,
    pub blocks: u64,
    /// Takes space as it is written to; otherwise all of it is set aside now, and again after each
    /// snapshot, which fails if it does not fit.
    pub thin: bool,
    pub birth: Option<Mark>,
    pub carried: (Revision, Vec<u8>),
    /// Begins with the contents of this snapshot.
    pub origin: Option<Origin>,
}

/// A snapshot in this pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The replica it was taken of; any that has it, if `None`.
    pub replica: Option<ReplicaId>,
    pub snapshot: SnapshotId,
}

/// What the disk is to do. Offsets and lengths are bytes, whole blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Io {
    Read {
        offset: u64,
        len: usize,
    },
    Write {
        offset: u64,
        data: Buffer,
        durability: Durability,
    },
    /// Makes durable every write that completed before it was given out.
    Sync,
    /// The bytes are no longer needed. It may fail or do nothing.
    Discard {
        offset: u64,
        len: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    Io { id: IoId, io: Io },
    Done { request: RequestId, result: Result<Reply, Error> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<D = Buffer> {
    Done,
    Data(D),
    Pieces(Vec<FetchedPiece<D>>),
    Hashes(Vec<u64>),
}

/// A part of what was fetched.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FetchedPiece<D> {
    pub extent: Extent,
    /// `None`: nothing was ever written there, or it was taken back.
    pub data: Option<D>,
}

impl FetchedPiece<Buffer> {
    /// Data of an extent, cut into what is there and what is not.
    pub fn cut(data: &Buffer, whole: Extent, runs: &[(Extent, bool)]) -> Vec<Self> {
        let at = |block: u64| index((block - whole.start) * BLOCK as u64);
        let piece = |(extent, has_data): &(Extent, bool)| {
            let data = has_data.then(|| data.slice(at(extent.start)..at(extent.end())));
            Self { extent: *extent, data }
        };
        runs.iter().map(piece).collect()
    }
}

/// The disk did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device failed with error {code}")]
pub struct IoError {
    /// The system's number for it.
    pub code: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("there is no such replica or snapshot")]
    NotFound,
    #[error("there is one with this id already")]
    Exists,
    #[error("outside of what there is, or of what is possible")]
    OutOfRange,
    #[error("no space left in the pool")]
    NoSpace,
    #[error("the pool's catalog is full")]
    CatalogFull,
    #[error("larger than the journal can take")]
    TooLarge,
    #[error(transparent)]
    Io(#[from] IoError),
    /// Until it is imported again.
    #[error("the pool is faulted: {fault}")]
    Faulted { fault: Fault },
    #[error("the pool was exported")]
    Exported,
}

/// What a pool never recovers from while it is open: what is durable is no longer known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("a sync failed: {0}")]
    Sync(IoError),
    #[error("the journal could not be written: {0}")]
    Journal(IoError),
    #[error("a table could not be written: {0}")]
    Table(IoError),
    #[error("the journal has no room for what it must take")]
    JournalFull,
    #[error("the catalog has no room for what it must hold")]
    CatalogFull,
}

/// What a run of pages reads as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// Data of its own.
    Own,
    /// Data of a layer below.
    Inherited,
    /// Zeros: never written, or deallocated.
    Hole,
}
