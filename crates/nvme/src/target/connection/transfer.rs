//! How a command's data gets here: in its capsule, or asked for when there is room.

use block::Buffer;
use zerocopy::{
    FromBytes,
    little_endian::{U16, U32},
};

use super::{
    super::{admin, core::Core, core::Role, io, slots::Slot},
    Connection, Phase, Sink,
};
use crate::{
    frame::Fault,
    limits,
    outgoing::common,
    status::{Code, Status},
    wire::{
        command::{FABRICS, Place as SglPlace, Sqe},
        pdu::{Fes, Kind, LAST, Transfer},
    },
};

/// Where the data is.
pub(super) enum Place {
    Here(Option<Buffer>),
    /// With the host: so many bytes are to be asked for.
    Remote(usize),
}

impl Connection {
    /// Where the host's data for a new command is, or why the command fails before it matters.
    pub(super) fn data_of(
        &self,
        core: &Core,
        sqe: &Sqe,
        inline: Option<Buffer>,
        is_intact: bool,
    ) -> Result<Place, Status> {
        if sqe.flags & (Sqe::PSDT | Sqe::FUSE) != Sqe::BY_SGL {
            return Err(Code::InvalidField.into());
        }
        let is_io = matches!(self.role, Role::Io(_)) && sqe.opcode != FABRICS;
        let wanted = if is_io { io::host_bytes(sqe) } else { admin::host_bytes(sqe) };
        if wanted == 0 {
            return Ok(Place::Here(None));
        }
        let length = usize::try_from(sqe.sgl.length.get()).unwrap_or(usize::MAX);
        let is_exact = is_io && io::is_exact(sqe);
        if length < wanted || (is_exact && length != wanted) {
            return Err(Code::SglLengthInvalid.into());
        }
        match sqe.sgl.place() {
            Some(SglPlace::Inline { offset }) => {
                if !is_intact {
                    return Err(Code::TransientTransport.into());
                }
                slice(inline, offset, length).map(|data| Place::Here(Some(data)))
            }
            Some(SglPlace::Transport) if self.role != Role::Stranger => {
                if length > limits::TRANSFER_MAX {
                    return Err(Code::InvalidField.into());
                }
                self.refusal(core, sqe).map_or(Ok(Place::Remote(length)), Err)
            }
            _ => Err(Code::SglTypeInvalid.into()),
        }
    }

    /// Asks the host for as much data as there is credit for, in the order of the commands.
    pub(super) fn ask_for_data(&mut self, core: &mut Core) {
        while let Some(slot) = self.waiting.front().copied() {
            let Some(Slot::Credit { sqe, bytes }) = self.slots.get(slot) else {
                self.waiting.pop_front();
                continue;
            };
            let (sqe, bytes) = (*sqe, *bytes);
            if bytes > self.credit {
                return;
            }
            self.credit -= bytes;
            self.waiting.pop_front();
            let data = core.buffers.take(bytes);
            self.slots.put(slot, Slot::Data { sqe, data, filled: 0, is_intact: true });
            let digests = self.digests();
            let header = Transfer {
                common: common(Kind::R2t, 0, 0, digests, 4),
                cid: sqe.cid,
                ttag: U16::new(slot),
                offset: U32::new(0),
                length: U32::new(u32::try_from(bytes).unwrap_or_default()),
                reserved: [0; 4],
            };
            self.outgoing.unit(&header, digests);
        }
    }

    /// Data that was asked for begins to arrive.
    pub(super) fn data_header(&mut self, data: usize) -> Result<(), Fault> {
        let header = Transfer::read_from_bytes(self.receiver.header());
        let header = header.map_err(|_| Fault::field(0))?;
        let number = |field: U32| usize::try_from(field.get()).unwrap_or(usize::MAX);
        let ttag = header.ttag.get();
        let Some(Slot::Data { sqe, data: buffer, filled, .. }) = self.slots.get(ttag) else {
            return Err(Fault::field(10));
        };
        if sqe.cid != header.cid {
            return Err(Fault::field(8));
        }
        if number(header.length) != data {
            return Err(Fault::field(16));
        }
        if header.length.get() > limits::MAXH2CDATA {
            return Err(Fault { fes: Fes::LimitExceeded, fei: 16 });
        }
        let end = number(header.offset).saturating_add(data);
        if end > buffer.len() || number(header.offset) != *filled {
            return Err(Fault { fes: Fes::OutOfRange, fei: 12 });
        }
        let is_last = self.receiver.flags() & LAST != 0;
        if is_last != (end == buffer.len()) {
            return Err(Fault::field(1));
        }
        self.sink = Sink::Slot(ttag);
        Ok(())
    }

    /// The buffer of the unit at hand, and how much of it is there.
    fn open_buffer(&mut self) -> Option<(&mut Buffer, &mut usize)> {
        match &mut self.sink {
            Sink::Nowhere => None,
            Sink::Capsule { data, filled, .. } => Some((data, filled)),
            Sink::Slot(slot) => match self.slots.get_mut(*slot) {
                Some(Slot::Data { data, filled, .. }) => Some((data, filled)),
                _ => None,
            },
        }
    }

    /// The next piece of data of the unit at hand.
    pub(super) fn fill(&mut self, piece: &[u8]) {
        let Some((data, filled)) = self.open_buffer() else { return };
        let room = data.get_mut().and_then(|data| data.get_mut(*filled..*filled + piece.len()));
        if let Some(room) = room {
            room.copy_from_slice(piece);
            *filled += piece.len();
        }
    }

    /// Where the next piece may be put without passing through here.
    pub(crate) fn want(&mut self) -> Option<&mut [u8]> {
        let left = self.receiver.data_left();
        if self.phase != Phase::Open || left == 0 {
            return None;
        }
        let (data, filled) = self.open_buffer()?;
        data.get_mut()?.get_mut(*filled..*filled + left)
    }

    /// So many bytes were put there.
    pub(crate) fn filled(&mut self, bytes: usize) {
        let bytes = bytes.min(self.receiver.data_left());
        let Some((data, filled)) = self.open_buffer() else { return };
        let piece = data.slice(*filled..*filled + bytes);
        *filled += bytes;
        self.receiver.passed(piece.bytes());
    }

    /// A unit of data is over, and with the last one the transfer.
    pub(super) fn data_over(&mut self, core: &mut Core, slot: u16, unit_is_intact: bool) {
        let Some(Slot::Data { data, filled, is_intact, .. }) = self.slots.get_mut(slot) else {
            return;
        };
        *is_intact &= unit_is_intact;
        if *filled < data.len() {
            return;
        }
        let Slot::Data { sqe, data, is_intact, .. } = self.slots.take(slot) else { return };
        self.credit += data.len();
        core.buffers.lend(&data);
        if is_intact {
            self.execute(core, slot, sqe, Some(data));
        } else {
            self.finish(slot, sqe.cid.get(), &Code::TransientTransport.into());
        }
        self.ask_for_data(core);
    }
}

/// The part of a capsule's data that a descriptor points at, at a block's boundary in memory.
fn slice(inline: Option<Buffer>, offset: u64, length: usize) -> Result<Buffer, Status> {
    let data = inline.ok_or(Status::new(Code::SglLengthInvalid))?;
    let offset = usize::try_from(offset).ok().filter(|offset| *offset <= data.len());
    let offset = offset.ok_or(Status::new(Code::SglOffsetInvalid))?;
    if length > data.len() - offset {
        return Err(Code::SglLengthInvalid.into());
    }
    Ok(match offset {
        0 if length == data.len() => data,
        0 => data.slice(0..length),
        _ => Buffer::copy_of(&data.bytes()[offset..offset + length]),
    })
}
