//! A target with a small disk and an initiator that is attached to it.

use std::{collections::BTreeMap, time::Duration};

use block::{BLOCK, Buffer};
use nvme::{
    Digests, Op, Outgoing, Reply, Status, VendorData, initiator,
    reservation::Reservations,
    target::{self, ConnId, Hosts, Kind, Namespace, Port, Subsystem},
    wire::log::Ana,
};
use uuid::Uuid;

pub const NQN: &str = "nqn.fuzz";
const BLOCKS: u64 = 64;

pub fn port(kind: Kind) -> Port {
    let mut port = Port::new(Vec::new());
    let namespace = Namespace {
        uuid: Uuid::from_u128(1),
        nguid: [1; 16],
        blocks: BLOCKS,
        is_thin: true,
        ana: Ana::Optimized,
    };
    port.add_subsystem(Subsystem {
        nqn: NQN.into(),
        serial: "1".into(),
        hosts: Hosts::Any,
        namespace,
        first_cntlid: 1,
        cntlids: 16,
        kind,
    })
    .expect("there is no other");
    port
}

pub fn kind(number: u8) -> Kind {
    match number % 2 {
        0 => Kind::Volume { reservations: Reservations::new(), can_last: true },
        _ => Kind::Replica,
    }
}

pub fn digests(number: u8) -> Digests {
    Digests { header: number & 1 != 0, data: number & 2 != 0 }
}

/// Answers every request and gives what was sent. A request out of bounds is a bug of the target.
pub fn drain(port: &mut Port) -> Vec<(ConnId, Vec<u8>)> {
    let mut sent = Vec::new();
    while let Some(out) = port.poll() {
        match out {
            target::Out::Request(request) => {
                let result = carry_out(&request.op);
                port.complete(request.tag, result);
            }
            target::Out::Send { conn, outgoing } => sent.push((conn, flat(&outgoing))),
            _ => {}
        }
    }
    sent
}

pub fn flat(outgoing: &Outgoing) -> Vec<u8> {
    let bytes: Vec<u8> = outgoing.pieces(0).flatten().copied().collect();
    assert_eq!(bytes.len(), outgoing.len());
    bytes
}

fn carry_out(op: &Op) -> Result<Reply, Status> {
    let check = |extent: &block::Extent| {
        assert!(extent.blocks > 0 && extent.end() <= BLOCKS, "out of bounds: {extent:?}");
        extent.blocks as usize * BLOCK
    };
    match op {
        Op::Read { extent } => return Ok(Reply::Data(Buffer::zeroed(check(extent)))),
        Op::Write { extent, data, .. } | Op::Compare { extent, data } => {
            assert_eq!(check(extent), data.len());
            assert!(data.is_aligned());
        }
        Op::Zero { extent, .. } | Op::Verify { extent } => {
            check(extent);
        }
        Op::Deallocate { extents } => {
            extents.iter().for_each(|extent| {
                check(extent);
            });
        }
        Op::Vendor(vendor) => {
            if let VendorData::FromController(bytes) = vendor.data {
                return Ok(Reply::Data(Buffer::zeroed(bytes.min(100))));
            }
        }
        Op::Persist(state) => {
            assert_eq!(Reservations::from_bytes(&state.to_bytes()).as_ref(), Some(state));
        }
        Op::Reservation(nvme::reservation::Command::Report { bytes }) => {
            return Ok(Reply::Data(Buffer::zeroed(*bytes)));
        }
        Op::Reservation(_) | Op::Flush => {}
    }
    Ok(Reply::Done)
}

/// A port and a session that is live on it, by queue.
pub struct Pair {
    pub port: Port,
    pub session: initiator::Session,
    pub conns: BTreeMap<u16, ConnId>,
}

pub fn pair(kind: Kind, digests: Digests) -> Pair {
    let session = initiator::Session::new(initiator::Config {
        host_nqn: "nqn.host".into(),
        host_id: [1; 16],
        subsystem_nqn: NQN.into(),
        io_queues: 1,
        entries: 16,
        digests,
        keep_alive: Duration::from_secs(5),
        command_timeout: Duration::from_secs(30),
        attach_timeout: Duration::from_secs(30),
    });
    let mut pair = Pair { port: port(kind), session, conns: BTreeMap::new() };
    pair.session.connect(Duration::ZERO);
    while pair.turn() {}
    assert!(pair.session.is_live());
    pair
}

impl Pair {
    /// Moves what both sides have to say; false if that is nothing.
    fn turn(&mut self) -> bool {
        let now = Duration::ZERO;
        let mut moved = false;
        while let Some(out) = self.session.poll() {
            moved = true;
            match out {
                initiator::Out::Open { queue } => {
                    let conn = self.port.accept(now).expect("there is room");
                    self.conns.insert(queue, conn);
                    self.session.opened(now, queue);
                }
                initiator::Out::Send { queue, outgoing } => {
                    self.port.receive(now, self.conns[&queue], &flat(&outgoing));
                }
                _ => {}
            }
        }
        for (conn, bytes) in drain(&mut self.port) {
            moved = true;
            let queue = self.conns.iter().find(|(_, of)| **of == conn).map(|(queue, _)| *queue);
            self.session.receive(now, queue.expect("one of ours"), &bytes);
        }
        moved
    }
}
