//! Links to replicas of other nodes: one NVMe session for each, with one I/O queue.
//!
//! The protocol wants requests of a session to arrive in order. Data commands do, on one
//! connection; whatever goes by another one waits until everything before it was answered, and
//! everything after it waits for its answer.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
    format,
    string::ToString,
    vec::Vec,
};
use core::{net::SocketAddr, time::Duration};

use block::{Buffer, Durability, Extent};
use mirror::{Answer, Fault, Input, Request};
use model::{Epoch, NodeId, ReplicaId, SnapshotId};
use nvme::{
    Code, Digests, Op, Reply, Status,
    initiator::{Config, Out, Session},
    reservation::{Acquire, Command, Kind, Register},
};
use pool::FetchedPiece;

use crate::{
    LogEvent, TargetKey,
    context::{ConnOwner, ShardContext},
    effect::{ConnId, Effect},
    message::{ChildAnswer, LocalTarget},
    names,
    registry::{Handle, Registry},
    replica_protocol as protocol,
    slab::Slab,
};

/// Commands at once: what hosts can have under way, and copies besides.
const ENTRIES: u16 = 128;
const ATTACH_TIMEOUT: Duration = Duration::from_secs(3);
/// Longer than the mirror's own patience, which decides.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(8);
const QUEUE: u16 = 1;

#[derive(Debug, Default)]
pub(crate) struct ChildLinks {
    links: Registry<LinkKey, ChildLink>,
    /// With something to poll.
    ready: Vec<Handle<LinkKey>>,
}

/// One session of one target with one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkKey {
    target: TargetKey,
    child: ReplicaId,
    session: u64,
}

/// The connection of one queue of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkConn {
    link: Handle<LinkKey>,
    queue: u16,
}

#[derive(Debug)]
struct ChildLink {
    /// Whose it is.
    from: LocalTarget,
    session: Session,
    to: SocketAddr,
    conns: BTreeMap<u16, ConnId>,
    /// Not sent yet.
    waiting: VecDeque<(u64, Request<Buffer>)>,
    /// Sent, by the number that the session knows.
    sent: Slab<SentCommand>,
    /// Listed to be polled.
    is_ready: bool,
    /// Everything waits for the answer to this one.
    barrier: Option<u64>,
    /// The replica's snapshots, by the numbers that it reads them by.
    images: BTreeMap<SnapshotId, u32>,
}

#[derive(Debug)]
struct SentCommand {
    tag: u64,
    expects: Expecting,
}

/// What the answer to a command will mean.
#[derive(Debug)]
enum Expecting {
    Data,
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

impl ChildLinks {
    pub(super) fn dial(
        &mut self,
        cx: &mut ShardContext,
        from: LocalTarget,
        child: ReplicaId,
        node: NodeId,
    ) -> Option<Handle<LinkKey>> {
        let (target, session) = (from.key(), from.session);
        let address = cx.desired.address(node).and_then(|address| address.parse().ok());
        let Some(to) = address else {
            cx.log(LogEvent::NoAddress { node });
            cx.tell_target(target, Input::ChildClosed { child, session });
            return None;
        };
        let own = cx.params.node.0;
        let config = Config {
            host_nqn: names::nqn(own),
            host_id: *own.as_bytes(),
            subsystem_nqn: names::nqn(child.0),
            io_queues: 1,
            entries: ENTRIES,
            digests: digests(to, cx.params.checks_loopback),
            // The mirror notices silence itself, and an idle pair of engines exchanges nothing.
            keep_alive: Duration::ZERO,
            command_timeout: COMMAND_TIMEOUT,
            attach_timeout: ATTACH_TIMEOUT,
        };
        let mut link = ChildLink {
            from,
            session: Session::new(config),
            to,
            conns: BTreeMap::new(),
            waiting: VecDeque::new(),
            sent: Slab::default(),
            is_ready: false,
            barrier: None,
            images: BTreeMap::new(),
        };
        link.session.connect(cx.now);
        link.is_ready = true;
        let handle = self.links.insert(LinkKey { target, child, session }, link);
        self.ready.push(handle);
        Some(handle)
    }

    pub(super) fn close(&mut self, cx: &mut ShardContext, link: Handle<LinkKey>) {
        self.drop_link(cx, link.id);
    }

    pub(super) fn drop_target(&mut self, cx: &mut ShardContext, target: TargetKey) {
        let keys = self.links.keys().filter(|key| key.target == target).copied();
        for key in keys.collect::<Vec<_>>() {
            self.drop_link(cx, key);
        }
    }

    fn drop_link(&mut self, cx: &mut ShardContext, key: LinkKey) {
        let Some(link) = self.links.remove(&key) else { return };
        for conn in link.conns.into_values() {
            cx.put(Effect::Close(conn));
        }
    }

    pub(super) fn send(
        &mut self,
        cx: &mut ShardContext,
        to: Handle<LinkKey>,
        tag: u64,
        request: Request<Buffer>,
    ) {
        let Some(link) = self.links.at_mut(to) else { return };
        link.send(cx.now, tag, request);
        link.poll_soon(&mut self.ready, to);
    }

    pub(crate) fn connected(&mut self, cx: &mut ShardContext, conn: LinkConn) {
        let LinkConn { link: key, queue } = conn;
        if let Some(link) = self.links.at_mut(key) {
            link.session.opened(cx.now, queue);
            link.poll_soon(&mut self.ready, key);
        }
    }

    pub(crate) fn received(&mut self, cx: &mut ShardContext, conn: LinkConn, bytes: &[u8]) {
        let LinkConn { link: key, queue } = conn;
        if let Some(link) = self.links.at_mut(key) {
            link.session.receive(cx.now, queue, bytes);
            link.poll_soon(&mut self.ready, key);
        }
    }

    /// It is gone, or was never there.
    pub(crate) fn closed(&mut self, conn: LinkConn) {
        let LinkConn { link: key, queue } = conn;
        if let Some(link) = self.links.at_mut(key) {
            link.conns.remove(&queue);
            link.session.closed(queue);
            link.poll_soon(&mut self.ready, key);
        }
    }

    pub(crate) fn tick(&mut self, now: Duration) {
        let ready = &mut self.ready;
        self.links.each(|key, link| {
            if link.session.next_deadline().is_some_and(|at| at <= now) {
                link.session.tick(now);
                link.poll_soon(ready, key);
            }
        });
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.links.values().filter_map(|link| link.session.next_deadline()).min()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty()
    }

    /// Does what links want done, until one has an answer for its target. The links that became
    /// ready meanwhile have their turn, too.
    pub(super) fn next_answer(&mut self, cx: &mut ShardContext) -> Option<ChildAnswer> {
        while let Some(key) = self.ready.last().copied() {
            while let Some(out) = self.links.at_mut(key).and_then(|link| link.session.poll()) {
                let answer = self.says(cx, key, out);
                if answer.is_some() {
                    return answer;
                }
            }
            // Nothing came of it since it was polled last, so it is still the last.
            self.ready.pop();
            if let Some(link) = self.links.at_mut(key) {
                link.is_ready = false;
            }
        }
        None
    }

    fn says(
        &mut self,
        cx: &mut ShardContext,
        key: Handle<LinkKey>,
        out: Out,
    ) -> Option<ChildAnswer> {
        let link = self.links.at_mut(key)?;
        match out {
            Out::Open { queue } => {
                let conn = cx.new_conn(ConnOwner::Link(LinkConn { link: key, queue }));
                link.conns.insert(queue, conn);
                cx.put(Effect::Dial { conn, to: link.to });
            }
            Out::Send { queue, outgoing } => match link.conns.get(&queue) {
                Some(conn) => {
                    // What is handed back goes to the port.
                    if let Some(spare) = cx.port.take_spare() {
                        link.session.recycle(spare);
                    }
                    cx.put(Effect::Send { conn: *conn, outgoing });
                }
                None => link.session.recycle(outgoing),
            },
            Out::Close { queue } => {
                if let Some(conn) = link.conns.get(&queue) {
                    cx.put(Effect::Close(*conn));
                }
            }
            Out::Ready(_) => link.pump(cx.now),
            Out::Done { result: Err(status), .. } if is_of_the_path(status) => {
                // It says nothing about the replica: the same request may succeed on a session of
                // the grace, and a read that was cut off is no reason to repair anything.
                self.lose(cx, key.id, &status.to_string());
            }
            Out::Done { tag, result } => {
                let (tag, answer) = link.done(cx.now, tag, result)?;
                return Some(ChildAnswer { to: link.from, child: key.id.child, tag, answer });
            }
            Out::Event(_) => {}
            Out::Dead { reason } => self.lose(cx, key.id, &format!("{reason:?}")),
        }
        None
    }

    fn lose(&mut self, cx: &mut ShardContext, key: LinkKey, reason: &str) {
        let LinkKey { target, child, session } = key;
        cx.log(LogEvent::ReplicaUnreachable { replica: child, reason: reason.into() });
        self.drop_link(cx, key);
        cx.tell_target(target, Input::ChildClosed { child, session });
    }
}

impl ChildLink {
    /// Now, if nothing is in its way.
    fn send(&mut self, now: Duration, tag: u64, request: Request<Buffer>) {
        let is_free = self.waiting.is_empty() && self.barrier.is_none() && self.session.is_live();
        if is_free && !waits_for_all(&request) {
            let (op, expects) = self.command(request);
            self.submit(now, tag, op, expects);
            return;
        }
        self.waiting.push_back((tag, request));
        self.pump(now);
    }

    /// Sends what may be sent.
    fn pump(&mut self, now: Duration) {
        while self.session.is_live() && self.barrier.is_none() {
            let Some((tag, request)) = self.waiting.pop_front() else { return };
            let is_ordered = self.sent.len() == 0;
            if waits_for_all(&request) && !is_ordered {
                self.waiting.push_front((tag, request));
                return;
            }
            let stops_all = waits_for_all(&request);
            let (op, expects) = self.command(request);
            let number = self.submit(now, tag, op, expects);
            if stops_all {
                self.barrier = Some(number);
            }
        }
    }

    fn poll_soon(&mut self, ready: &mut Vec<Handle<LinkKey>>, key: Handle<LinkKey>) {
        if !core::mem::replace(&mut self.is_ready, true) {
            ready.push(key);
        }
    }

    fn submit(&mut self, now: Duration, tag: u64, op: Op, expects: Expecting) -> u64 {
        let number = u64::from(self.sent.insert(SentCommand { tag, expects }));
        self.session.submit(now, QUEUE, number, op);
        number
    }

    fn command(&self, request: Request<Buffer>) -> (Op, Expecting) {
        let Request::Fetch { extent, image, since } = request else {
            return command(request, self.from.epoch);
        };
        let number = |snapshot: SnapshotId| self.images.get(&snapshot).copied();
        // One that is not known is asked for by a number that no pool gives.
        let image = image.map_or(0, |image| number(image).unwrap_or(u32::MAX));
        let since = since.and_then(number).unwrap_or(0);
        (
            Op::Vendor(protocol::alloc_map(extent, image, since)),
            Expecting::Mapping { extent, image },
        )
    }

    fn listed(&mut self, bytes: &[u8]) -> Answer<Buffer> {
        let Some(list) = protocol::images(bytes) else { return Answer::Failed(Fault::Refused) };
        self.images = list.iter().map(|(number, image)| (image.snapshot, *number)).collect();
        Answer::Images(list.into_iter().map(|(_, image)| image).collect())
    }

    /// The answer to a request, if that was the last of its commands.
    fn done(
        &mut self,
        now: Duration,
        number: u64,
        result: Result<Reply, Status>,
    ) -> Option<(u64, Answer<Buffer>)> {
        let epoch = self.from.epoch;
        let SentCommand { tag, expects } = self.sent.remove(u32::try_from(number).ok()?)?;
        let was_barrier = self.barrier == Some(number);
        let (next, answer) = match (expects, result) {
            (_, Err(status)) => (None, Answer::Failed(protocol::fault(status, epoch))),
            (Expecting::Data, Ok(reply)) => {
                if was_barrier {
                    self.barrier = None;
                }
                self.pump(now);
                return Some((tag, answer_to_data(reply)));
            }
            (Expecting::Registering, Ok(_)) => {
                let command = Command::Acquire {
                    action: Acquire::PreemptAndAbort,
                    ignores_key: false,
                    kind: Kind::ExclusiveAccess.number(),
                    current: epoch.0,
                    other: 0,
                };
                (Some((Op::Reservation(command), Expecting::Acquiring)), Answer::Done)
            }
            (Expecting::Acquiring, Ok(_)) => {
                (Some((Op::Vendor(protocol::get_state()), Expecting::State)), Answer::Done)
            }
            (Expecting::State, Ok(Reply::Data(data))) => {
                let state =
                    protocol::state(data.bytes()).map(|state| Answer::Fenced(Box::new(state)));
                (None, state.unwrap_or(Answer::Failed(Fault::Refused)))
            }
            (Expecting::Images, Ok(Reply::Data(data))) => (None, self.listed(data.bytes())),
            (Expecting::Mapping { extent, image }, Ok(Reply::Data(map))) => {
                mapped(extent, image, map.bytes())
            }
            (Expecting::Fetching { extent, runs }, Ok(Reply::Data(data))) => {
                (None, Answer::Pieces(FetchedPiece::cut(&data, extent, &runs)))
            }
            (_, Ok(_)) => (None, Answer::Failed(Fault::Media)),
        };
        if let Some((op, expects)) = next {
            let number = self.submit(now, tag, op, expects);
            if was_barrier {
                self.barrier = Some(number);
            }
            return None;
        }
        if was_barrier {
            self.barrier = None;
        }
        self.pump(now);
        Some((tag, answer))
    }
}

fn answer_to_data(reply: Reply) -> Answer<Buffer> {
    match reply {
        Reply::Done => Answer::Done,
        Reply::Data(data) => Answer::Data(data),
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
            | Request::Resync(_)
            | Request::Flush { .. }
            | Request::Ping
            | Request::Fetch { .. }
            | Request::Images
    )
}

/// What is to be read, or that there is nothing to be.
fn mapped(extent: Extent, image: u32, map: &[u8]) -> (Option<(Op, Expecting)>, Answer<Buffer>) {
    let runs = runs(extent, map);
    if runs.iter().all(|(_, has_data)| !has_data) {
        let hole = |(extent, _)| FetchedPiece { extent, data: None };
        return (None, Answer::Pieces(runs.into_iter().map(hole).collect()));
    }
    let op = match image {
        0 => Op::Read { extent },
        image => Op::Vendor(protocol::read_image(extent, image)),
    };
    (Some((op, Expecting::Fetching { extent, runs })), Answer::Done)
}

fn command(request: Request<Buffer>, epoch: Epoch) -> (Op, Expecting) {
    let op = match request {
        Request::Fence { .. } => {
            let command = Command::Register {
                action: Register::Register,
                ignores_key: true,
                current: 0,
                new: epoch.0,
                persist: None,
            };
            return (Op::Reservation(command), Expecting::Registering);
        }
        Request::Images => return (Op::Vendor(protocol::get_images()), Expecting::Images),
        // Any block will do: the replica takes it as a question whether the session still counts.
        Request::Ping => Op::Verify { extent: Extent::new(0, 1) },
        Request::Read { extent } => Op::Read { extent },
        Request::Write { extent, data, durability } => Op::Write { extent, data, durability },
        Request::Zero { extent, durability } => Op::Zero { extent, deallocate: true, durability },
        Request::Resync(FetchedPiece { extent, data }) => {
            let durability = Durability::Volatile;
            match data {
                Some(data) => Op::Write { extent, data, durability },
                None => Op::Zero { extent, deallocate: true, durability },
            }
        }
        Request::Flush { mark: None } => Op::Flush,
        // The replica knows the epoch by the session.
        Request::Flush { mark: Some(mark) } => Op::NumberedFlush { number: mark.number },
        other => match protocol::vendor(&other) {
            Some(vendor) => Op::Vendor(vendor),
            // Too large to travel: a command that the other side refuses.
            None => Op::Vendor(protocol::unknown()),
        },
    };
    (op, Expecting::Data)
}

/// Runs of changed blocks with and without data, from one bit for each and one for each again.
fn runs(extent: Extent, map: &[u8]) -> Vec<(Extent, bool)> {
    let is_set = |from: usize, at: u32| {
        let byte = usize::try_from(at / 8).ok().and_then(|at| map.get(from + at).copied());
        byte.is_none_or(|byte| byte & (1 << (at % 8)) != 0)
    };
    let mut runs: Vec<(Extent, bool)> = Vec::new();
    for at in (0..extent.blocks).filter(|at| is_set(protocol::map_bytes(extent), *at)) {
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
