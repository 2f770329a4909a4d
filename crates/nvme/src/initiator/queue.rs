//! One connection: commands with their data out, completions with theirs back.

use alloc::vec::Vec;
use core::time::Duration;

use block::{Buffer, Buffers};
use zerocopy::{
    FromBytes, FromZeros,
    little_endian::{U16, U32},
};

use crate::{
    frame::{Digests, Fault, Got, Listener, Receiver},
    limits,
    outgoing::{Outgoing, common},
    status::{Code, Status},
    wire::{
        command::{Cqe, Sgl, Sqe},
        pdu::{
            CapsuleCmd, CapsuleResp, Fes, IcReq, IcResp, Kind, LAST, SUCCESS, TermReq, Transfer,
        },
    },
};

/// What moves besides the command.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    None,
    Out(Buffer),
    /// So many bytes are expected.
    In(usize),
}

/// A command that is over.
#[derive(Debug)]
pub(crate) struct Completed<O> {
    pub owner: O,
    /// What the controller said, with as much data as came.
    pub result: Result<(Cqe, Option<Buffer>), Status>,
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Fault(Fault),
    /// The controller says that we broke the rules.
    Terminated {
        fes: u16,
    },
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

#[derive(Debug)]
struct Slot<O> {
    owner: O,
    /// `None` for a request that may wait for ever.
    started: Option<Duration>,
    data: Data,
    /// Of data going out, how much was asked for or sent along; of data coming in, how much came.
    moved: usize,
    incoming: Option<Buffer>,
    is_intact: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Hello,
    Open,
}

#[derive(Debug)]
pub(crate) struct Queue<O> {
    phase: Phase,
    receiver: Receiver,
    wanted: Digests,
    pub outgoing: Outgoing,
    slots: Vec<Option<Slot<O>>>,
    free: Vec<u16>,
    /// What a capsule may carry.
    pub inline_max: usize,
    maxh2cdata: usize,
    align: usize,
    /// The slot that the unit at hand is for, and whether it is the last of it.
    sink: Option<(u16, u8)>,
    fault: Option<Fault>,
    pub buffers: Buffers,
    /// How many commands may not wait for ever.
    timed: usize,
}

/// How many requests for data per command we can take at once, less one.
const MAXR2T: u32 = 3;
/// The least that a controller may let us send at once.
const MAXH2CDATA_MIN: u32 = 4096;

impl<O> Queue<O> {
    pub(crate) fn new(digests: Digests, entries: u16) -> Self {
        let mut outgoing = Outgoing::default();
        outgoing.unit(&IcReq::new(digests.to_bits(), MAXR2T), Digests::NONE);
        Self {
            phase: Phase::Hello,
            receiver: Receiver::new(Listener::Initiator),
            wanted: digests,
            outgoing,
            slots: core::iter::repeat_with(|| None).take(usize::from(entries)).collect(),
            // A queue is full with one entry left, or full and empty would look alike.
            free: (0..entries - 1).rev().collect(),
            inline_max: limits::ADMIN_INLINE_MAX,
            maxh2cdata: 0,
            align: 4,
            sink: None,
            fault: None,
            buffers: Buffers::new(limits::REUSED_QUEUE),
            timed: 0,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether a command can be sent and as many more as are `kept` back.
    pub(crate) fn has_room(&self, kept: usize) -> bool {
        self.is_open() && self.free.len() > kept
    }

    /// Whether there is a command that may take too long.
    pub(crate) fn is_busy(&self) -> bool {
        self.timed > 0
    }

    /// The commands that were never answered; there is nothing after this.
    pub(crate) fn into_owners(self) -> impl Iterator<Item = O> {
        self.slots.into_iter().flatten().map(|slot| slot.owner)
    }

    /// When the oldest command that may not wait for ever was sent.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.slots.iter().flatten().filter_map(|slot| slot.started).min()
    }

    /// Sends a command. There must be room.
    pub(crate) fn submit(&mut self, owner: O, sqe: Sqe, data: Data, started: Option<Duration>) {
        let cid = self.free.pop().expect("the caller has looked for room");
        let mut sqe = sqe;
        sqe.cid = U16::new(cid);
        let digests = self.receiver.digests;
        let mut moved = 0;
        match &data {
            Data::Out(bytes) if bytes.len() <= self.inline_max => {
                moved = bytes.len();
                sqe.sgl = Sgl::inline(length(bytes.len()));
                let common = common(Kind::CapsuleCmd, 0, bytes.len(), digests, self.align);
                self.outgoing.unit_with(&CapsuleCmd { common, sqe }, bytes, digests);
            }
            data => {
                sqe.sgl = Sgl::transport(length(data.len()));
                let common = common(Kind::CapsuleCmd, 0, 0, digests, self.align);
                self.outgoing.unit(&CapsuleCmd { common, sqe }, digests);
            }
        }
        self.timed += usize::from(started.is_some());
        let slot = Slot { owner, started, data, moved, incoming: None, is_intact: true };
        self.slots[usize::from(cid)] = Some(slot);
    }

    /// Bytes came; what is over is added to `over`.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        over: &mut Vec<Completed<O>>,
    ) -> Result<(), Broken> {
        let mut input = bytes;
        while let Some(got) = self.receiver.next(&mut input).map_err(|f| self.noted(f))? {
            match got {
                Got::Header { kind: Kind::C2hTermReq, .. } => {
                    let header = TermReq::read_from_bytes(self.receiver.header());
                    let fes = header.map_or(0, |header| header.fes.get());
                    return Err(Broken::Terminated { fes });
                }
                Got::Header { kind, data } => {
                    self.header(kind, data, over).map_err(|fault| self.noted(fault))?;
                }
                Got::Data(piece) => self.fill(piece),
                Got::Last(piece) => {
                    self.fill(piece);
                    self.unit_over(true, over).map_err(|fault| self.noted(fault))?;
                }
                Got::End { is_intact } => {
                    self.unit_over(is_intact, over).map_err(|fault| self.noted(fault))?;
                }
            }
        }
        Ok(())
    }

    fn header(
        &mut self,
        kind: Kind,
        data: usize,
        over: &mut Vec<Completed<O>>,
    ) -> Result<(), Fault> {
        match (kind, self.phase) {
            (Kind::IcResp, Phase::Hello) => self.hello(),
            (Kind::CapsuleResp, Phase::Open) => self.response(over),
            (Kind::C2hData, Phase::Open) => self.data_header(data),
            (Kind::R2t, Phase::Open) => self.request_for_data(),
            _ => Err(Fault::new(Fes::Sequence)),
        }
    }

    fn noted(&mut self, fault: Fault) -> Fault {
        self.fault = Some(fault);
        fault
    }

    /// What to tell the controller before closing.
    pub(crate) fn goodbye(&self) -> Outgoing {
        let mut outgoing = Outgoing::default();
        if let Some(fault) = self.fault {
            outgoing.termination(Kind::H2cTermReq, fault, self.receiver.header());
        }
        outgoing
    }

    fn hello(&mut self) -> Result<(), Fault> {
        let answer = IcResp::read_from_bytes(self.receiver.header());
        let answer = answer.map_err(|_| Fault::field(0))?;
        if answer.pfv.get() != 0 {
            return Err(Fault::field(8));
        }
        if answer.cpda > 31 {
            return Err(Fault::field(10));
        }
        if Digests::from_bits(answer.digests) != self.wanted {
            return Err(Fault::field(11));
        }
        let most = answer.maxh2cdata.get();
        if most < MAXH2CDATA_MIN || !most.is_multiple_of(4) {
            return Err(Fault::field(12));
        }
        self.align = (usize::from(answer.cpda) + 1) * 4;
        self.maxh2cdata = most as usize;
        self.receiver.digests = self.wanted;
        self.phase = Phase::Open;
        Ok(())
    }

    fn slot(&mut self, cid: u16) -> Result<&mut Slot<O>, Fault> {
        self.slots.get_mut(usize::from(cid)).and_then(Option::as_mut).ok_or(Fault::field(8))
    }

    fn response(&mut self, over: &mut Vec<Completed<O>>) -> Result<(), Fault> {
        let response = CapsuleResp::read_from_bytes(self.receiver.header());
        let CapsuleResp { cqe, .. } = response.map_err(|_| Fault::field(0))?;
        let cid = cqe.cid.get();
        // The completion's identifier of a command lies at 20.
        self.slot(cid).map_err(|_| Fault::field(20))?;
        self.complete(cid, cqe, over)
    }

    fn complete(&mut self, cid: u16, cqe: Cqe, over: &mut Vec<Completed<O>>) -> Result<(), Fault> {
        let status = Status::from_bits(cqe.status.get());
        let slot = self.slot(cid)?;
        if status.is_none() && matches!(&slot.data, Data::Out(data) if slot.moved < data.len()) {
            // Well done without having asked for the data: it cannot be. The command stays, so
            // that its owner hears of the end with all others.
            return Err(Fault::new(Fes::Sequence));
        }
        let slot = self.slots.get_mut(usize::from(cid)).and_then(Option::take);
        let slot = slot.ok_or(Fault::field(8))?;
        self.free.push(cid);
        self.timed -= usize::from(slot.started.is_some());
        let incoming = slot.incoming.map(|data| {
            self.buffers.lend(&data);
            data.slice(0..slot.moved)
        });
        let result = match status {
            Some(status) => Err(status),
            None if !slot.is_intact => Err(Code::TransientTransport.into()),
            None => Ok((cqe, incoming)),
        };
        over.push(Completed { owner: slot.owner, result });
        Ok(())
    }

    fn data_header(&mut self, data: usize) -> Result<(), Fault> {
        let header = Transfer::read_from_bytes(self.receiver.header());
        let header = header.map_err(|_| Fault::field(0))?;
        let flags = self.receiver.flags();
        let cid = header.cid.get();
        let slot = self.slot(cid)?;
        let Data::In(expected) = slot.data else { return Err(Fault::field(8)) };
        if header.length.get() as usize != data {
            return Err(Fault::field(16));
        }
        let end = (header.offset.get() as usize).saturating_add(data);
        if end > expected {
            return Err(Fault { fes: Fes::OutOfRange, fei: 12 });
        }
        if header.offset.get() as usize != slot.moved {
            return Err(Fault::field(12));
        }
        if flags & SUCCESS != 0 && flags & LAST == 0 {
            return Err(Fault::field(1));
        }
        if slot.incoming.is_none() {
            let data = self.buffers.take(expected);
            self.slot(cid)?.incoming = Some(data);
        }
        self.sink = Some((cid, flags));
        Ok(())
    }

    fn fill(&mut self, piece: &[u8]) {
        let Some((cid, _)) = self.sink else { return };
        let Ok(slot) = self.slot(cid) else { return };
        let room = slot.moved..slot.moved + piece.len();
        let data = slot.incoming.as_mut().and_then(Buffer::get_mut);
        if let Some(room) = data.and_then(|data| data.get_mut(room)) {
            room.copy_from_slice(piece);
            slot.moved += piece.len();
        }
    }

    fn unit_over(&mut self, is_intact: bool, over: &mut Vec<Completed<O>>) -> Result<(), Fault> {
        let Some((cid, flags)) = self.sink.take() else { return Ok(()) };
        self.slot(cid)?.is_intact &= is_intact;
        if flags & SUCCESS != 0 {
            return self.complete(cid, Cqe::new_zeroed(), over);
        }
        Ok(())
    }

    fn request_for_data(&mut self) -> Result<(), Fault> {
        let request = Transfer::read_from_bytes(self.receiver.header());
        let request = request.map_err(|_| Fault::field(0))?;
        let (offset, length) = (request.offset.get() as usize, request.length.get() as usize);
        let slot = self.slot(request.cid.get())?;
        let Data::Out(data) = &slot.data else { return Err(Fault::field(8)) };
        let end = offset.saturating_add(length);
        if length == 0 || end > data.len() {
            return Err(Fault { fes: Fes::OutOfRange, fei: 12 });
        }
        slot.moved += length;
        if slot.moved > data.len() {
            // The same bytes are asked for again.
            return Err(Fault { fes: Fes::LimitExceeded, fei: 16 });
        }
        let data = data.slice(offset..end);
        self.send_data(&request, &data);
        Ok(())
    }

    fn send_data(&mut self, request: &Transfer, data: &Buffer) {
        let digests = self.receiver.digests;
        let mut sent = 0;
        while sent < data.len() {
            let end = data.len().min(sent + self.maxh2cdata);
            let flags = if end == data.len() { LAST } else { 0 };
            let header = Transfer {
                common: common(Kind::H2cData, flags, end - sent, digests, self.align),
                cid: request.cid,
                ttag: request.ttag,
                offset: U32::new(request.offset.get() + length(sent)),
                length: U32::new(length(end - sent)),
                reserved: [0; 4],
            };
            self.outgoing.unit_with(&header, &data.slice(sent..end), digests);
            sent = end;
        }
    }
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Out(data) => data.len(),
            Self::In(bytes) => *bytes,
        }
    }
}

/// A command moves at most a mebibyte.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("far less than four gibibytes")
}
