//! The shard: everything mutable of the data path, on one thread.
//!
//! ```text
//!  sockets ─▶ port ─▶ targets ─▶ children ─▶ (local) replicas ─▶ pools ─▶ disks
//!                 └──▶ replicas of remote targets ─┘    └▶ (remote) sessions ─▶ sockets
//! ```
//! A turn takes what the kernel completed, runs the machines until none has anything more to say,
//! and hands everything to the kernel at once. Nothing here waits and nothing is shared.

mod child;
mod front;
mod inventory;
mod pools;
mod replicas;
mod report;
mod settle;
mod target;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::{Duration, Instant},
};

use model::{Epoch, InstanceId, Inventory, NodeId, PoolId, ReplicaId, Time, VolumeId};
use nvme::{
    reservation::Reservations,
    target::{Hosts, Kind, Namespace, Subsystem},
    wire::log::Ana,
};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, warn};
use uring::{Completion, Inbox, Listener, Op, Outcome, Reactor};

use self::{
    child::Children,
    front::Front,
    pools::{DiskWork, Pools},
    replicas::Replicas,
    target::Targets,
};
use crate::{
    desired::Desired,
    device::Device,
    fault,
    handle::{Notice, Order},
    names,
    net::{Heard, Net},
    slab::Slab,
    token::Token,
};

/// While anything goes on, machines are told the time at least this often. No deadline of theirs is
/// shorter than some hundred milliseconds, so none is late by more than a fraction.
const TICK: Duration = Duration::from_millis(20);

/// Who this engine is, and how it behaves.
#[derive(Clone, Debug)]
pub struct Identity {
    pub node: NodeId,
    /// Where hosts are sent to, if not to where it listens.
    pub advertise: Option<String>,
    pub instance: InstanceId,
    pub boot: pool::Boot,
    pub times: mirror::Times,
    pub throttle: mirror::Throttle,
    /// Faults may be injected: for tests.
    pub takes_faults: bool,
    /// Links to replicas carry checksums on loopback, too.
    pub checks_loopback: bool,
}

/// Channels to the control side.
#[derive(Debug)]
pub struct Ties {
    pub orders: Inbox<Order>,
    pub notices: mpsc::UnboundedSender<Notice>,
    /// The newest inventory that is out of date.
    pub stale: watch::Sender<u64>,
}

#[derive(Debug)]
pub struct Shard {
    identity: Identity,
    ties: Ties,
    reactor: Reactor,
    net: Net,
    listeners: Vec<Listener>,
    front: Front,
    disks: Slab<DiskWork>,
    pools: Pools,
    replicas: Replicas,
    targets: Targets,
    children: Children,
    desired: Desired,
    /// What is missing or refused, by replica, with the reason.
    refused: BTreeMap<ReplicaId, settle::Refusal>,
    /// Targets that are over: their epochs never start again here.
    ended: BTreeMap<VolumeId, Epoch>,
    /// Config items that a pool is working on.
    under_way: BTreeSet<settle::Work>,
    /// Config items that a pool refused, and when.
    failed: BTreeMap<settle::Work, Instant>,
    sequence: u64,
    is_stale: bool,
    /// Settle again before the turn ends.
    is_unsettled: bool,
    work: VecDeque<Work>,
    began: Instant,
    next_tick: Instant,
    stopping: Option<settle::Stopping>,
    applying: settle::Applying,
    /// Who asked for an inventory too early.
    curious: Vec<oneshot::Sender<Inventory>>,
    faults: fault::Standing,
}

/// What one machine says to another, within a turn.
#[derive(Debug)]
enum Work {
    Replica(ReplicaId, mirror::ReplicaOutput<block::Buffer>),
    Target(VolumeId, Epoch, mirror::Output<block::Buffer>),
    Pool(PoolId),
}

/// What is exported under a name.
#[derive(Debug)]
pub enum Export {
    Device(Device),
    Replica(ReplicaId),
    Volume(VolumeId),
}

impl Shard {
    pub fn new(identity: Identity, ties: Ties, reactor: Reactor, listeners: Vec<Listener>) -> Self {
        let now = Instant::now();
        Self {
            desired: Desired::new(identity.node, identity.instance),
            front: Front::new(&listeners, identity.advertise.as_deref()),
            identity,
            ties,
            reactor,
            net: Net::default(),
            listeners,
            disks: Slab::default(),
            pools: Pools::default(),
            replicas: Replicas::default(),
            targets: Targets::default(),
            children: Children::default(),
            refused: BTreeMap::new(),
            ended: BTreeMap::new(),
            under_way: BTreeSet::new(),
            failed: BTreeMap::new(),
            sequence: 0,
            is_stale: false,
            is_unsettled: false,
            work: VecDeque::new(),
            began: now,
            next_tick: now,
            stopping: None,
            applying: settle::Applying::default(),
            curious: Vec::new(),
            faults: fault::Standing::default(),
        }
    }

    /// Exports something under a name, to any host: for an engine without a controller.
    pub fn serve(&mut self, nqn: String, uuid: uuid::Uuid, device: Device) {
        let subsystem = Subsystem {
            nqn,
            serial: names::serial(uuid),
            hosts: Hosts::Any,
            namespace: Namespace {
                uuid,
                nguid: *uuid.as_bytes(),
                blocks: device.blocks(),
                is_thin: false,
                ana: Ana::Optimized,
            },
            first_cntlid: 1,
            cntlids: 4000,
            kind: Kind::Volume { reservations: Reservations::default(), can_last: false },
        };
        if let Some(id) = self.front.port.add_subsystem(subsystem) {
            self.front.exports.insert(id, Export::Device(device));
        }
    }

    /// Opens a pool that was found on a disk, whether or not a config will name it.
    pub fn look_at(&mut self, pool: PoolId, disk: String) {
        self.bring_pool(pool, &[disk], pools::Must::Exist);
    }

    /// Serves until it is told to stop.
    pub fn run(mut self) {
        for index in 0..self.listeners.len() {
            self.accept(index);
        }
        let mut completions = Vec::new();
        loop {
            if let Err(error) = self.reactor.wait(&mut completions, Some(self.next_tick)) {
                error!(%error, "the reactor failed");
                return;
            }
            let now = Instant::now();
            let is_active = !completions.is_empty();
            for completion in completions.drain(..) {
                self.completed(completion);
            }
            while let Some(order) = self.ties.orders.take() {
                self.obey(order);
            }
            if now >= self.next_tick {
                self.tick(now);
            } else if is_active {
                self.next_tick = self.next_tick.min(now + TICK);
            }
            self.progress();
            for conn in self.net.flush(&mut self.reactor) {
                self.heard(Heard::Gone { conn });
            }
            self.leave();
            if self.stopping.as_ref().is_some_and(settle::Stopping::is_over) {
                return self.end();
            }
        }
    }

    fn end(mut self) {
        if let Some(stopping) = self.stopping.take() {
            stopping.answer();
        }
    }

    /// The time as machines count it.
    fn now(&self) -> Time {
        Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn accept(&mut self, index: usize) {
        let listener = self.listeners[index].clone();
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        self.reactor.submit(Token::Accept(number).pack(), Op::Accept { listener });
    }

    fn completed(&mut self, completion: Completion) {
        let Some(token) = Token::unpack(completion.token) else { return };
        match (token, completion.outcome) {
            (Token::Accept(index), Outcome::Accepted(result)) => {
                match result {
                    Ok(socket) => self.front_accepted(socket),
                    Err(error) => warn!(%error, "a connection could not be accepted"),
                }
                if self.stopping.is_none() {
                    self.accept(index as usize);
                }
            }
            (Token::Connect(conn), Outcome::Connected(result)) => {
                let result = self.net.connected(&mut self.reactor, conn, result);
                self.child_connected(conn, result);
            }
            (Token::Receive(conn), Outcome::Received { buffer, result }) => {
                let heard = self.net.received(conn, buffer, &result);
                self.heard(heard);
            }
            (Token::Send(conn), Outcome::Sent { result, .. }) => {
                let heard = self.net.sent(conn, &result);
                self.heard(heard);
            }
            (Token::Disk(number), outcome) => self.disk_done(number, outcome),
            _ => {}
        }
    }

    fn heard(&mut self, heard: Heard) {
        match heard {
            Heard::Bytes { conn, buffer, len } => {
                if !self.front_received(conn, &buffer.bytes()[..len]) {
                    self.child_received(conn, &buffer.bytes()[..len]);
                }
                self.net.resume(&mut self.reactor, conn, buffer);
            }
            Heard::Gone { conn } => {
                if !self.front_gone(conn) {
                    self.child_gone(conn);
                }
            }
            Heard::Nothing => {}
        }
    }

    /// Runs the machines until none has anything more to say.
    fn progress(&mut self) {
        loop {
            let mut is_quiet = !self.front_poll();
            while let Some(work) = self.work.pop_front() {
                is_quiet = false;
                match work {
                    Work::Replica(replica, output) => self.replica_says(replica, output),
                    Work::Target(volume, epoch, output) => self.target_says(volume, epoch, output),
                    Work::Pool(pool) => self.pool_poll(pool),
                }
            }
            is_quiet &= !self.children_poll();
            if is_quiet && std::mem::take(&mut self.is_unsettled) {
                self.settle();
                is_quiet = false;
            }
            if is_quiet {
                break;
            }
        }
        self.tell_if_stale();
    }

    fn tell_if_stale(&mut self) {
        if std::mem::take(&mut self.is_stale) {
            self.ties.stale.send_replace(self.sequence);
        }
    }

    fn tick(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.began);
        self.front.port.tick(since);
        self.tick_targets();
        self.tick_children(since);
        let generation = self.desired.generation();
        self.is_unsettled |= self.pools.homes.values().any(|h| h.is_worth_a_look(generation));
        self.is_unsettled |= self.is_worth_another_try();
        let port = self.front.port.next_deadline().map(|at| self.began + at);
        let targets = self.next_target_deadline();
        let children = self.next_child_deadline().map(|at| self.began + at);
        // A pool that is away is looked for now and then.
        let far = now + Duration::from_secs(10);
        let busy = self.look_at_busy().then(|| now + pools::BUSY_LOOK);
        let leaving = self.stopping.as_ref().and_then(settle::Stopping::deadline);
        let next = [port, targets, children, busy, leaving].into_iter().flatten().min();
        // Never at once again: a deadline that does not move must not make a loop.
        self.next_tick = next.unwrap_or(far).max(now + Duration::from_millis(1));
    }

    /// Something that the inventory tells is different.
    fn changed(&mut self) {
        self.is_stale = true;
    }
}
