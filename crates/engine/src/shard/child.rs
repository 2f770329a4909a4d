//! Remote replicas: one NVMe session for each, with one I/O queue.
//!
//! The protocol wants requests of a session to arrive in order. Data commands do, on one
//! connection; whatever goes by another one waits until everything before it was answered, and
//! everything after it waits for its answer.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use block::{Buffer, Extent};
use mirror::{Answer, Fault, Input, Piece, Request};
use model::{Epoch, NodeId, ReplicaId, SnapshotId, VolumeId};
use nvme::{
    Code, Digests, Op, Reply, Status,
    initiator::{Config, Out, Session},
    reservation::{Acquire, Command, Kind, Register},
};
use tracing::debug;
use uring::IoError;

use super::{Shard, replicas, wire};
use crate::names;

/// Commands at once: what hosts can have under way, and copies besides.
const ENTRIES: u16 = 128;
const ATTACH_TIMEOUT: Duration = Duration::from_secs(3);
/// Longer than the mirror's own patience, which decides.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(8);
const QUEUE: u16 = 1;

#[derive(Debug, Default)]
pub(super) struct Children {
    links: BTreeMap<Key, Link>,
    conns: BTreeMap<u32, (Key, u16)>,
    /// With something to poll.
    ready: Vec<Key>,
}

/// One session of one target with one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    volume: VolumeId,
    epoch: Epoch,
    child: ReplicaId,
    session: u64,
}

#[derive(Debug)]
struct Link {
    session: Session,
    to: SocketAddr,
    conns: BTreeMap<u16, u32>,
    /// Not sent yet.
    waiting: VecDeque<(u64, Request<Buffer>)>,
    /// Sent, by the number that the session knows.
    sent: BTreeMap<u64, Sent>,
    last: u64,
    /// Everything waits for the answer to this one.
    barrier: Option<u64>,
    /// The replica's snapshots, by the numbers that it reads them by.
    images: BTreeMap<SnapshotId, u32>,
}

#[derive(Debug)]
struct Sent {
    tag: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Data,
    /// A read, which must bring as much as it asked for.
    Registering,
    Acquiring,
    State,
    Images,
    /// Of a snapshot, if its number is not zero.
    Mapping {
        extent: Extent,
        image: u32,
    },
    Fetching {
        extent: Extent,
        runs: Vec<(Extent, bool)>,
    },
}

impl Shard {
    pub(super) fn dial_child(
        &mut self,
        volume: VolumeId,
        epoch: Epoch,
        child: ReplicaId,
        node: NodeId,
        session: u64,
    ) {
        let key = Key { volume, epoch, child, session };
        let address = self.desired.address(node).and_then(|address| address.parse().ok());
        let Some(to) = address else {
            debug!(%node, "no address for the node of a replica");
            self.tell_target(volume, Input::ChildClosed { child, session });
            return;
        };
        let own = self.identity.node.0;
        let config = Config {
            host_nqn: names::nqn(own),
            host_id: *own.as_bytes(),
            subsystem_nqn: names::nqn(child.0),
            io_queues: 1,
            entries: ENTRIES,
            digests: digests(to, self.identity.checks_loopback),
            // The mirror notices silence itself, and an idle pair of engines exchanges nothing.
            keep_alive: Duration::ZERO,
            command_timeout: COMMAND_TIMEOUT,
            attach_timeout: ATTACH_TIMEOUT,
        };
        let mut link = Link {
            session: Session::new(config),
            to,
            conns: BTreeMap::new(),
            waiting: VecDeque::new(),
            sent: BTreeMap::new(),
            last: 0,
            barrier: None,
            images: BTreeMap::new(),
        };
        link.session.connect(self.began.elapsed());
        self.children.links.insert(key, link);
        self.children.ready.push(key);
    }

    pub(super) fn close_child(
        &mut self,
        volume: VolumeId,
        epoch: Epoch,
        child: ReplicaId,
        session: u64,
    ) {
        self.drop_link(Key { volume, epoch, child, session });
    }

    pub(super) fn drop_children(&mut self, volume: VolumeId, epoch: Epoch) {
        let is_of = |key: &&Key| key.volume == volume && key.epoch == epoch;
        let keys: Vec<Key> = self.children.links.keys().filter(is_of).copied().collect();
        for key in keys {
            self.drop_link(key);
        }
    }

    fn drop_link(&mut self, key: Key) {
        let Some(link) = self.children.links.remove(&key) else { return };
        for conn in link.conns.into_values() {
            self.children.conns.remove(&conn);
            self.net.close(conn);
        }
    }

    pub(super) fn send_child(
        &mut self,
        volume: VolumeId,
        epoch: Epoch,
        child: ReplicaId,
        session: u64,
        tag: u64,
        request: Request<Buffer>,
    ) {
        let key = Key { volume, epoch, child, session };
        let Some(link) = self.children.links.get_mut(&key) else { return };
        link.waiting.push_back((tag, request));
        link.pump(self.began.elapsed(), epoch);
        self.children.ready.push(key);
    }

    pub(super) fn child_connected(&mut self, conn: u32, result: Result<(), IoError>) {
        let now = self.began.elapsed();
        let Some((key, queue)) = self.children.conns.get(&conn).copied() else { return };
        let Some(link) = self.children.links.get_mut(&key) else { return };
        match result {
            Ok(()) => link.session.opened(now, queue),
            Err(error) => {
                debug!(replica = %key.child, %error, "a replica's engine did not answer");
                self.children.conns.remove(&conn);
                link.conns.remove(&queue);
                link.session.closed(queue);
            }
        }
        self.children.ready.push(key);
    }

    pub(super) fn child_received(&mut self, conn: u32, bytes: &[u8]) {
        let now = self.began.elapsed();
        let Some((key, queue)) = self.children.conns.get(&conn).copied() else { return };
        if let Some(link) = self.children.links.get_mut(&key) {
            link.session.receive(now, queue, bytes);
            self.children.ready.push(key);
        }
    }

    pub(super) fn child_gone(&mut self, conn: u32) {
        let Some((key, queue)) = self.children.conns.remove(&conn) else { return };
        if let Some(link) = self.children.links.get_mut(&key) {
            link.conns.remove(&queue);
            link.session.closed(queue);
            self.children.ready.push(key);
        }
    }

    pub(super) fn tick_children(&mut self, now: Duration) {
        for (key, link) in &mut self.children.links {
            if link.session.next_deadline().is_some_and(|at| at <= now) {
                link.session.tick(now);
                self.children.ready.push(*key);
            }
        }
    }

    pub(super) fn next_child_deadline(&self) -> Option<Duration> {
        self.children.links.values().filter_map(|link| link.session.next_deadline()).min()
    }

    /// True if there was something to do.
    pub(super) fn children_poll(&mut self) -> bool {
        let ready = std::mem::take(&mut self.children.ready);
        let is_busy = !ready.is_empty();
        for key in ready {
            while let Some(out) = self.children.links.get_mut(&key).and_then(|l| l.session.poll()) {
                self.child_says(key, out);
            }
        }
        is_busy
    }

    fn child_says(&mut self, key: Key, out: Out) {
        let now = self.began.elapsed();
        let Some(link) = self.children.links.get_mut(&key) else { return };
        match out {
            Out::Open { queue } => {
                let conn = self.net.dial(&mut self.reactor, link.to);
                link.conns.insert(queue, conn);
                self.children.conns.insert(conn, (key, queue));
            }
            Out::Send { queue, outgoing } => {
                if let Some(conn) = link.conns.get(&queue) {
                    self.net.send(*conn, &outgoing);
                }
                link.session.recycle(outgoing);
            }
            Out::Close { queue } => {
                if let Some(conn) = link.conns.get(&queue) {
                    self.net.close(*conn);
                }
            }
            Out::Ready(_) => link.pump(now, key.epoch),
            Out::Done { result: Err(status), .. } if is_of_the_path(status) => {
                // It says nothing about the replica: the same request may succeed on a session of
                // the grace, and a read that was cut off is no reason to repair anything.
                debug!(replica = %key.child, %status, "the session with a replica is of no use");
                self.lose_child(key);
            }
            Out::Done { tag, result } => {
                if let Some(answer) = link.done(now, key.epoch, tag, result) {
                    let (tag, answer) = answer;
                    let Key { volume, child, session, .. } = key;
                    self.tell_target(volume, Input::Answer { child, session, tag, answer });
                }
            }
            Out::Event(_) => {}
            Out::Dead { reason } => {
                debug!(replica = %key.child, ?reason, "the session with a replica ended");
                self.lose_child(key);
            }
        }
    }

    fn lose_child(&mut self, key: Key) {
        self.drop_link(key);
        let Key { volume, child, session, .. } = key;
        self.tell_target(volume, Input::ChildClosed { child, session });
    }
}

impl Link {
    /// Sends what may be sent.
    fn pump(&mut self, now: Duration, epoch: Epoch) {
        while self.session.is_live() && self.barrier.is_none() {
            let Some((tag, request)) = self.waiting.pop_front() else { return };
            let is_ordered = self.sent.is_empty();
            if waits_for_all(&request) && !is_ordered {
                self.waiting.push_front((tag, request));
                return;
            }
            let stops_all = waits_for_all(&request);
            let (op, what) = self.command(request, epoch);
            let number = self.submit(now, tag, op, what);
            if stops_all {
                self.barrier = Some(number);
            }
        }
    }

    fn submit(&mut self, now: Duration, tag: u64, op: Op, what: What) -> u64 {
        self.last += 1;
        self.sent.insert(self.last, Sent { tag, what });
        self.session.submit(now, QUEUE, self.last, op);
        self.last
    }

    fn command(&self, request: Request<Buffer>, epoch: Epoch) -> (Op, What) {
        let Request::Fetch { extent, image, since } = request else {
            return command(request, epoch);
        };
        let number = |snapshot: SnapshotId| self.images.get(&snapshot).copied();
        // One that is not known is asked for by a number that no pool gives.
        let image = image.map_or(0, |image| number(image).unwrap_or(u32::MAX));
        let since = since.and_then(number).unwrap_or(0);
        (Op::Vendor(wire::alloc_map(extent, image, since)), What::Mapping { extent, image })
    }

    fn listed(&mut self, bytes: &[u8]) -> Answer<Buffer> {
        let Some(list) = wire::images(bytes) else { return Answer::Failed(Fault::Refused) };
        self.images = list.iter().map(|(number, image)| (image.snapshot, *number)).collect();
        Answer::Images(list.into_iter().map(|(_, image)| image).collect())
    }

    /// The answer to a request, if that was the last of its commands.
    fn done(
        &mut self,
        now: Duration,
        epoch: Epoch,
        number: u64,
        result: Result<Reply, Status>,
    ) -> Option<(u64, Answer<Buffer>)> {
        let Sent { tag, what } = self.sent.remove(&number)?;
        let was_barrier = self.barrier == Some(number);
        let (next, answer) = match (what, result) {
            (_, Err(status)) => (None, Answer::Failed(wire::fault(status, epoch))),
            (What::Data, Ok(Reply::Done)) => (None, Answer::Done),
            (What::Data, Ok(Reply::Data(data))) => (None, Answer::Data(data)),
            (What::Registering, Ok(_)) => {
                let command = Command::Acquire {
                    action: Acquire::PreemptAndAbort,
                    ignores_key: false,
                    kind: Kind::ExclusiveAccess.number(),
                    current: epoch.0,
                    other: 0,
                };
                (Some((Op::Reservation(command), What::Acquiring)), Answer::Done)
            }
            (What::Acquiring, Ok(_)) => {
                (Some((Op::Vendor(wire::get_state()), What::State)), Answer::Done)
            }
            (What::State, Ok(Reply::Data(data))) => {
                let state = wire::state(data.bytes()).map(|state| Answer::Fenced(Box::new(state)));
                (None, state.unwrap_or(Answer::Failed(Fault::Refused)))
            }
            (What::Images, Ok(Reply::Data(data))) => (None, self.listed(data.bytes())),
            (What::Mapping { extent, image }, Ok(Reply::Data(map))) => {
                mapped(extent, image, map.bytes())
            }
            (What::Fetching { extent, runs }, Ok(Reply::Data(data))) => {
                (None, Answer::Pieces(replicas::pieces(&data, extent, &runs)))
            }
            (_, Ok(_)) => (None, Answer::Failed(Fault::Media)),
        };
        if let Some((op, what)) = next {
            let number = self.submit(now, tag, op, what);
            if was_barrier {
                self.barrier = Some(number);
            }
            return None;
        }
        if was_barrier {
            self.barrier = None;
        }
        self.pump(now, epoch);
        Some((tag, answer))
    }
}

/// Whether a command failed only because its session did. A faulted replica says so in the same
/// family of codes, and means it.
fn is_of_the_path(status: Status) -> bool {
    status.is_path_related() && status.code != Code::PersistentLoss
}

/// Whether it goes by another connection, or by several commands, so that order must be made.
fn waits_for_all(request: &Request<Buffer>) -> bool {
    !matches!(
        request,
        Request::Read { .. }
            | Request::Write { .. }
            | Request::Zero { .. }
            | Request::Flush
            | Request::Ping
            | Request::Fetch { .. }
            | Request::Images
    )
}

/// What is to be read, or that there is nothing to be.
fn mapped(extent: Extent, image: u32, map: &[u8]) -> (Option<(Op, What)>, Answer<Buffer>) {
    let runs = runs(extent, map);
    if runs.iter().all(|(_, has_data)| !has_data) {
        let hole = |(extent, _)| Piece { extent, data: None };
        return (None, Answer::Pieces(runs.into_iter().map(hole).collect()));
    }
    let op = match image {
        0 => Op::Read { extent },
        image => Op::Vendor(wire::read_image(extent, image)),
    };
    (Some((op, What::Fetching { extent, runs })), Answer::Done)
}

fn command(request: Request<Buffer>, epoch: Epoch) -> (Op, What) {
    let fua = |class: mirror::Class| class == mirror::Class::Durable;
    let op = match request {
        Request::Fence { .. } => {
            let command = Command::Register {
                action: Register::Register,
                ignores_key: true,
                current: 0,
                new: epoch.0,
                persist: None,
            };
            return (Op::Reservation(command), What::Registering);
        }
        Request::Images => return (Op::Vendor(wire::get_images()), What::Images),
        // Any block will do: the replica takes it as a question whether the session still counts.
        Request::Ping => Op::Verify { extent: Extent::new(0, 1) },
        Request::Read { extent } => Op::Read { extent },
        Request::Write { extent, data, class } => Op::Write { extent, data, fua: fua(class) },
        Request::Zero { extent, class } => Op::Zero { extent, deallocate: true, fua: fua(class) },
        Request::Flush => Op::Flush,
        other => match wire::vendor(&other) {
            Some(vendor) => Op::Vendor(vendor),
            // Too large to travel: a command that the other side refuses.
            None => Op::Vendor(wire::unknown()),
        },
    };
    (op, What::Data)
}

/// Runs of changed blocks with and without data, from one bit for each and one for each again.
fn runs(extent: Extent, map: &[u8]) -> Vec<(Extent, bool)> {
    let is_set = |from: usize, at: u32| {
        let byte = usize::try_from(at / 8).ok().and_then(|at| map.get(from + at).copied());
        byte.is_none_or(|byte| byte & (1 << (at % 8)) != 0)
    };
    let mut runs: Vec<(Extent, bool)> = Vec::new();
    for at in (0..extent.blocks).filter(|at| is_set(wire::map_bytes(extent), *at)) {
        let is_data = is_set(0, at);
        let next = extent.start + u64::from(at);
        match runs.last_mut() {
            Some((run, known)) if *known == is_data && run.end() == next => run.blocks += 1,
            _ => runs.push((Extent::new(extent.start + u64::from(at), 1), is_data)),
        }
    }
    runs
}

/// What travels through no wire needs no check.
fn digests(to: SocketAddr, checks_loopback: bool) -> Digests {
    let is_checked = checks_loopback || !to.ip().is_loopback();
    Digests { header: is_checked, data: is_checked }
}
