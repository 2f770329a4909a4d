//! A pool: how replicas and their snapshots lie on a disk, and what is durable when.
//!
//! Bytes and completions go in, reads, writes and syncs come out; there is no file here. What a
//! replica must remember of the protocol between targets and replicas is its `Header`; the pool
//! keeps it, and changes it only by `Note`s, one journal record each.
//!
//! `Format` makes a pool, `Import` opens it and gives a `Pool`, `Fsck` looks at one without
//! changing it. All four are machines: `poll` says what to do, `io_done` takes what came of it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod header;
mod request;

mod catalog;
mod codec;
mod frame;
mod geometry;
mod journal;
mod map;
mod notes;
mod record;
mod superblock;
mod table;

mod clusters;
mod flaws;
mod log;
mod pool;
mod slab;
mod window;

mod format;
mod fsck;
mod import;
mod load;
mod probe;

#[cfg(any(test, feature = "simulate"))]
mod sim_disk;

#[cfg(test)]
mod tests;

pub use catalog::MOST_BLOCKS;
pub use codec::Malformed;
pub use flaws::{Flaw, Flaws};
pub use format::{Format, FormatError, FormatOptions, FormatStep, erase};
pub use fsck::{Fsck, FsckStep, Report};
pub use geometry::{Area, CLUSTER, Geometry, Sizes};
pub use header::{Absent, Boot, Header, Note};
pub use import::{Import, ImportError, ImportOptions, ImportStep, Imported, Stop};
pub use load::{Finding, LoadError};
pub use pool::{Node, Pool, ReplicaState, SnapshotState, Stats};
pub use probe::{Carries, PROBED, probe};
pub use request::{
    Error, Fault, FetchedPiece, Image, Io, IoError, IoId, NewReplica, Origin, Out, PageState,
    Reply, Request, RequestId,
};
#[cfg(any(test, feature = "simulate"))]
pub use sim_disk::{Crash, SimDisk};
pub use superblock::{Superblock, SuperblockError};
