//! One connection: units in, commands with their data out to the core, answers back.
//!
//! ```text
//!  Hello ── ICReq ──▶ Open ── Connect for another port ──▶ Leaving
//!                     Open ── fault, end of session, Disconnect ──▶ Closing ── told ──▶ Closed
//! ```

mod transfer;

use alloc::{collections::VecDeque, vec::Vec};
use core::time::Duration;

use block::Buffer;
use zerocopy::{
    FromBytes,
    little_endian::{U16, U32, U64},
};

use super::{
    admin,
    core::{Answer, Connected, Core, Done, Later, Persisting, Role},
    io,
    port::{ConnId, Out, Request, Tag},
    slots::{Slot, Slots},
};
use crate::{
    frame::{Digests, Fault, Got, Listener, Receiver},
    limits,
    op::Op,
    outgoing::{Outgoing, common},
    reservation,
    status::{Code, Status},
    wire::{
        command::{Cqe, FABRICS, Place, Sqe, admin as opcode},
        pdu::{CapsuleCmd, CapsuleResp, Fes, IcReq, IcResp, Kind, LAST, SUCCESS, Transfer},
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Hello,
    Open,
    /// For another port.
    Leaving,
    /// To be closed once what is queued has been taken.
    Closing,
    Closed,
}

/// Where the data of the unit at hand goes.
#[derive(Debug)]
enum Sink {
    Nowhere,
    Capsule { sqe: Sqe, data: Buffer, filled: usize },
    Slot(u16),
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub id: ConnId,
    pub phase: Phase,
    pub role: Role,
    pub qid: u16,
    pub opened: Duration,
    pub slots: Slots,
    pub outgoing: Outgoing,
    /// Already on the port's list of those with something to send.
    pub is_listed: bool,
    receiver: Receiver,
    sink: Sink,
    /// What the host wants its data aligned to.
    align: usize,
    entries: u16,
    sqhd: u16,
    has_flow_control: bool,
    /// Bytes that may still be asked for.
    credit: usize,
    /// Commands that wait for credit.
    waiting: VecDeque<u16>,
    leaving: Option<Leaving>,
}

/// What another port needs to continue.
#[derive(Debug)]
struct Leaving {
    place: u32,
    /// The Connect that told where it belongs.
    sqe: Sqe,
    data: Option<Buffer>,
    /// Bytes after it.
    rest: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(id: ConnId, opened: Duration) -> Self {
        Self {
            id,
            phase: Phase::Hello,
            role: Role::Stranger,
            qid: 0,
            opened,
            slots: Slots::new(1),
            outgoing: Outgoing::default(),
            is_listed: false,
            receiver: Receiver::new(Listener::Target),
            sink: Sink::Nowhere,
            align: 4,
            entries: 1,
            sqhd: 0,
            has_flow_control: true,
            credit: limits::TRANSFER_CREDIT,
            waiting: VecDeque::new(),
            leaving: None,
        }
    }

    pub(crate) fn receive(&mut self, core: &mut Core, bytes: &[u8]) {
        let now = core.now;
        if let Some(session) = self.role.session().and_then(|id| core.session_mut(id)) {
            session.heard = now;
        }
        let mut input = bytes;
        while matches!(self.phase, Phase::Hello | Phase::Open) {
            let step = match self.receiver.next(&mut input) {
                Ok(None) => return,
                Ok(Some(Got::Header { kind, data })) => self.header(core, kind, data),
                Ok(Some(Got::Data(piece))) => {
                    self.fill(piece);
                    Ok(())
                }
                Ok(Some(Got::Last(piece))) => {
                    self.fill(piece);
                    self.unit_over(core, true)
                }
                Ok(Some(Got::End { is_intact })) => self.unit_over(core, is_intact),
                Err(fault) => Err(fault),
            };
            if let Err(fault) = step {
                self.terminate(core, fault);
            }
        }
        if let Some(leaving) = &mut self.leaving {
            leaving.rest.extend_from_slice(input);
        }
    }

    fn digests(&self) -> Digests {
        self.receiver.digests
    }

    fn header(&mut self, core: &mut Core, kind: Kind, data: usize) -> Result<(), Fault> {
        let is_hello = self.phase == Phase::Hello;
        match kind {
            Kind::H2cTermReq => {
                self.sink = Sink::Nowhere;
                self.close(core);
                Ok(())
            }
            Kind::IcReq if is_hello => self.hello(),
            Kind::CapsuleCmd if !is_hello => self.capsule(core, data),
            Kind::H2cData if !is_hello => self.data_header(data),
            _ => Err(Fault::new(Fes::Sequence)),
        }
    }

    fn hello(&mut self) -> Result<(), Fault> {
        let asked = IcReq::read_from_bytes(self.receiver.header());
        let asked = asked.map_err(|_| Fault::field(0))?;
        if asked.pfv.get() != 0 {
            return Err(Fault::field(8));
        }
        if asked.hpda > 31 {
            return Err(Fault::field(10));
        }
        self.align = (usize::from(asked.hpda) + 1) * 4;
        let digests = Digests::from_bits(asked.digests);
        let answer = IcResp::new(digests.to_bits(), limits::MAXH2CDATA);
        self.outgoing.unit(&answer, Digests::NONE);
        self.receiver.digests = digests;
        self.phase = Phase::Open;
        Ok(())
    }

    fn capsule(&mut self, core: &mut Core, data: usize) -> Result<(), Fault> {
        let capsule = CapsuleCmd::read_from_bytes(self.receiver.header());
        let CapsuleCmd { sqe, .. } = capsule.map_err(|_| Fault::field(0))?;
        let most = match self.role {
            Role::Io(_) => limits::INLINE_MAX,
            Role::Admin(_) | Role::Stranger => limits::ADMIN_INLINE_MAX,
        };
        if data > most {
            return Err(Fault::new(Fes::LimitExceeded));
        }
        if data == 0 {
            return self.command(core, sqe, None, true);
        }
        self.sink = Sink::Capsule { sqe, data: core.buffers.take(data), filled: 0 };
        Ok(())
    }

    fn unit_over(&mut self, core: &mut Core, is_intact: bool) -> Result<(), Fault> {
        match core::mem::replace(&mut self.sink, Sink::Nowhere) {
            Sink::Nowhere => Ok(()),
            Sink::Capsule { sqe, data, .. } => {
                core.buffers.lend(&data);
                self.command(core, sqe, Some(data), is_intact)
            }
            Sink::Slot(slot) => {
                self.data_over(core, slot, is_intact);
                Ok(())
            }
        }
    }

    fn command(
        &mut self,
        core: &mut Core,
        sqe: Sqe,
        inline: Option<Buffer>,
        is_intact: bool,
    ) -> Result<(), Fault> {
        self.sqhd = (self.sqhd + 1) % self.entries;
        let cid = sqe.cid.get();
        if self.slots.has_cid(cid) {
            self.respond(cid, &Code::CommandIdConflict.into());
            return Ok(());
        }
        if self.slots.is_full() {
            return Err(Fault::new(Fes::Sequence));
        }
        let slot = self.slots.open(cid);
        match self.data_of(core, &sqe, inline, is_intact) {
            Err(status) => self.finish(slot, cid, &status.into()),
            Ok(transfer::Place::Here(data)) => self.execute(core, slot, sqe, data),
            Ok(transfer::Place::Remote(bytes)) => {
                self.slots.put(slot, Slot::Credit { sqe, bytes });
                self.waiting.push_back(slot);
                self.ask_for_data(core);
            }
        }
        Ok(())
    }

    pub(crate) fn execute(&mut self, core: &mut Core, slot: u16, sqe: Sqe, data: Option<Buffer>) {
        // Small data of commands that may have to wait for their turn, or move.
        let is_kept = sqe.opcode == FABRICS || reservation::Command::data_len(sqe.opcode) > 0;
        if let (Role::Io(id), false) = (self.role, is_kept) {
            // What most commands are: there is an operation, or why there is none.
            match core.io(id, &sqe, data) {
                Answer::Ask { op, reply_max } if no_room(&sqe, reply_max).is_none() => {
                    self.ask(core, slot, sqe.cid.get(), op, reply_max);
                }
                answer => self.answer(core, slot, sqe, None, answer),
            }
            return;
        }
        let kept = data.as_ref().filter(|_| is_kept).cloned();
        let answer = match (sqe.opcode, self.role) {
            (FABRICS, role) => core.fabrics(self.id, role, &sqe, data.as_ref()),
            (_, Role::Stranger) => Code::CommandSequence.into(),
            (opcode::ABORT, Role::Admin(_)) if self.abort(core, &sqe) => Answer::fine(),
            (_, Role::Admin(id)) => core.admin(id, &sqe, data),
            (_, Role::Io(id)) => core.io(id, &sqe, data),
        };
        self.answer(core, slot, sqe, kept, answer);
    }

    fn answer(
        &mut self,
        core: &mut Core,
        slot: u16,
        sqe: Sqe,
        kept: Option<Buffer>,
        answer: Answer,
    ) {
        let cid = sqe.cid.get();
        match answer {
            Answer::Now(done) => {
                let bytes = done.data.as_ref().map_or(0, Buffer::len);
                let done = no_room(&sqe, bytes).map_or(done, Done::from);
                self.finish(slot, cid, &done);
            }
            Answer::Ask { op, reply_max } => match no_room(&sqe, reply_max) {
                Some(refusal) => self.finish(slot, cid, &refusal.into()),
                None => self.ask(core, slot, cid, op, reply_max),
            },
            Answer::Hold => {
                self.slots.put(slot, Slot::Event { cid });
                if let Some(id) = self.role.session()
                    && let Some(session) = core.session_mut(id)
                {
                    session.events.requests.push_back(slot);
                    core.later.push(Later::Events(id));
                }
            }
            Answer::Turn { subsystem } => {
                self.slots.put(slot, Slot::Turn { sqe, data: kept });
                core.turns.push_back((subsystem, self.id, slot));
            }
            Answer::Persist { subsystem, next, effects } => {
                if let Some(exported) = core.subsystems.get_mut(subsystem.0) {
                    exported.is_persisting = true;
                }
                let op = Op::Persist(next.clone());
                let conn = self.id;
                core.persisting.push(Persisting { subsystem, conn, slot, effects, next });
                self.ask(core, slot, cid, op, 0);
            }
            Answer::Connected(connected) => self.connected(slot, cid, &connected),
            Answer::Disconnected => {
                self.finish(slot, cid, &Done::default());
                self.close(core);
            }
            Answer::Elsewhere { place } => {
                self.slots.close(slot, cid);
                self.phase = Phase::Leaving;
                self.leaving = Some(Leaving { place, sqe, data: kept, rest: Vec::new() });
            }
        }
    }

    /// Where it goes, if it belongs to another port.
    pub(crate) fn leaves_for(&self) -> Option<u32> {
        self.leaving.as_ref().map(|leaving| leaving.place)
    }

    /// Goes on where it left off, on its new port.
    pub(crate) fn resume(&mut self, core: &mut Core) {
        let Some(Leaving { sqe, data, rest, .. }) = self.leaving.take() else { return };
        self.phase = Phase::Open;
        let slot = self.slots.open(sqe.cid.get());
        self.execute(core, slot, sqe, data);
        self.receive(core, &rest);
    }

    /// These requests for events end without a word.
    pub(crate) fn forget(&mut self, slots: &VecDeque<u16>) {
        for slot in slots {
            if let Some(&Slot::Event { cid }) = self.slots.get(*slot) {
                self.slots.close(*slot, cid);
            }
        }
    }

    /// Hands an operation to the caller.
    fn ask(&mut self, core: &mut Core, slot: u16, cid: u16, op: Op, reply_max: usize) {
        let Some(session) = self.role.session() else { return };
        let is_io = op.access() != reservation::Access::Other;
        self.slots.put(slot, Slot::Answer { cid, reply_max, is_io });
        let Some(state) = core.session_mut(session) else { return };
        state.io_in_flight += usize::from(is_io);
        let Some(subsystem) = state.subsystem else { return };
        let tag = Tag { conn: self.id, slot, generation: self.slots.generation(slot) };
        core.outs.push_back(Out::Request(Request { tag, session, subsystem, op }));
    }

    fn connected(&mut self, slot: u16, cid: u16, connected: &Connected) {
        self.role = connected.role;
        self.qid = connected.qid;
        self.entries = connected.entries;
        self.slots.resize(connected.entries);
        self.has_flow_control = connected.has_flow_control;
        // Connect itself was the first entry.
        self.sqhd = 1;
        let done = Done { value: connected.cntlid.into(), ..Done::default() };
        self.finish(slot, cid, &done);
    }

    /// Ends a request for an event that the host takes back; true if it was one.
    fn abort(&mut self, core: &mut Core, sqe: &Sqe) -> bool {
        let [a, b, c, d] = sqe.word(10).to_le_bytes();
        let (queue, wanted) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let is_it = |slot: &Slot| matches!(slot, Slot::Event { cid } if *cid == wanted);
        let found = self.slots.iter().find(|(_, slot)| queue == 0 && is_it(slot));
        let Some(slot) = found.map(|(slot, _)| slot) else { return false };
        if let Some(session) = self.role.session().and_then(|id| core.session_mut(id)) {
            session.events.requests.retain(|other| *other != slot);
        }
        self.finish(slot, wanted, &Code::AbortRequested.into());
        true
    }

    /// The command is over: tells the host, if it is still there.
    pub(crate) fn finish(&mut self, slot: u16, cid: u16, done: &Done) {
        self.slots.close(slot, cid);
        if self.phase == Phase::Open {
            self.respond(cid, done);
        }
    }

    fn respond(&mut self, cid: u16, done: &Done) {
        let digests = self.digests();
        if let Some(data) = done.data.as_ref().filter(|data| !data.is_empty()) {
            // Without flow control there is nothing in a completion that the host needs.
            let is_all = !self.has_flow_control && done.value == 0 && done.status.is_none();
            let flags = if is_all { LAST | SUCCESS } else { LAST };
            let header = Transfer {
                common: common(Kind::C2hData, flags, data.len(), digests, self.align),
                cid: U16::new(cid),
                ttag: U16::new(0),
                offset: U32::new(0),
                length: U32::new(u32::try_from(data.len()).unwrap_or_default()),
                reserved: [0; 4],
            };
            self.outgoing.unit_with(&header, data, digests);
            if is_all {
                return;
            }
        }
        let header = CapsuleResp {
            common: common(Kind::CapsuleResp, 0, 0, digests, 4),
            cqe: Cqe {
                result: U64::new(done.value),
                // All ones in the answer to Connect says that there is no flow control.
                sqhd: U16::new(if self.has_flow_control { self.sqhd } else { u16::MAX }),
                sqid: U16::new(self.qid),
                cid: U16::new(cid),
                status: U16::new(done.status.map_or(0, Status::to_bits)),
            },
        };
        self.outgoing.unit(&header, digests);
    }

    /// Tells the host what it did wrong, and goes.
    fn terminate(&mut self, core: &mut Core, fault: Fault) {
        self.outgoing.termination(Kind::C2hTermReq, fault, self.receiver.header());
        self.close(core);
    }

    /// What is queued is still sent.
    pub(crate) fn close(&mut self, core: &mut Core) {
        if matches!(self.phase, Phase::Closing | Phase::Closed) {
            return;
        }
        self.phase = Phase::Closing;
        self.leave(core);
    }

    /// The peer is gone: nothing can be sent.
    pub(crate) fn lost(&mut self, core: &mut Core) {
        self.outgoing.clear();
        let was_open = !matches!(self.phase, Phase::Closing | Phase::Closed);
        self.phase = Phase::Closed;
        if was_open {
            self.leave(core);
        }
    }

    /// It is no queue any more. A session ends with its admin queue.
    fn leave(&mut self, core: &mut Core) {
        let Some(id) = self.role.session() else { return };
        let Some(session) = core.session_mut(id) else { return };
        if session.queues.get(&self.qid) == Some(&self.id) {
            session.queues.remove(&self.qid);
        }
        if matches!(self.role, Role::Admin(_)) {
            core.end(id);
        }
    }

    fn refusal(&self, core: &Core, sqe: &Sqe) -> Option<Status> {
        match self.role {
            Role::Io(id) => io::refusal(core, id, sqe),
            role => admin::refusal(core, role, sqe),
        }
    }
}

/// Why so much data cannot be sent to where the command says, if it cannot.
fn no_room(sqe: &Sqe, bytes: usize) -> Option<Code> {
    if bytes == 0 {
        return None;
    }
    if sqe.sgl.place() != Some(Place::Transport) {
        return Some(Code::SglTypeInvalid);
    }
    let fits = usize::try_from(sqe.sgl.length.get()).is_ok_and(|room| room >= bytes);
    (!fits).then_some(Code::SglLengthInvalid)
}

impl From<Code> for Done {
    fn from(code: Code) -> Self {
        Status::new(code).into()
    }
}

impl From<Status> for Done {
    fn from(status: Status) -> Self {
        Self { status: Some(status), ..Self::default() }
    }
}
