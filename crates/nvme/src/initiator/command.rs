//! Operations as commands.

use alloc::vec::Vec;

use block::{Buffer, Durability, Extent};
use zerocopy::{
    IntoBytes,
    little_endian::{U32, U64},
};

use super::{attach::Attached, queue::Data};
use crate::{
    limits,
    op::{Op, VendorData},
    reservation,
    status::{Code, Status},
    wire::{
        command::{DATASET_DEALLOCATE, DEAC, DatasetRange, FUA, Sqe, io},
        fabrics::{ConnectData, NO_FLOW_CONTROL},
    },
};

/// Blocks that one command can name.
const BLOCKS_MAX: u32 = 1 << 16;

/// The command for an operation and the data that goes with it.
pub(super) fn encode(op: Op, attached: &Attached) -> Result<(Sqe, Data), Status> {
    let nsid = attached.nsid;
    let on = |opcode: u8, extent: &Extent, flags: u32| -> Result<Sqe, Status> {
        let blocks = extent.blocks.saturating_mul(1 << attached.shift);
        if blocks == 0 || blocks > BLOCKS_MAX {
            return Err(Code::InvalidField.into());
        }
        let start = extent.start << attached.shift;
        Ok(Sqe::new(opcode).nsid(nsid).words([0, 0, (blocks - 1) | flags]).with_wide(start))
    };
    let fua_flag = |durability: Durability| if durability.is_durable() { FUA } else { 0 };
    match op {
        Op::Read { extent } => {
            let bytes = moved(&extent, attached)?;
            Ok((on(io::READ, &extent, 0)?, Data::In(bytes)))
        }
        Op::Write { extent, data, durability } => {
            exactly(&extent, &data, attached)?;
            Ok((on(io::WRITE, &extent, fua_flag(durability))?, Data::Out(data)))
        }
        Op::Compare { extent, data } => {
            exactly(&extent, &data, attached)?;
            Ok((on(io::COMPARE, &extent, 0)?, Data::Out(data)))
        }
        Op::Flush => Ok((Sqe::new(io::FLUSH).nsid(nsid), Data::None)),
        Op::NumberedFlush { number } => {
            Ok((Sqe::new(io::NUMBERED_FLUSH).nsid(nsid).with_wide(number), Data::None))
        }
        Op::Verify { extent } => Ok((on(io::VERIFY, &extent, 0)?, Data::None)),
        Op::Zero { extent, deallocate, durability } => {
            let flags = fua_flag(durability) | if deallocate { DEAC } else { 0 };
            Ok((on(io::WRITE_ZEROES, &extent, flags)?, Data::None))
        }
        Op::Deallocate { extents } => dataset(&extents, attached),
        Op::Reservation(command) => Ok(reserve(command, nsid)),
        Op::Vendor(vendor) => {
            let sqe = Sqe::new(vendor.opcode).nsid(nsid).words(vendor.words);
            let data = match vendor.data {
                VendorData::None => Data::None,
                VendorData::ToController(data) => Data::Out(data),
                VendorData::FromController(bytes) => Data::In(bytes),
            };
            Ok((sqe, data))
        }
        Op::Persist(_) => Err(Code::InvalidOpcode.into()),
    }
}

fn reserve(command: reservation::Command, nsid: u32) -> (Sqe, Data) {
    let (sqe, data) = command.encode();
    let data = match command {
        reservation::Command::Report { bytes } => Data::In(bytes),
        _ => Data::Out(Buffer::copy_of(&data)),
    };
    (sqe.nsid(nsid), data)
}

fn moved(extent: &Extent, attached: &Attached) -> Result<usize, Status> {
    let bytes = usize::try_from(extent.bytes()).unwrap_or(usize::MAX);
    if bytes == 0 || bytes > attached.max_transfer {
        return Err(Code::InvalidField.into());
    }
    Ok(bytes)
}

fn exactly(extent: &Extent, data: &Buffer, attached: &Attached) -> Result<(), Status> {
    let is_exact = moved(extent, attached)? == data.len();
    if is_exact { Ok(()) } else { Err(Code::InvalidField.into()) }
}

fn dataset(extents: &[Extent], attached: &Attached) -> Result<(Sqe, Data), Status> {
    if extents.is_empty() || extents.len() > limits::DATASET_RANGES {
        return Err(Code::InvalidField.into());
    }
    let ranges: Vec<_> = extents
        .iter()
        .map(|extent| DatasetRange {
            attributes: U32::new(0),
            blocks: U32::new(extent.blocks << attached.shift),
            start: U64::new(extent.start << attached.shift),
        })
        .collect();
    let count = u32::try_from(ranges.len()).unwrap_or_default().saturating_sub(1);
    let sqe = Sqe::new(io::DATASET).nsid(attached.nsid).words([count, DATASET_DEALLOCATE]);
    Ok((sqe, Data::Out(Buffer::copy_of(ranges.as_bytes()))))
}

/// Connect, for the queue of this number.
pub(super) fn connect(
    qid: u16,
    entries: u16,
    keep_alive_ms: u32,
    data: &ConnectData,
) -> (Sqe, Data) {
    let sqe = Sqe::fabrics(crate::wire::command::fabrics::CONNECT).words([
        u32::from(qid) << 16,
        u32::from(entries - 1) | u32::from(NO_FLOW_CONTROL) << 16,
        keep_alive_ms,
    ]);
    (sqe, Data::Out(Buffer::copy_of(data.as_bytes())))
}
