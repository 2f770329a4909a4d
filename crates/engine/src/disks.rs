//! The disks that the storage node has open, and what it wants of them in the reactor's words.

use std::path::Path;

use block::{BLOCK, Buffer};
use pool::{Io, IoError};
use storage_node::{DiskId, DiskOpenError};
use uring::{Disk, DiskError, Op, Outcome};

/// What a stand-alone engine serves besides volumes.
#[derive(Debug)]
pub enum Device {
    /// In memory, or nothing at all.
    Made(storage_node::Device),
    /// A file or block device as it is.
    File(Disk),
}

impl Device {
    pub fn memory(blocks: u64) -> Option<Self> {
        storage_node::Device::memory(blocks).map(Self::Made)
    }

    pub fn nothing(blocks: u64) -> Self {
        Self::Made(storage_node::Device::nothing(blocks))
    }

    pub fn blocks(&self) -> u64 {
        match self {
            Self::Made(device) => device.blocks(),
            Self::File(disk) => blocks(disk),
        }
    }
}

/// Open disks by number.
#[derive(Debug, Default)]
pub struct Disks {
    open: Vec<Option<Disk>>,
}

impl Disks {
    pub fn open(&mut self, paths: &[String]) -> Result<(DiskId, u64), DiskOpenError> {
        let disk = match paths {
            [one] => Disk::open(Path::new(one)),
            _ => Err(DiskError::NotADisk { path: paths.join(", ").into() }),
        };
        match disk {
            Ok(disk) => Ok(self.insert(disk)),
            Err(error) => {
                let reason = error.to_string();
                Err(match error {
                    DiskError::Missing { .. } => DiskOpenError::Missing { reason },
                    DiskError::Busy { .. } => DiskOpenError::Busy { reason },
                    _ => DiskOpenError::Refused { reason },
                })
            }
        }
    }

    pub fn insert(&mut self, disk: Disk) -> (DiskId, u64) {
        let size = blocks(&disk);
        let free = self.open.iter().position(Option::is_none).unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[free] = Some(disk);
        (DiskId(u32::try_from(free).expect("far fewer disks than that")), size)
    }

    /// What is under way on it keeps it open until it is done.
    pub fn close(&mut self, disk: DiskId) {
        if let Some(entry) = self.open.get_mut(disk.0 as usize) {
            *entry = None;
        }
    }

    /// `None` if the disk is not open.
    pub fn operation(&self, disk: DiskId, io: Io, buffer: Option<Buffer>) -> Option<Op> {
        let disk = self.open.get(disk.0 as usize)?.clone()?;
        Some(match io {
            Io::Read { offset, len } => {
                let buffer = buffer.unwrap_or_else(|| Buffer::zeroed(len));
                Op::Read { disk, offset, buffer }
            }
            Io::Write { offset, data, durability } => {
                Op::Write { disk, offset, data: data.into(), durability }
            }
            Io::Sync => Op::Sync { disk },
            Io::Discard { offset, len } => Op::Discard { disk, offset, len },
        })
    }
}

/// What came of an operation; `None` for what is none of a disk.
pub fn result(outcome: Outcome) -> Option<Result<Option<Buffer>, IoError>> {
    let result = match outcome {
        Outcome::Read { buffer, result } => result.map(|()| Some(buffer)),
        Outcome::Written { result, .. } | Outcome::Synced(result) | Outcome::Discarded(result) => {
            result.map(|()| None)
        }
        _ => return None,
    };
    Some(result.map_err(|error| IoError { code: error.code() }))
}

fn blocks(disk: &Disk) -> u64 {
    disk.size() / BLOCK as u64
}
