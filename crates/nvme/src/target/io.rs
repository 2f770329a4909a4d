//! Commands of I/O queues: from 64 bytes to an operation on blocks.

use alloc::vec::Vec;

use block::{BLOCK, Buffer, Durability, Extent};
use zerocopy::FromBytes;

use super::{
    core::{Answer, Core},
    session::{Session, SessionId},
    subsystem::{Exported, Kind, NSID},
};
use crate::{
    limits,
    op::Op,
    reservation,
    status::{Code, Status},
    wire::{
        command::{DATASET_DEALLOCATE, DEAC, DatasetRange, FUA, Sqe, io},
        log::Ana,
    },
};

/// How much data the host sends along.
pub(crate) fn host_bytes(sqe: &Sqe) -> usize {
    match sqe.opcode {
        io::WRITE | io::COMPARE => blocks(sqe) as usize * BLOCK,
        io::DATASET => ranges(sqe) * size_of::<DatasetRange>(),
        opcode => reservation::Command::data_len(opcode),
    }
}

/// Whether data must be exactly as long as the command says. Linux sends a whole page with Dataset
/// Management, whatever the number of ranges.
pub(crate) fn is_exact(sqe: &Sqe) -> bool {
    matches!(sqe.opcode, io::WRITE | io::COMPARE)
}

/// Why the command cannot be done whatever data comes: asked before any is sent for.
pub(crate) fn refusal(core: &Core, id: SessionId, sqe: &Sqe) -> Option<Status> {
    let Some((session, exported)) = core.exported(id) else {
        return Some(Code::InternalError.into());
    };
    check(session, exported, sqe).err()
}

fn blocks(sqe: &Sqe) -> u32 {
    (sqe.word(12) & 0xffff) + 1
}

fn ranges(sqe: &Sqe) -> usize {
    usize::from(sqe.word(10).to_le_bytes()[0]) + 1
}

fn check(session: &Session, exported: &Exported, sqe: &Sqe) -> Result<(), Status> {
    if !session.is_enabled() {
        return Err(Code::CommandSequence.into());
    }
    if sqe.nsid.get() != NSID {
        return Err(Code::InvalidNamespace.into());
    }
    let namespace = &exported.subsystem.namespace;
    match namespace.ana {
        Ana::Optimized | Ana::NonOptimized => {}
        Ana::Inaccessible => return Err(Code::Inaccessible.into()),
        Ana::PersistentLoss => return Err(Code::PersistentLoss.into()),
        Ana::Change => return Err(Code::Transition.into()),
    }
    let names_blocks =
        matches!(sqe.opcode, io::READ | io::WRITE | io::COMPARE | io::VERIFY | io::WRITE_ZEROES);
    if names_blocks {
        within(sqe.wide(), blocks(sqe), namespace.blocks)?;
    }
    let moves_data = matches!(sqe.opcode, io::READ | io::WRITE | io::COMPARE);
    if moves_data && blocks(sqe) as usize * BLOCK > limits::TRANSFER_MAX {
        return Err(Code::InvalidField.into());
    }
    // Longer lists are not offered; those of writes are looked at before their data is asked for.
    if sqe.opcode == io::READ && sqe.sgl.length.get() as usize != blocks(sqe) as usize * BLOCK {
        return Err(Code::SglLengthInvalid.into());
    }
    Ok(())
}

fn within(start: u64, blocks: u32, size: u64) -> Result<Extent, Status> {
    match start.checked_add(blocks.into()) {
        Some(end) if end <= size => Ok(Extent::new(start, blocks)),
        _ => Err(Code::LbaOutOfRange.into()),
    }
}

impl Core {
    pub(crate) fn io(&mut self, id: SessionId, sqe: &Sqe, data: Option<Buffer>) -> Answer {
        let Some((session, exported)) = self.exported(id) else {
            return Code::InternalError.into();
        };
        if let Err(status) = check(session, exported, sqe) {
            return status.into();
        }
        let op = match operation(session, exported, sqe, data) {
            Ok(op) => op,
            Err(status) => return status.into(),
        };
        match (op, &exported.subsystem.kind) {
            (Some(Op::Reservation(command)), Kind::Volume { .. }) => self.reserve(id, &command),
            (Some(op), Kind::Volume { reservations, .. }) => {
                if !reservations.allows(&session.host_id, op.access()) {
                    return Code::ReservationConflict.into();
                }
                ask(op)
            }
            (Some(op), Kind::Replica) => ask(op),
            (None, _) => Answer::fine(),
        }
    }
}

fn ask(op: Op) -> Answer {
    let reply_max = match &op {
        Op::Read { extent } => extent.blocks as usize * BLOCK,
        Op::Reservation(reservation::Command::Report { bytes }) => *bytes,
        _ => 0,
    };
    Answer::Ask { op, reply_max }
}

/// `None` for one that has nothing to do.
fn operation(
    session: &Session,
    exported: &Exported,
    sqe: &Sqe,
    data: Option<Buffer>,
) -> Result<Option<Op>, Status> {
    let extent = Extent::new(sqe.wide(), blocks(sqe));
    let flags = sqe.word(12);
    // With the cache switched off every write is a durable one.
    let is_durable = flags & FUA != 0 || !session.features.is_write_cache_on;
    let durability = Durability::from_fua(is_durable);
    let op = match (sqe.opcode, data) {
        (io::FLUSH, _) => Op::Flush,
        (io::NUMBERED_FLUSH, _) => Op::NumberedFlush { number: sqe.wide() },
        (io::READ, _) => Op::Read { extent },
        (io::WRITE, Some(data)) => Op::Write { extent, data, durability },
        (io::COMPARE, Some(data)) => Op::Compare { extent, data },
        (io::VERIFY, _) => Op::Verify { extent },
        (io::WRITE_ZEROES, _) => Op::Zero { extent, deallocate: flags & DEAC != 0, durability },
        (io::DATASET, Some(data)) => {
            let extents = dataset(sqe, data.bytes(), exported.subsystem.namespace.blocks)?;
            if sqe.word(11) & DATASET_DEALLOCATE == 0 || extents.is_empty() {
                return Ok(None);
            }
            Op::Deallocate { extents }
        }
        (
            io::RESERVATION_REGISTER
            | io::RESERVATION_ACQUIRE
            | io::RESERVATION_RELEASE
            | io::RESERVATION_REPORT,
            data,
        ) => {
            let data = data.as_ref().map_or(&[][..], |data| data.bytes());
            Op::Reservation(reservation::Command::parse(sqe, data)?)
        }
        (io::WRITE | io::COMPARE | io::DATASET, None) => return Err(Code::SglLengthInvalid.into()),
        _ => return Err(Code::InvalidOpcode.into()),
    };
    Ok(Some(op))
}

fn dataset(sqe: &Sqe, data: &[u8], size: u64) -> Result<Vec<Extent>, Status> {
    let count = ranges(sqe);
    let (listed, _) = <[DatasetRange]>::ref_from_prefix_with_elems(data, count)
        .map_err(|_| Status::new(Code::SglLengthInvalid))?;
    let extents = listed.iter().filter(|range| range.blocks.get() != 0);
    extents.map(|range| within(range.start.get(), range.blocks.get(), size)).collect()
}
