//! What a stand-alone node can serve besides replicas: memory, nothing, or a disk as it is.
//!
//! For trials and measurements: memory shows the limit of the protocol, a file that of the disk.

use alloc::vec::Vec;

use block::{BLOCK, Buffer, Extent};
use nvme::{Code, Op, Reply, Status};
use pool::Io;

use crate::DiskId;

#[derive(Debug)]
pub enum Device {
    /// Block by block, shared with whoever reads or wrote it: no byte is copied for one block.
    Memory(Vec<Buffer>),
    /// Reads as zeros, forgets what is written.
    Nothing {
        zeros: Buffer,
        blocks: u64,
    },
    Disk {
        disk: DiskId,
        blocks: u64,
    },
}

/// A command, decided.
#[derive(Debug)]
pub(crate) enum DeviceStep {
    Done(Result<Reply, Status>),
    /// The disk does it; its result is the answer.
    Disk(DiskId, Io),
}

impl Device {
    pub fn memory(blocks: u64) -> Option<Self> {
        let count = usize::try_from(blocks).ok()?;
        let mut places = Vec::new();
        places.try_reserve_exact(count).ok()?;
        // All of them share one block of zeros until they are written.
        places.resize(count, Buffer::zeroed(BLOCK));
        Some(Self::Memory(places))
    }

    pub fn nothing(blocks: u64) -> Self {
        Self::Nothing { zeros: Buffer::zeroed(nvme::limits::TRANSFER_MAX), blocks }
    }

    pub fn blocks(&self) -> u64 {
        match self {
            Self::Memory(places) => places.len() as u64,
            Self::Nothing { blocks, .. } | Self::Disk { blocks, .. } => *blocks,
        }
    }

    pub(crate) fn run(&mut self, op: Op) -> DeviceStep {
        match self {
            Self::Memory(places) => DeviceStep::Done(run_memory(places, op)),
            Self::Nothing { zeros, .. } => DeviceStep::Done(run_nothing(zeros, &op)),
            Self::Disk { disk, .. } => run_disk(*disk, op),
        }
    }
}

fn run_memory(places: &mut [Buffer], op: Op) -> Result<Reply, Status> {
    match op {
        Op::Read { extent } => Ok(Reply::Data(read_memory(places, extent)?)),
        Op::Write { extent, data, .. } => {
            for (index, place) in at(places, extent)?.iter_mut().enumerate() {
                *place = data.slice(index * BLOCK..(index + 1) * BLOCK);
            }
            Ok(Reply::Done)
        }
        Op::Zero { extent, .. } => {
            at(places, extent)?.fill(Buffer::zeroed(BLOCK));
            Ok(Reply::Done)
        }
        Op::Deallocate { extents } => {
            for extent in extents {
                at(places, extent)?.fill(Buffer::zeroed(BLOCK));
            }
            Ok(Reply::Done)
        }
        Op::Compare { extent, data } => {
            let is_same = read_memory(places, extent)? == data;
            if is_same { Ok(Reply::Done) } else { Err(Code::CompareFailure.into()) }
        }
        Op::Flush | Op::Verify { .. } | Op::Persist(_) => Ok(Reply::Done),
        Op::NumberedFlush { .. } | Op::Reservation(_) | Op::Vendor(_) => {
            Err(Code::InvalidOpcode.into())
        }
    }
}

fn run_nothing(zeros: &Buffer, op: &Op) -> Result<Reply, Status> {
    match op {
        Op::Read { extent } => {
            let len = usize::try_from(extent.bytes()).unwrap_or(usize::MAX);
            if len > zeros.len() {
                return Err(Code::InvalidField.into());
            }
            Ok(Reply::Data(zeros.slice(0..len)))
        }
        Op::Compare { .. } => Err(Code::CompareFailure.into()),
        Op::NumberedFlush { .. } | Op::Reservation(_) | Op::Vendor(_) => {
            Err(Code::InvalidOpcode.into())
        }
        _ => Ok(Reply::Done),
    }
}

fn run_disk(disk: DiskId, op: Op) -> DeviceStep {
    let io = |io| DeviceStep::Disk(disk, io);
    let refused = |code: Code| DeviceStep::Done(Err(code.into()));
    match op {
        Op::Read { extent } => match usize::try_from(extent.bytes()) {
            Ok(len) => io(Io::Read { offset: extent.offset(), len }),
            Err(_) => refused(Code::InvalidField),
        },
        Op::Write { extent, data, durability } => {
            io(Io::Write { offset: extent.offset(), data, durability })
        }
        Op::Zero { extent, durability, .. } => match usize::try_from(extent.bytes()) {
            Ok(len) => {
                let data = Buffer::zeroed(len);
                io(Io::Write { offset: extent.offset(), data, durability })
            }
            Err(_) => refused(Code::InvalidField),
        },
        Op::Flush => io(Io::Sync),
        // A hint, which need not be followed.
        Op::Deallocate { .. } | Op::Persist(_) | Op::Verify { .. } => {
            DeviceStep::Done(Ok(Reply::Done))
        }
        Op::Compare { .. } | Op::NumberedFlush { .. } | Op::Reservation(_) | Op::Vendor(_) => {
            refused(Code::InvalidOpcode)
        }
    }
}

fn at(places: &mut [Buffer], extent: Extent) -> Result<&mut [Buffer], Status> {
    let range = extent.range();
    let start = usize::try_from(range.start).map_err(|_| Code::LbaOutOfRange)?;
    let end = usize::try_from(range.end).map_err(|_| Code::LbaOutOfRange)?;
    places.get_mut(start..end).ok_or_else(|| Code::LbaOutOfRange.into())
}

fn read_memory(places: &mut [Buffer], extent: Extent) -> Result<Buffer, Status> {
    let places = at(places, extent)?;
    if let [one] = places {
        return Ok(one.clone());
    }
    let mut data = Buffer::zeroed(places.len() * BLOCK);
    if let Some(bytes) = data.get_mut() {
        for (to, from) in bytes.chunks_exact_mut(BLOCK).zip(places.iter()) {
            to.copy_from_slice(from.bytes());
        }
    }
    Ok(data)
}
