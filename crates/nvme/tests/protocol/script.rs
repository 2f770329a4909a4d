//! The target against bytes that are written by hand.

use std::time::Duration;

use nvme::{
    Reply, Status,
    target::{ConnId, Out, Port, Request},
    wire::{
        command::{Cqe, Sgl, Sqe, fabrics},
        fabrics::{ANY_CONTROLLER, ConnectData, NO_FLOW_CONTROL},
        pdu::{CapsuleCmd, CapsuleResp, Common, IcReq, Kind, TermReq, Transfer},
    },
};
use zerocopy::{
    FromBytes, IntoBytes,
    little_endian::{U16, U32},
};

use crate::rig::{Disk, HOST, NQN, subsystem, volume};

/// One unit from the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub kind: Kind,
    pub flags: u8,
    pub header: Vec<u8>,
    pub data: Vec<u8>,
}

/// What a command ended with.
#[derive(Debug)]
pub struct Ended {
    pub cqe: Cqe,
    pub data: Vec<u8>,
}

impl Ended {
    pub fn status(&self) -> Option<Status> {
        Status::from_bits(self.cqe.status.get())
    }
}

/// A port and what it said on each connection. No digests: what is tested here is above them.
#[derive(Debug)]
pub struct Bench {
    pub port: Port,
    pub disk: Disk,
    pub now: Duration,
    pub held: Vec<Request>,
    pub is_held: bool,
    said: Vec<(ConnId, Vec<u8>)>,
    pub closed: Vec<ConnId>,
    next_cid: u16,
}

impl Bench {
    pub fn new() -> Self {
        let mut port = Port::new(Vec::new());
        port.add_subsystem(subsystem(volume())).unwrap();
        Self::of(port)
    }

    pub fn of(port: Port) -> Self {
        Self {
            port,
            disk: Disk::new(crate::rig::BLOCKS),
            now: Duration::ZERO,
            held: Vec::new(),
            is_held: false,
            said: Vec::new(),
            closed: Vec::new(),
            next_cid: 0,
        }
    }

    pub fn accept(&mut self) -> ConnId {
        self.port.accept(self.now).unwrap()
    }

    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) {
        self.port.receive(self.now, conn, bytes);
        self.drain();
    }

    pub fn drain(&mut self) {
        while let Some(out) = self.port.poll() {
            match out {
                Out::Request(request) if self.is_held => self.held.push(request),
                Out::Request(request) => {
                    let result = self.disk.carry_out(request.op);
                    self.port.complete(request.tag, result);
                }
                Out::Send { conn, outgoing } => {
                    let bytes: Vec<u8> = outgoing.pieces(0).flatten().copied().collect();
                    self.said.push((conn, bytes));
                }
                Out::Close { conn } => self.closed.push(conn),
                Out::SessionOpened { .. } | Out::SessionClosed { .. } | Out::Moved { .. } => {}
            }
        }
    }

    /// Answers one of the requests that are held.
    pub fn release(&mut self, at: usize) -> Result<Reply, Status> {
        let request = self.held.remove(at);
        let result = self.disk.carry_out(request.op);
        self.port.complete(request.tag, result.clone());
        self.drain();
        result
    }

    /// The units that the target said on a connection since last asked.
    pub fn heard(&mut self, conn: ConnId) -> Vec<Unit> {
        let (ours, others) = self.said.drain(..).partition(|(of, _)| *of == conn);
        self.said = others;
        let ours: Vec<(ConnId, Vec<u8>)> = ours;
        let bytes: Vec<u8> = ours.into_iter().flat_map(|(_, bytes)| bytes).collect();
        units(&bytes)
    }

    pub fn hello(&mut self) -> ConnId {
        let conn = self.accept();
        self.send(conn, IcReq::new(0, 0).as_bytes());
        let heard = self.heard(conn);
        assert_eq!(heard.len(), 1);
        assert_eq!(heard[0].kind, Kind::IcResp);
        conn
    }

    pub fn cid(&mut self) -> u16 {
        self.next_cid = self.next_cid.wrapping_add(1);
        self.next_cid
    }

    /// A command and what it ends with, if it has ended.
    pub fn command(&mut self, conn: ConnId, sqe: Sqe, inline: &[u8]) -> Option<Ended> {
        let cid = self.cid();
        self.send(conn, &capsule(sqe, cid, inline));
        let units = self.heard(conn);
        ended(&units, cid)
    }

    /// A command that answers with so many bytes.
    pub fn ask(&mut self, conn: ConnId, sqe: Sqe, bytes: u32) -> Ended {
        let sqe = Sqe { sgl: Sgl::transport(bytes), ..sqe };
        self.command(conn, sqe, &[]).expect("answered at once")
    }

    pub fn connect(&mut self, conn: ConnId, qid: u16, cntlid: u16) -> Ended {
        let data = ConnectData::new([9; 16], cntlid, NQN, HOST);
        let sqe = connect(qid, 31);
        self.command(conn, sqe, data.as_bytes()).expect("answered at once")
    }

    /// An admin queue whose controller is enabled, and its number.
    pub fn admin(&mut self) -> (ConnId, u16) {
        let conn = self.hello();
        let ended = self.connect(conn, 0, ANY_CONTROLLER);
        assert_eq!(ended.status(), None);
        let cntlid = u16::try_from(ended.cqe.value()).unwrap();
        let enable = Sqe::fabrics(fabrics::PROPERTY_SET).words([0, 0x14, 0x0046_0001]);
        assert_eq!(self.command(conn, enable, &[]).unwrap().status(), None);
        (conn, cntlid)
    }

    /// An I/O queue.
    pub fn io(&mut self) -> ConnId {
        let (_, cntlid) = self.admin();
        let conn = self.hello();
        assert_eq!(self.connect(conn, 1, cntlid).status(), None);
        conn
    }
}

pub fn connect(qid: u16, sqsize: u16) -> Sqe {
    let flow = u32::from(NO_FLOW_CONTROL) << 16;
    let words = [u32::from(qid) << 16, u32::from(sqsize) | flow, 5000];
    Sqe::fabrics(fabrics::CONNECT).words(words)
}

pub fn capsule(sqe: Sqe, cid: u16, inline: &[u8]) -> Vec<u8> {
    let mut sqe = Sqe { cid: U16::new(cid), ..sqe };
    let mut common = Common::bare(Kind::CapsuleCmd);
    if !inline.is_empty() {
        sqe.sgl = Sgl::inline(u32::try_from(inline.len()).unwrap());
        common.pdo = 72;
        common.plen = U32::new(u32::try_from(72 + inline.len()).unwrap());
    }
    let mut bytes = CapsuleCmd { common, sqe }.as_bytes().to_vec();
    bytes.extend_from_slice(inline);
    bytes
}

pub fn ended(units: &[Unit], cid: u16) -> Option<Ended> {
    let mut data = Vec::new();
    for unit in units {
        match unit.kind {
            Kind::C2hData => {
                let header = Transfer::read_from_bytes(&unit.header).unwrap();
                assert_eq!(header.cid.get(), cid);
                data.extend_from_slice(&unit.data);
                if unit.flags & 8 != 0 {
                    let cqe = Cqe::read_from_bytes(&[0; 16]).unwrap();
                    return Some(Ended { cqe, data });
                }
            }
            Kind::CapsuleResp => {
                let header = CapsuleResp::read_from_bytes(&unit.header).unwrap();
                assert_eq!(header.cqe.cid.get(), cid);
                return Some(Ended { cqe: header.cqe, data });
            }
            kind => panic!("{kind:?} is no answer to a command"),
        }
    }
    None
}

/// What a termination request complains of.
pub fn complaint(unit: &Unit) -> (u16, u32) {
    assert_eq!(unit.kind, Kind::C2hTermReq);
    let header = TermReq::read_from_bytes(&unit.header).unwrap();
    (header.fes.get(), header.fei.get())
}

fn units(bytes: &[u8]) -> Vec<Unit> {
    let mut rest = bytes;
    let mut units = Vec::new();
    while !rest.is_empty() {
        let (common, _) = Common::read_from_prefix(rest).unwrap();
        let (unit, after) = rest.split_at(usize::try_from(common.plen.get()).unwrap());
        let hlen = usize::from(common.hlen);
        let from = hlen.max(usize::from(common.pdo));
        units.push(Unit {
            kind: Kind::from_byte(common.kind).unwrap(),
            flags: common.flags,
            header: unit[..hlen].to_vec(),
            data: unit[from..].to_vec(),
        });
        rest = after;
    }
    units
}
