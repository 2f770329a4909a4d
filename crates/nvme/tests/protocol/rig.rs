//! A target with a disk in memory, an initiator, and wires between them that cut bytes anywhere.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use block::{BLOCK, Buffer, Extent};
use nvme::{
    Code, Digests, Op, Reply, Status, VendorData, initiator,
    reservation::Reservations,
    target::{self, ConnId, Hosts, Kind, Namespace, Port, Request, Subsystem, SubsystemId},
    wire::log::Ana,
};
use uuid::Uuid;

pub const NQN: &str = "nqn.2026-01.io.holdfast:volume";
pub const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:host";
pub const BLOCKS: u64 = 1024;

/// Small, seeded, good enough to cut with.
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }
}

pub fn subsystem(kind: Kind) -> Subsystem {
    Subsystem {
        nqn: NQN.into(),
        serial: "0001".into(),
        hosts: Hosts::Only(BTreeSet::from([HOST.into()])),
        namespace: Namespace {
            uuid: Uuid::from_u128(0x1234),
            nguid: [7; 16],
            blocks: BLOCKS,
            is_thin: true,
            ana: Ana::Optimized,
        },
        first_cntlid: 100,
        cntlids: 50,
        kind,
    }
}

pub fn volume() -> Kind {
    Kind::Volume { reservations: Reservations::new(), can_last: true }
}

pub fn config(digests: Digests) -> initiator::Config {
    initiator::Config {
        host_nqn: HOST.into(),
        host_id: [9; 16],
        subsystem_nqn: NQN.into(),
        io_queues: 2,
        entries: 16,
        digests,
        keep_alive: Duration::from_secs(5),
        command_timeout: Duration::from_secs(30),
        attach_timeout: Duration::from_secs(10),
    }
}

#[derive(Debug, Default)]
struct Wire {
    conn: Option<ConnId>,
    up: VecDeque<u8>,
    down: VecDeque<u8>,
    is_closing: bool,
}

/// The disk behind the target: carries requests out at once or later, in any order.
#[derive(Debug)]
pub struct Disk {
    pub bytes: Vec<u8>,
    pub flushes: usize,
    pub persisted: Vec<Reservations>,
    pub vendor: Vec<(u8, Vec<u8>)>,
}

impl Disk {
    pub fn new(blocks: u64) -> Self {
        let bytes = vec![0; usize::try_from(blocks).unwrap() * BLOCK];
        Self { bytes, flushes: 0, persisted: Vec::new(), vendor: Vec::new() }
    }

    fn at(&mut self, extent: &Extent) -> &mut [u8] {
        let start = usize::try_from(extent.offset()).unwrap();
        &mut self.bytes[start..start + usize::try_from(extent.bytes()).unwrap()]
    }

    pub fn carry_out(&mut self, op: Op) -> Result<Reply, Status> {
        match op {
            Op::Read { extent } => return Ok(Reply::Data(Buffer::copy_of(self.at(&extent)))),
            Op::Write { extent, data, .. } => self.at(&extent).copy_from_slice(data.bytes()),
            Op::Flush | Op::NumberedFlush { .. } => self.flushes += 1,
            Op::Zero { extent, .. } => self.at(&extent).fill(0),
            Op::Deallocate { extents } => {
                for extent in extents {
                    self.at(&extent).fill(0);
                }
            }
            Op::Compare { extent, data } if self.at(&extent) != data.bytes() => {
                return Err(Code::CompareFailure.into());
            }
            Op::Compare { .. } | Op::Verify { .. } => {}
            Op::Persist(state) => self.persisted.push(state),
            Op::Reservation(_) => return Err(Code::ReservationConflict.into()),
            Op::Vendor(vendor) => match vendor.data {
                VendorData::None => self.vendor.push((vendor.opcode, Vec::new())),
                VendorData::ToController(data) => {
                    self.vendor.push((vendor.opcode, data.bytes().to_vec()));
                }
                VendorData::FromController(bytes) => {
                    return Ok(Reply::Data(Buffer::copy_of(&vec![0x5a; bytes])));
                }
            },
        }
        Ok(Reply::Done)
    }
}

#[derive(Debug)]
pub struct Rig {
    pub port: Port,
    pub subsystem: SubsystemId,
    pub session: initiator::Session,
    pub disk: Disk,
    pub now: Duration,
    pub dice: Dice,
    wires: BTreeMap<u16, Wire>,
    pub requests: Vec<Request>,
    /// Requests stay with the disk until this is cleared.
    pub is_held: bool,
    pub attached: Option<initiator::Attached>,
    pub done: BTreeMap<u64, Result<Reply, Status>>,
    pub events: Vec<initiator::Event>,
    pub dead: Option<initiator::Reason>,
    pub opened: Vec<target::SessionId>,
    pub closed: Vec<target::SessionId>,
    /// Flips this bit of the bytes that go up (even) or down (odd), once.
    pub flip: Option<(bool, usize, u8)>,
    pub passed: [usize; 2],
}

impl Rig {
    pub fn new(kind: Kind, digests: Digests, seed: u64) -> Self {
        Self::with(subsystem(kind), config(digests), seed)
    }

    pub fn with(subsystem: Subsystem, config: initiator::Config, seed: u64) -> Self {
        let mut port = Port::new(Vec::new());
        let disk = Disk::new(subsystem.namespace.blocks);
        let subsystem = port.add_subsystem(subsystem).unwrap();
        let mut session = initiator::Session::new(config);
        session.connect(Duration::ZERO);
        Self {
            port,
            subsystem,
            session,
            disk,
            now: Duration::ZERO,
            dice: Dice(seed),
            wires: BTreeMap::new(),
            requests: Vec::new(),
            is_held: false,
            attached: None,
            done: BTreeMap::new(),
            events: Vec::new(),
            dead: None,
            opened: Vec::new(),
            closed: Vec::new(),
            flip: None,
            passed: [0; 2],
        }
    }

    /// A rig whose session is live.
    pub fn live(kind: Kind, digests: Digests, seed: u64) -> Self {
        let mut rig = Self::new(kind, digests, seed);
        rig.settle();
        assert!(rig.session.is_live(), "{:?}", rig.dead);
        rig
    }

    pub fn submit(&mut self, tag: u64, op: Op) {
        let queue = u16::try_from(1 + tag % 2).unwrap();
        self.session.submit(self.now, queue, tag, op);
    }

    /// One operation from its start to its end.
    pub fn run(&mut self, op: Op) -> Result<Reply, Status> {
        self.submit(u64::MAX, op);
        self.settle();
        self.done.remove(&u64::MAX).expect("every operation ends")
    }

    /// Everything that can happen happens, in an order that the dice choose.
    pub fn settle(&mut self) {
        loop {
            self.poll_target();
            self.poll_host();
            // What the host closed the target may have had to say something to.
            self.poll_target();
            let moving: Vec<u16> =
                self.wires.iter().filter(|(_, w)| w.is_busy()).map(|(n, _)| *n).collect();
            let completable = if self.is_held { 0 } else { self.requests.len() };
            let choices = moving.len() + usize::from(completable > 0);
            if choices == 0 {
                return;
            }
            let choice = self.dice.below(choices);
            if let Some(queue) = moving.get(choice) {
                self.move_bytes(*queue);
            } else {
                let at = self.dice.below(completable);
                let Request { tag, op, .. } = self.requests.swap_remove(at);
                let result = self.disk.carry_out(op);
                self.port.complete(tag, result);
            }
        }
    }

    pub fn tick(&mut self, by: Duration) {
        self.now += by;
        self.port.tick(self.now);
        self.session.tick(self.now);
        self.settle();
    }

    /// Cuts the host off without a word.
    pub fn cut(&mut self) {
        for wire in std::mem::take(&mut self.wires).into_values() {
            if let Some(conn) = wire.conn {
                self.port.closed(conn);
            }
        }
    }

    fn poll_target(&mut self) {
        while let Some(out) = self.port.poll() {
            match out {
                target::Out::Request(request) => self.requests.push(request),
                target::Out::Send { conn, outgoing } => {
                    let wire = self.wires.values_mut().find(|wire| wire.conn == Some(conn));
                    if let Some(wire) = wire {
                        wire.down.extend(outgoing.pieces(0).flatten());
                    }
                    self.port.recycle(outgoing);
                }
                target::Out::Close { conn } => {
                    if let Some(wire) = self.wires.values_mut().find(|w| w.conn == Some(conn)) {
                        wire.conn = None;
                        wire.is_closing = true;
                    }
                }
                target::Out::Moved { .. } => unreachable!("there is one port"),
                target::Out::SessionOpened { session, .. } => self.opened.push(session),
                target::Out::SessionClosed { session } => self.closed.push(session),
            }
        }
    }

    fn poll_host(&mut self) {
        while let Some(out) = self.session.poll() {
            match out {
                initiator::Out::Open { queue } => {
                    let conn = self.port.accept(self.now);
                    self.wires.insert(queue, Wire { conn, ..Wire::default() });
                    self.session.opened(self.now, queue);
                }
                initiator::Out::Send { queue, outgoing } => {
                    if let Some(wire) = self.wires.get_mut(&queue) {
                        wire.up.extend(outgoing.pieces(0).flatten());
                    }
                    self.session.recycle(outgoing);
                }
                initiator::Out::Close { queue } => {
                    if let Some(conn) = self.wires.remove(&queue).and_then(|wire| wire.conn) {
                        self.port.closed(conn);
                    }
                }
                initiator::Out::Ready(attached) => self.attached = Some(attached),
                initiator::Out::Done { tag, result } => {
                    assert!(self.done.insert(tag, result).is_none(), "answered once");
                }
                initiator::Out::Event(event) => self.events.push(event),
                initiator::Out::Dead { reason } => self.dead = Some(reason),
            }
        }
    }

    fn move_bytes(&mut self, queue: u16) {
        let goes_up = self.dice.below(2) == 0;
        let direct = self.dice.below(2) == 0;
        let Some(wire) = self.wires.get_mut(&queue) else { return };
        let pipe = if goes_up { &mut wire.up } else { &mut wire.down };
        // Often a few bytes, sometimes all there is.
        let most = [7, 100, 5000, usize::MAX][self.dice.below(4)].min(pipe.len());
        let count = 1 + self.dice.below(most.max(1));
        let mut bytes: Vec<u8> = pipe.drain(..count.min(pipe.len())).collect();
        let passed = &mut self.passed[usize::from(!goes_up)];
        if let Some((up, at, mask)) = self.flip
            && up == goes_up
            && (*passed..*passed + bytes.len()).contains(&at)
        {
            bytes[at - *passed] ^= mask;
            self.flip = None;
        }
        *passed += bytes.len();
        match (goes_up, wire.conn) {
            (true, Some(conn)) if direct => deliver(&mut self.port, self.now, conn, &bytes),
            (true, Some(conn)) => self.port.receive(self.now, conn, &bytes),
            (false, _) if !bytes.is_empty() => self.session.receive(self.now, queue, &bytes),
            (true, None) | (false, _) => {}
        }
        let Some(wire) = self.wires.get(&queue) else { return };
        if wire.is_closing && wire.down.is_empty() {
            self.wires.remove(&queue);
            self.session.closed(queue);
        }
    }
}

/// Puts payload where it belongs and only the rest through the parser.
fn deliver(port: &mut Port, now: Duration, conn: ConnId, bytes: &[u8]) {
    let mut bytes = bytes;
    while !bytes.is_empty() {
        if let Some(room) = port.want(conn) {
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            port.filled(now, conn, count);
        } else {
            // One byte at a time finds every place where a payload could begin.
            let count = bytes.len().min(1);
            port.receive(now, conn, &bytes[..count]);
            bytes = &bytes[count..];
        }
    }
}

impl Wire {
    fn is_busy(&self) -> bool {
        !self.up.is_empty() || !self.down.is_empty() || self.is_closing
    }
}
