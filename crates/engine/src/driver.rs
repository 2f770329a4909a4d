//! The shard's thread: what the kernel completed goes into the storage node, and what the node
//! wants goes to the kernel, once per turn. Nothing is decided here.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use model::{Inventory, PoolId, Revision};
use ports::EngineError;
use storage_node::{ConnId, DiskIoId, Effect, NodeParams, StorageNode, Ticket};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, warn};
use uring::{Completion, Inbox, Listener, Op, Outcome, Reactor};

use crate::{
    connections::{Connections, Heard},
    disks::{self, Device, Disks},
    handle::{Order, StoreQuestion},
    log,
    token::Token,
};

/// Channels to the control side.
#[derive(Debug)]
pub struct Ties {
    pub orders: Inbox<Order>,
    pub questions: mpsc::UnboundedSender<StoreQuestion>,
    /// The newest inventory that is out of date.
    pub stale: watch::Sender<u64>,
}

#[derive(Debug)]
pub struct Driver {
    node: StorageNode,
    ties: Ties,
    reactor: Reactor,
    connections: Connections,
    disks: Disks,
    listener: Listener,
    began: Instant,
    /// Of the turn, since the beginning.
    now: Duration,
    replies: Replies,
    delayed: BTreeMap<u32, Op>,
    state: DriverState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriverState {
    Running,
    Stopping,
    Over,
}

/// Who waits for an answer.
#[derive(Debug, Default)]
struct Replies {
    last: u64,
    applied: BTreeMap<Ticket, oneshot::Sender<Result<Revision, EngineError>>>,
    inventories: BTreeMap<Ticket, oneshot::Sender<Inventory>>,
    stopped: Vec<oneshot::Sender<()>>,
}

impl Replies {
    fn ticket(&mut self) -> Ticket {
        self.last += 1;
        Ticket(self.last)
    }
}

impl Driver {
    pub fn new(params: NodeParams, ties: Ties, reactor: Reactor, listener: Listener) -> Self {
        Self {
            node: StorageNode::new(params, Duration::ZERO),
            ties,
            reactor,
            connections: Connections::default(),
            disks: Disks::default(),
            listener,
            began: Instant::now(),
            now: Duration::ZERO,
            replies: Replies::default(),
            delayed: BTreeMap::new(),
            state: DriverState::Running,
        }
    }

    /// Exports something under a name, to any host: for an engine without a controller.
    pub fn serve(&mut self, nqn: String, uuid: uuid::Uuid, device: Device) {
        let device = match device {
            Device::Made(device) => device,
            Device::File(disk) => {
                let (disk, blocks) = self.disks.insert(disk);
                storage_node::Device::Disk { disk, blocks }
            }
        };
        self.node.serve(nqn, uuid, device);
    }

    /// Opens a pool that was found on a disk, whether or not a config will name it.
    pub fn look_at(&mut self, pool: PoolId, path: String) {
        self.node.look_at(pool, path);
    }

    /// Serves until it is told to stop.
    pub fn run(mut self) {
        self.accept();
        self.progress();
        let mut completions = Vec::new();
        while self.state != DriverState::Over {
            let until = self.began + self.node.next_deadline();
            if let Err(error) = self.reactor.wait(&mut completions, Some(until)) {
                error!(%error, "the reactor failed");
                return;
            }
            // Read once per turn: a clock costs as much as a map.
            self.now = self.began.elapsed();
            for completion in completions.drain(..) {
                self.completed(completion);
            }
            while let Some(order) = self.ties.orders.take() {
                self.obey(order);
            }
            self.progress();
        }
        for reply in self.replies.stopped {
            // Whoever asked may be gone.
            let _ = reply.send(());
        }
    }

    fn accept(&mut self) {
        let listener = self.listener.clone();
        self.reactor.submit(Token::Accept(0).pack(), Op::Accept { listener });
    }

    fn completed(&mut self, completion: Completion) {
        let Some(token) = Token::unpack(completion.token) else { return };
        match (token, completion.outcome) {
            (Token::Accept(_), Outcome::Accepted(result)) => {
                match result.map(|socket| (socket, self.node.accept(self.now))) {
                    Ok((socket, Some(ConnId(conn)))) => {
                        self.connections.accepted(&mut self.reactor, conn, socket);
                    }
                    Ok((socket, None)) => socket.close(),
                    Err(error) => warn!(%error, "a connection could not be accepted"),
                }
                if self.state == DriverState::Running {
                    self.accept();
                }
            }
            (Token::Connect(conn), Outcome::Connected(result)) => {
                match self.connections.connected(&mut self.reactor, conn, result) {
                    Ok(()) => self.node.connected(self.now, ConnId(conn)),
                    Err(_) => self.node.closed(self.now, ConnId(conn)),
                }
            }
            (Token::Receive(conn), Outcome::Received { buffer, result }) => {
                let heard = self.connections.received(conn, buffer, &result);
                self.heard(heard);
            }
            (Token::Send(conn), Outcome::Sent { result, .. }) => {
                let heard = self.connections.sent(conn, &result);
                self.heard(heard);
            }
            (Token::Disk(io), outcome) => {
                if let Some(result) = disks::result(outcome) {
                    self.node.disk_done(self.now, DiskIoId(io), result);
                }
            }
            (Token::Delayed(io), _) => {
                if let Some(op) = self.delayed.remove(&io) {
                    self.reactor.submit(Token::Disk(io).pack(), op);
                }
            }
            _ => {}
        }
    }

    fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Bytes { conn, buffer, len } => {
                self.node.received(self.now, ConnId(conn), &buffer.bytes()[..len]);
                self.connections.resume(&mut self.reactor, conn, buffer);
            }
            Heard::Gone { conn } => self.node.closed(self.now, ConnId(conn)),
            Heard::Nothing => {}
        }
    }

    fn obey(&mut self, order: Order) {
        // Who asked may be gone: then nobody needs the answer.
        match order {
            Order::Apply { config, reply } => {
                let ticket = self.replies.ticket();
                self.replies.applied.insert(ticket, reply);
                self.node.apply(self.now, ticket, *config);
            }
            Order::Inventory { reply } => {
                let ticket = self.replies.ticket();
                self.replies.inventories.insert(ticket, reply);
                self.node.request_inventory(self.now, ticket);
            }
            Order::Record { target, call, answer } => {
                self.node.store_answered(self.now, target, call, answer);
            }
            Order::Metrics { reply } => {
                let _ = reply.send(self.node.metrics());
            }
            Order::Inject { fault, reply } => {
                let _ = reply.send(self.node.inject(self.now, fault).map_err(Into::into));
            }
            Order::Strike { target } => self.node.fail_target(self.now, target),
            Order::Stop { reply } => {
                self.replies.stopped.push(reply);
                self.state = DriverState::Stopping;
                self.node.stop(self.now);
            }
            Order::Abandon => self.state = DriverState::Over,
        }
    }

    /// Lets the node act until it wants nothing more that can be had at once.
    fn progress(&mut self) {
        loop {
            self.node.run(self.now);
            let mut has_news = false;
            while let Some(effect) = self.node.next_effect() {
                has_news |= self.carry_out(effect);
            }
            for conn in self.connections.flush(&mut self.reactor) {
                has_news = true;
                self.node.closed(self.now, ConnId(conn));
            }
            if !has_news {
                return;
            }
        }
    }

    /// True if the node has heard something of it already.
    fn carry_out(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::OpenDisk(open) => {
                let result = self.disks.open(&open.paths);
                self.node.disk_opened(self.now, &open, result);
                return true;
            }
            Effect::CloseDisk(disk) => self.disks.close(disk),
            Effect::Disk { io, disk, op, buffer, delay } => {
                let Some(op) = self.disks.operation(disk, op, buffer) else {
                    let failure = Err(pool::IoError { code: uring::IoError::EIO });
                    self.node.disk_done(self.now, io, failure);
                    return true;
                };
                match delay {
                    None => self.reactor.submit(Token::Disk(io.0).pack(), op),
                    Some(by) => {
                        self.delayed.insert(io.0, op);
                        let at = self.began + self.now + by;
                        self.reactor.submit(Token::Delayed(io.0).pack(), Op::Timeout { at });
                    }
                }
            }
            Effect::Dial { conn, to } => self.connections.dial(&mut self.reactor, conn.0, to),
            Effect::Send { conn, outgoing } => {
                self.connections.send(conn.0, &outgoing);
                self.node.recycle(outgoing);
            }
            Effect::Close(conn) => self.connections.close(conn.0),
            Effect::AskStore { target, call, request } => {
                // The control side ends only with the process.
                let _ = self.ties.questions.send(StoreQuestion { target, call, request });
            }
            Effect::Applied { ticket, result } => {
                if let Some(reply) = self.replies.applied.remove(&ticket) {
                    let _ = reply.send(result);
                }
            }
            Effect::Inventory { ticket, inventory } => {
                if let Some(reply) = self.replies.inventories.remove(&ticket) {
                    let _ = reply.send(*inventory);
                }
            }
            Effect::Outdated { sequence } => {
                self.ties.stale.send_replace(sequence);
            }
            Effect::Stopped => self.state = DriverState::Over,
            Effect::Log(event) => log::write(event),
        }
        false
    }
}
