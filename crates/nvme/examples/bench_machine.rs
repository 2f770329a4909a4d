//! What the protocol machines cost by themselves: both halves in one thread, no sockets, a RAM
//! disk that answers at once. One line of JSON per case; the rate is that of the target's half.
#![allow(clippy::print_stdout, reason = "a benchmark prints what it found")]
#![allow(clippy::unwrap_used, reason = "a benchmark stops where its world is not as it should be")]

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use block::{BLOCK, Buffer, Durability::Volatile, Extent};
use nvme::{
    Digests, Op, Reply, initiator,
    reservation::Reservations,
    target::{self, ConnId, Hosts, Kind, Namespace, Port, Subsystem},
    wire::log::Ana,
};
use uuid::Uuid;

const BLOCKS: u64 = 1 << 20;
const RUN: Duration = Duration::from_millis(700);

struct Bench {
    port: Port,
    session: initiator::Session,
    conns: BTreeMap<u16, ConnId>,
    page: Buffer,
    wire: Vec<u8>,
    done: u64,
    in_target: Duration,
    in_initiator: Duration,
}

fn main() {
    for (name, digests) in [("", Digests::NONE), (", digests", Digests::BOTH)] {
        for (what, blocks, depth) in
            [("read", 1u32, 32u64), ("write", 1, 32), ("read", 32, 8), ("write", 32, 8)]
        {
            let mut bench = Bench::new(digests);
            bench.attach();
            let per_op = bench.measure(what == "write", blocks, depth);
            let kib = blocks * 4;
            println!(
                "{{\"case\": \"machines, {kib} KiB {what}, depth {depth}{name}\", \
                 \"per_second\": {:.0}, \"initiator_ns\": {:.0}, \"target_ns\": {:.0}}}",
                1e9 / per_op[1],
                per_op[0],
                per_op[1]
            );
        }
    }
}

impl Bench {
    fn new(digests: Digests) -> Self {
        let mut port = Port::new(Vec::new());
        let namespace = Namespace {
            uuid: Uuid::nil(),
            nguid: [1; 16],
            blocks: BLOCKS,
            is_thin: true,
            ana: Ana::Optimized,
        };
        let kind = Kind::Volume { reservations: Reservations::new(), can_last: true };
        port.add_subsystem(Subsystem {
            nqn: "nqn.bench".into(),
            serial: "1".into(),
            hosts: Hosts::Any,
            namespace,
            first_cntlid: 1,
            cntlids: 10,
            kind,
        })
        .unwrap();
        let session = initiator::Session::new(initiator::Config {
            host_nqn: "nqn.host".into(),
            host_id: [1; 16],
            subsystem_nqn: "nqn.bench".into(),
            io_queues: 1,
            entries: 128,
            digests,
            keep_alive: Duration::ZERO,
            command_timeout: Duration::from_secs(30),
            attach_timeout: Duration::from_secs(30),
        });
        Self {
            port,
            session,
            conns: BTreeMap::new(),
            page: Buffer::zeroed(1 << 20),
            wire: Vec::new(),
            done: 0,
            in_target: Duration::ZERO,
            in_initiator: Duration::ZERO,
        }
    }

    fn attach(&mut self) {
        self.session.connect(Duration::ZERO);
        while !self.session.is_live() {
            self.turn();
        }
    }

    /// Nanoseconds of initiator and target per operation.
    fn measure(&mut self, is_write: bool, blocks: u32, depth: u64) -> [f64; 2] {
        (self.done, self.in_target, self.in_initiator) = Default::default();
        let start = Instant::now();
        let data = self.page.slice(0..blocks as usize * BLOCK);
        let mut sent = 0u64;
        while start.elapsed() < RUN {
            while sent - self.done < depth {
                let extent = Extent::new(sent * 7919 % (BLOCKS - 64), blocks);
                let op = if is_write {
                    Op::Write { extent, data: data.clone(), durability: Volatile }
                } else {
                    Op::Read { extent }
                };
                self.session.submit(Duration::ZERO, 1, sent, op);
                sent += 1;
            }
            self.turn();
        }
        let per_op = |time: Duration| {
            time.as_secs_f64() * 1e9 / f64::from(u32::try_from(self.done).unwrap())
        };
        [per_op(self.in_initiator), per_op(self.in_target)]
    }

    /// What the kernel would do, copying into and out of a socket, is not counted.
    fn turn(&mut self) {
        let now = Duration::ZERO;
        let mut began = Instant::now();
        while let Some(out) = self.session.poll() {
            match out {
                initiator::Out::Open { queue } => {
                    self.conns.insert(queue, self.port.accept(now).unwrap());
                    self.session.opened(now, queue);
                }
                initiator::Out::Send { queue, outgoing } => {
                    self.in_initiator += began.elapsed();
                    self.wire.clear();
                    outgoing.pieces(0).for_each(|piece| self.wire.extend_from_slice(piece));
                    let conn = self.conns[&queue];
                    let at_target = Instant::now();
                    for piece in self.wire.chunks(64 << 10) {
                        self.port.receive(now, conn, piece);
                    }
                    self.in_target += at_target.elapsed();
                    began = Instant::now();
                    self.session.recycle(outgoing);
                }
                initiator::Out::Done { result, .. } => {
                    result.unwrap();
                    self.done += 1;
                }
                _ => {}
            }
        }
        self.in_initiator += began.elapsed();
        let mut began = Instant::now();
        while let Some(out) = self.port.poll() {
            match out {
                target::Out::Request(request) => {
                    let reply = match request.op {
                        Op::Read { extent } => {
                            Reply::Data(self.page.slice(0..extent.blocks as usize * BLOCK))
                        }
                        _ => Reply::Done,
                    };
                    self.port.complete(request.tag, Ok(reply));
                }
                target::Out::Send { conn, outgoing } => {
                    self.in_target += began.elapsed();
                    self.wire.clear();
                    outgoing.pieces(0).for_each(|piece| self.wire.extend_from_slice(piece));
                    let queue = self.conns.iter().find(|(_, of)| **of == conn).unwrap().0;
                    let at_initiator = Instant::now();
                    for piece in self.wire.chunks(64 << 10) {
                        self.session.receive(now, *queue, piece);
                    }
                    self.in_initiator += at_initiator.elapsed();
                    began = Instant::now();
                    self.port.recycle(outgoing);
                }
                _ => {}
            }
        }
        self.in_target += began.elapsed();
    }
}
