//! A volume of two replicas: one beside its target, one behind the wire.

use block::Buffer;
use mirror::{
    Answer, Class, Command, Geometry, HostResult, Input, Output, Request, Seat, StoreAnswer,
    Throttle, Times,
};
use model::{
    Bytes, ChildItem, Epoch, HostId, InstanceId, Membership, NodeId, ReplicaId, Revision,
    TargetItem, Time,
};
use nvme::{
    Op, Reply, initiator,
    target::{self, ConnId, Port, Tag},
};

use crate::{
    host::{BLOCKS, NOW, Target, VOLUME, VOLUME_NQN, Wire, session, subsystem, volume_kind},
    node::Node,
};

const LOCAL: ReplicaId = ReplicaId::from_u128(1);
const REMOTE: ReplicaId = ReplicaId::from_u128(2);
const HERE: NodeId = NodeId::from_u128(3);
const THERE: NodeId = NodeId::from_u128(4);
const HOST: HostId = HostId::from_u128(5);
/// The numbers by which the target and the replicas know their sessions.
const HOST_SESSION: u64 = 1;
const CHILD_SESSION: u64 = 2;
const REPLICA_NQN: &str = "nqn.replica";
/// Numbers from here on are those of requests that took no wire.
const UNWIRED: u64 = 1 << 32;
const TIME: Time = Time(10_000);

/// Requests of a port that are not answered, by a number that is used again.
#[derive(Default)]
struct Tags {
    all: Vec<Option<Tag>>,
    free: Vec<usize>,
}

impl Tags {
    fn insert(&mut self, tag: Tag) -> u64 {
        let at = self.free.pop().unwrap_or(self.all.len());
        if at == self.all.len() {
            self.all.push(None);
        }
        self.all[at] = Some(tag);
        u64::try_from(at).unwrap()
    }

    fn remove(&mut self, number: u64) -> Tag {
        let at = usize::try_from(number).unwrap();
        self.free.push(at);
        self.all[at].take().unwrap()
    }
}

pub(crate) struct Volume {
    port: Port,
    asked: Tags,
    target: mirror::Target<Buffer>,
    out: Vec<Output<Buffer>>,
    /// Kept for its memory.
    batch: Vec<Output<Buffer>>,
    local: Node,
    link: initiator::Session,
    to_there: Wire,
    there: There,
    store: Membership,
    /// The sessions of the target with its children, by its own numbers.
    sessions: [u64; 2],
}

/// The engine of the remote replica.
struct There {
    port: Port,
    conns: Vec<ConnId>,
    asked: Tags,
    /// Tags of requests that took no wire.
    unwired: Vec<u64>,
    node: Node,
    sent: Wire,
}

impl Volume {
    pub(crate) fn new() -> Self {
        let mut store = Membership::founded(VOLUME, [LOCAL, REMOTE]);
        store.epoch = Epoch(1);
        let child = |replica, node| ChildItem { replica, node, rebuild: true, retire: false };
        let item = TargetItem {
            epoch: Epoch(1),
            instance: InstanceId::from_u128(6),
            serve: true,
            size: Bytes(BLOCKS * 4096),
            children: vec![child(LOCAL, HERE), child(REMOTE, THERE)],
            hosts: [HOST].into(),
            snapshots: Vec::new(),
        };
        let seat = Seat {
            volume: VOLUME,
            instance: item.instance,
            node: HERE,
            times: Times::default(),
            geometry: Geometry::default(),
            throttle: Throttle::default(),
        };
        let mut out = Vec::new();
        let target = mirror::Target::start(seat, item, TIME, &mut out);
        let mut port = Port::new(Vec::new());
        port.add_subsystem(subsystem(volume_kind(), VOLUME_NQN)).unwrap();
        let mut volume = Self {
            port,
            asked: Tags::default(),
            target,
            out,
            batch: Vec::new(),
            local: Node::new(LOCAL),
            link: session(REPLICA_NQN),
            to_there: Wire::default(),
            there: There::new(),
            store,
            sessions: [0; 2],
        };
        volume.link.connect(NOW);
        volume.settle(&mut Wire::default());
        assert!(volume.link.is_live(), "the remote replica is reached");
        assert!(volume.target.is_serving(), "the target serves: {:?}", volume.target.phase());
        volume.tell(Input::HostOpened { session: HOST_SESSION, host: HOST });
        volume
    }

    fn tell(&mut self, input: Input<Buffer>) {
        self.target.handle(TIME, input, &mut self.out);
    }

    fn request(&mut self, request: target::Request) {
        let tag = self.asked.insert(request.tag);
        let command = match request.op {
            Op::Read { extent } => Command::Read { extent },
            Op::Write { extent, data, fua } => Command::Write { extent, data, fua },
            _ => Command::Flush,
        };
        self.tell(Input::Command { session: HOST_SESSION, tag, command });
    }

    fn follow(&mut self, output: Output<Buffer>) {
        match output {
            Output::Open { child, session, .. } => {
                self.sessions[usize::from(child == REMOTE)] = session;
            }
            Output::Send { child: LOCAL, tag, request, .. } => {
                self.local.ask(CHILD_SESSION, tag, request);
            }
            Output::Send { tag, request, .. } => {
                let plain = |class| class == Class::Durable;
                let op = match request {
                    Request::Read { extent } => Op::Read { extent },
                    Request::Write { extent, data, class } => {
                        Op::Write { extent, data, fua: plain(class) }
                    }
                    Request::Flush if self.target.is_serving() => Op::Flush,
                    // What is not measured takes no wire.
                    other => return self.there.ask(tag, other),
                };
                self.link.submit(NOW, 1, tag, op);
            }
            Output::Reply(reply) => {
                let result = match reply.result {
                    HostResult::Done => Ok(Reply::Done),
                    HostResult::Data(data) => Ok(Reply::Data(data)),
                    HostResult::Failed(fault) => panic!("{fault:?}"),
                };
                let tag = self.asked.remove(reply.tag);
                self.port.complete(tag, result);
            }
            Output::ReadRecord => {
                self.tell(Input::Store(StoreAnswer::Record(self.store.clone())));
            }
            Output::Commit { record, expected } => {
                let revision = Revision(expected.0 + 1);
                self.store = Membership { revision, ..record };
                self.tell(Input::Store(StoreAnswer::Committed(revision)));
            }
            Output::Seen | Output::Notice(_) => {}
            other => panic!("nothing fails here: {other:?}"),
        }
    }

    fn answered(&mut self, child: ReplicaId, tag: u64, answer: Answer<Buffer>) {
        let session = self.sessions[usize::from(child == REMOTE)];
        self.tell(Input::Answer { child, session, tag, answer });
    }

    /// What the session with the remote replica says; true if it said anything.
    fn poll_link(&mut self) -> bool {
        let mut is_busy = false;
        while let Some(out) = self.link.poll() {
            is_busy = true;
            match out {
                initiator::Out::Open { queue } => {
                    self.there.conns.push(self.there.port.accept(NOW).unwrap());
                    self.link.opened(NOW, queue);
                }
                initiator::Out::Send { queue, outgoing } => {
                    self.to_there.send(&outgoing);
                    self.link.recycle(outgoing);
                    let conn = self.there.conns[usize::from(queue)];
                    self.there.port.receive(NOW, conn, &self.to_there.bytes);
                    self.to_there.bytes.clear();
                }
                initiator::Out::Done { tag, result } => {
                    let answer = match result.unwrap() {
                        Reply::Done => Answer::Done,
                        Reply::Data(data) => Answer::Data(data),
                    };
                    self.answered(REMOTE, tag, answer);
                }
                _ => {}
            }
        }
        is_busy
    }

    /// What the remote engine says; true if it said anything.
    fn poll_there(&mut self) -> bool {
        let mut is_busy = self.there.poll_port(&mut self.link);
        while let Some((number, answer)) = self.there.node.poll() {
            is_busy = true;
            if let Some(tag) = self.there.answered(number, &answer) {
                self.answered(REMOTE, tag, answer);
            }
        }
        is_busy
    }
}

impl There {
    fn new() -> Self {
        let mut port = Port::new(Vec::new());
        port.add_subsystem(subsystem(target::Kind::Replica, REPLICA_NQN)).unwrap();
        let (conns, asked, unwired) = (Vec::new(), Tags::default(), Vec::new());
        Self { port, conns, asked, unwired, node: Node::new(REMOTE), sent: Wire::default() }
    }

    fn ask(&mut self, tag: u64, request: Request<Buffer>) {
        let number = UNWIRED + u64::try_from(self.unwired.len()).unwrap();
        self.unwired.push(tag);
        self.node.ask(CHILD_SESSION, number, request);
    }

    /// True if the port said anything.
    fn poll_port(&mut self, link: &mut initiator::Session) -> bool {
        let mut is_busy = false;
        while let Some(out) = self.port.poll() {
            is_busy = true;
            match out {
                target::Out::Request(request) => {
                    let tag = self.asked.insert(request.tag);
                    let request = match request.op {
                        Op::Read { extent } => Request::Read { extent },
                        Op::Write { extent, data, .. } => {
                            Request::Write { extent, data, class: Class::Plain }
                        }
                        _ => Request::Flush,
                    };
                    self.node.ask(CHILD_SESSION, tag, request);
                }
                target::Out::Send { conn, outgoing } => {
                    self.sent.send(&outgoing);
                    self.port.recycle(outgoing);
                    let queue = self.conns.iter().position(|known| *known == conn).unwrap();
                    link.receive(NOW, u16::try_from(queue).unwrap(), &self.sent.bytes);
                    self.sent.bytes.clear();
                }
                _ => {}
            }
        }
        is_busy
    }

    /// Answers over the wire; or tells what the answer is to, if that took none.
    fn answered(&mut self, number: u64, answer: &Answer<Buffer>) -> Option<u64> {
        if let Some(at) = number.checked_sub(UNWIRED) {
            return Some(self.unwired[usize::try_from(at).unwrap()]);
        }
        let reply = match answer {
            Answer::Data(data) => Reply::Data(data.clone()),
            Answer::Done => Reply::Done,
            other => panic!("{other:?}"),
        };
        self.port.complete(self.asked.remove(number), Ok(reply));
        None
    }
}

impl Target for Volume {
    fn port(&mut self) -> &mut Port {
        &mut self.port
    }

    fn settle(&mut self, sent: &mut Wire) {
        loop {
            let mut is_quiet = true;
            while let Some(out) = self.port.poll() {
                is_quiet = false;
                match out {
                    target::Out::Request(request) => self.request(request),
                    target::Out::Send { outgoing, .. } => {
                        sent.send(&outgoing);
                        self.port.recycle(outgoing);
                    }
                    _ => {}
                }
            }
            is_quiet &= self.out.is_empty();
            let mut batch = std::mem::take(&mut self.batch);
            std::mem::swap(&mut batch, &mut self.out);
            for output in batch.drain(..) {
                self.follow(output);
            }
            self.batch = batch;
            while let Some((tag, answer)) = self.local.poll() {
                is_quiet = false;
                self.answered(LOCAL, tag, answer);
            }
            is_quiet &= !self.poll_link();
            is_quiet &= !self.poll_there();
            if is_quiet {
                return;
            }
        }
    }
}
