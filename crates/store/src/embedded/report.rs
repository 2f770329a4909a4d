//! What was found in a store file, and how that is told.

use core::fmt;
use std::{
    io,
    path::{Path, PathBuf},
};

use ports::{Revision, StoreError};

/// What a store file holds, as found by reading all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub file: PathBuf,
    pub bytes: u64,
    pub records: u64,
    pub entries: usize,
    pub revision: Revision,
    /// The first revision that a watch may start from.
    pub oldest: Revision,
    /// What was not as it should be but costs no acknowledged write; empty for a sound file.
    pub repairs: Vec<Repair>,
}

/// What opening mends (and checking only names).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Behind the last acknowledged write stood a write that never finished.
    CutTail { offset: u64, bytes: u64, why: String },
    /// A mark could not be read; the records themselves are whole.
    RenewedMark,
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutTail { offset, bytes, why } => write!(
                f,
                "{bytes} bytes at offset {offset} belong to a write that was never acknowledged \
                 and are cut off ({why})"
            ),
            Self::RenewedMark => {
                write!(f, "a mark is unreadable and is written again; all records are whole")
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, bytes, records, entries, revision, oldest, repairs } = self;
        let file = file.display();
        write!(f, "{file}: {bytes} bytes, {records} records, {entries} entries at revision ")?;
        write!(f, "{revision}, history from {oldest}")?;
        repairs.iter().try_for_each(|repair| write!(f, "; {repair}"))
    }
}

/// A place in a file where reading ended before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) offset: u64,
    pub(super) why: String,
}

impl Broken {
    pub(super) fn at(offset: u64, why: &str) -> Self {
        Self { offset, why: why.to_owned() }
    }

    pub(super) fn damaged(self, file: &Path) -> StoreError {
        let Self { offset, why } = self;
        let reason = format!(
            "{}, offset {offset}: {why}; acknowledged writes may be lost, so it is left as it is: \
             restore a backup, or dump it to see what can still be read",
            file.display()
        );
        StoreError::Damaged { reason }
    }
}

/// Why a file cannot be read to its end.
#[derive(Debug)]
pub(super) enum Fault {
    Io(io::Error),
    /// A frame is not as it was written, or was never written whole: where it lies decides.
    Torn(Broken),
    Broken(Broken),
}

impl Fault {
    pub(super) fn told(self, file: &Path) -> StoreError {
        match self {
            Self::Io(error) => unreachable("read", file, &error),
            Self::Torn(broken) | Self::Broken(broken) => broken.damaged(file),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The file system said no: nothing is known to be damaged.
pub(super) fn unreachable(doing: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable { reason: format!("cannot {doing} {}: {error}", path.display()) }
}
