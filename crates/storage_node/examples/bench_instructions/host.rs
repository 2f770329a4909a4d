//! A host that makes its commands' bytes by hand, and the smallest thing that can answer them.

use std::time::Duration;

use block::{BLOCK, Buffer};
use model::VolumeId;
use nvme::{
    Digests, Outgoing, initiator,
    wire::{
        command::{Sgl, Sqe, io},
        pdu::{CapsuleCmd, Common},
    },
};
use storage_node::ConnId;
use zerocopy::{IntoBytes, little_endian::U16};

use crate::{nodes::Nodes, outside_the_machines};

pub(crate) const NOW: Duration = Duration::from_secs(1);
pub(crate) const VOLUME: VolumeId = VolumeId::from_u128(7);
pub(crate) const BLOCKS: u64 = 4096;
/// A prime stride, so that neighbours in time are none on the volume.
const STRIDE: u64 = 1543;
const HEADER: usize = size_of::<CapsuleCmd>();

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
}

/// Bytes on their way, as the kernel has them.
#[derive(Default)]
pub(crate) struct Wire {
    pub(crate) bytes: Vec<u8>,
    pieces: Vec<Buffer>,
}

impl Wire {
    /// Shares the payloads, as the engine does; the kernel copies them.
    pub(crate) fn send(&mut self, outgoing: &Outgoing) {
        self.pieces.extend(outgoing.shared());
        outside_the_machines(|| {
            for piece in &self.pieces {
                self.bytes.extend_from_slice(piece.bytes());
            }
        });
        self.pieces.clear();
    }
}

pub(crate) struct Host {
    session: initiator::Session,
    conn: Option<ConnId>,
    to_target: Vec<u8>,
    from_target: Wire,
    payload: Vec<u8>,
    next: u64,
    pub(crate) answered: u64,
}

fn session(subsystem_nqn: &str) -> initiator::Session {
    initiator::Session::new(initiator::Config {
        host_nqn: HOST_NQN.into(),
        host_id: [1; 16],
        subsystem_nqn: subsystem_nqn.into(),
        io_queues: 1,
        entries: 128,
        digests: Digests::NONE,
        keep_alive: Duration::ZERO,
        command_timeout: Duration::from_secs(30),
        attach_timeout: Duration::from_secs(30),
    })
}

pub(crate) const HOST_NQN: &str = "nqn.host";

impl Host {
    pub(crate) fn new() -> Self {
        Self {
            session: session(&storage_node::nqn(VOLUME.0)),
            conn: None,
            to_target: Vec::new(),
            from_target: Wire::default(),
            payload: (0..=u8::MAX).cycle().take(BLOCK).collect(),
            next: 0,
            answered: 0,
        }
    }

    /// Connects by our own initiator, which is left alone from then on.
    pub(crate) fn attach(&mut self, target: &mut Nodes) {
        let mut conns = Vec::new();
        self.session.connect(NOW);
        while !self.session.is_live() {
            let Some(out) = self.session.poll() else { break };
            match out {
                initiator::Out::Open { queue } => {
                    conns.push(target.accept());
                    self.session.opened(NOW, queue);
                }
                initiator::Out::Send { queue, outgoing } => {
                    let bytes: Vec<u8> = outgoing.pieces(0).flatten().copied().collect();
                    target.receive(conns[usize::from(queue)], &bytes);
                    self.from_target.bytes.clear();
                    target.settle(&mut self.from_target);
                    self.session.receive(NOW, queue, &self.from_target.bytes);
                }
                _ => {}
            }
        }
        assert!(self.session.is_live(), "attached");
        // The controller is told, too, that the host listens for events.
        while let Some(initiator::Out::Send { queue, outgoing }) = self.session.poll() {
            let bytes: Vec<u8> = outgoing.pieces(0).flatten().copied().collect();
            target.receive(conns[usize::from(queue)], &bytes);
        }
        target.settle(&mut self.from_target);
        self.conn = conns.last().copied();
    }

    /// Writes every block once and flushes: what is measured is a volume in use.
    pub(crate) fn fill(&mut self, target: &mut Nodes) {
        for _ in 0..BLOCKS / 64 {
            self.turn(target, Kind::Write, 64);
        }
        self.turn(target, Kind::Flush, 1);
        self.turn(target, Kind::Flush, 1);
        self.answered = 0;
    }

    pub(crate) fn operations(&mut self, target: &mut Nodes, kind: Kind, depth: u16, count: u32) {
        for _ in 0..count / u32::from(depth) {
            self.turn(target, kind, depth);
        }
    }

    /// Sends so many commands at once and waits for all answers.
    fn turn(&mut self, target: &mut Nodes, kind: Kind, depth: u16) {
        outside_the_machines(|| {
            self.to_target.clear();
            for cid in 0..depth {
                self.put_command(kind, cid);
            }
            self.from_target.bytes.clear();
        });
        let conn = self.conn.unwrap();
        target.receive(conn, &self.to_target);
        target.settle(&mut self.from_target);
        let answered = outside_the_machines(|| count_answers(&self.from_target.bytes, kind));
        assert_eq!(answered, u64::from(depth), "every command was answered");
        self.answered += answered;
    }

    fn put_command(&mut self, kind: Kind, cid: u16) {
        self.next += 1;
        let start = self.next * STRIDE % BLOCKS;
        let (opcode, sgl) = match kind {
            Kind::Read => (io::READ, Sgl::transport(4096)),
            Kind::Write => (io::WRITE, Sgl::inline(4096)),
            Kind::Flush => (io::FLUSH, Sgl::transport(0)),
        };
        let sqe = Sqe::new(opcode).nsid(1).with_wide(start);
        let sqe = Sqe { cid: U16::new(cid), sgl, ..sqe };
        let mut common = Common::bare(nvme::wire::pdu::Kind::CapsuleCmd);
        if kind == Kind::Write {
            common.pdo = u8::try_from(HEADER).unwrap();
            common.plen.set(u32::try_from(HEADER + BLOCK).unwrap());
        }
        self.to_target.extend_from_slice(CapsuleCmd { common, sqe }.as_bytes());
        if kind == Kind::Write {
            self.to_target.extend_from_slice(&self.payload);
        }
    }
}

/// Answers that say that all is well, and reads with what was written.
fn count_answers(mut bytes: &[u8], kind: Kind) -> u64 {
    let mut answers = 0;
    while let [unit, _, _, _, a, b, c, d, ..] = bytes {
        let len = usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).unwrap();
        match (*unit, kind) {
            (5, Kind::Write | Kind::Flush) => assert_eq!(bytes[22..24], [0, 0], "well done"),
            (7, Kind::Read) => assert_eq!(len, 24 + BLOCK, "with all of the data"),
            _ => panic!("an answer of kind {unit}"),
        }
        answers += 1;
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty(), "whole units");
    answers
}
