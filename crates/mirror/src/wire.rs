//! What a target asks of a replica, and the answers.
//!
//! Requests of one session arrive in the order they were sent; each gets one answer, unless the
//! session ends before.

use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};

use block::{Durability, Extent};
use model::{AttemptId, Epoch, FlushMark, InstanceId, ReplicaId, Roster, SnapshotId};
use pool::{Absent, FetchedPiece, Header};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Request<D> {
    /// The first of a session: older epochs, and an older session of this one, are out.
    Fence {
        epoch: Epoch,
    },
    /// Nothing, but the answer proves that the epoch is still let in.
    Ping,
    Read {
        extent: Extent,
    },
    /// What a copy needs: the data, and where there is none. Of a snapshot, if one is named; and
    /// only what may differ from an older one, if that is named.
    Fetch {
        extent: Extent,
        image: Option<SnapshotId>,
        since: Option<SnapshotId>,
    },
    Write {
        extent: Extent,
        data: D,
        durability: Durability,
    },
    /// Reads as zeros from now on; the space is given back.
    Zero {
        extent: Extent,
        durability: Durability,
    },
    /// Of a replica that counts, or is copied to, with its mark.
    Flush {
        mark: Option<FlushMark>,
    },
    /// The membership changed. `absent` is whole, and so is `flushed`, of those that are healthy.
    /// With `intact` the replica holds every acknowledged write.
    Roster {
        roster: Roster,
        members: BTreeMap<ReplicaId, bool>,
        absent: BTreeMap<ReplicaId, Absent>,
        flushed: BTreeMap<ReplicaId, FlushMark>,
        intact: bool,
    },
    /// The absent peers, for a replica that is itself being copied to: its roster stays.
    Absent {
        absent: BTreeMap<ReplicaId, Absent>,
    },
    /// These regions are equal on all replicas, which have flushed this.
    Clean {
        regions: Vec<u64>,
        flushed: BTreeMap<ReplicaId, FlushMark>,
    },
    /// These regions were copied to the peer and flushed there.
    Copied {
        peer: ReplicaId,
        regions: Vec<u64>,
    },
    /// Its blocks, as they are, become this snapshot.
    Snapshot(Frozen),
    /// Which snapshots it has now.
    Images,
    /// Removes the snapshot of this attempt, if there is one.
    SnapAbort {
        snapshot: SnapshotId,
        attempt: AttemptId,
    },
    /// The target stops cleanly.
    Stop,
    /// What another replica has there, as it was fetched: written, or zeroed.
    Resync(FetchedPiece<D>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer<D> {
    /// To `Fence`: nothing older can change it any more.
    Fenced(Box<State>),
    Done,
    Data(D),
    Pieces(Vec<FetchedPiece<D>>),
    /// Oldest first.
    Images(Vec<Frozen>),
    Failed(Fault),
}

/// A snapshot on a replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frozen {
    pub snapshot: SnapshotId,
    pub attempt: AttemptId,
    /// The roster when it was frozen first. Another try of the same attempt has another one, and
    /// whoever left before has an older one.
    pub roster: Roster,
    /// Its size: the volume may have grown since.
    pub blocks: u64,
    pub name: String,
}

impl Frozen {
    /// Whether both are one image, with the same data.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let key = |frozen: &Self| (frozen.snapshot, frozen.attempt, frozen.roster);
        key(self) == key(other)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A target of this epoch has it, or another session of the same target.
    Stale {
        epoch: Epoch,
    },
    NoSpace,
    /// These blocks cannot be read, or not be written.
    Media,
    /// The pool's device failed: nothing works any more.
    Faulted,
    /// It may not be done now.
    Refused,
}

/// A replica as its target finds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// Another one with every import of the pool: commands sent to an earlier one are lost.
    pub instance: InstanceId,
    pub header: Header,
    /// Every acknowledged write that it took is still here.
    pub intact: bool,
    /// A target has counted on it since its import: its disk was in use all the time, and not set
    /// back.
    pub is_in_use: bool,
    /// Oldest first.
    pub snapshots: Vec<Frozen>,
}
