//! A host's paths as NVMe sessions over connections: what the host asks for becomes commands, and
//! what comes of them becomes replies.

use std::{collections::BTreeMap, time::Duration};

use block::{Durability, Extent};
use model::{Epoch, HostId, InstanceId, Millis, NodeId, Time, VolumeId};
use nvme::{
    Code, Digests, Op, Reply, Status,
    initiator::{Config, Out, Reason, Session},
};

use crate::{
    Ctx, Party, StreamPiece, Timer, names,
    node_process::{Heard, Streams, filled, now, place, value},
};

/// The host asks twice a second whether anything is heard; half of this is between two keep-alives.
const KEEP_ALIVE: Duration = Duration::from_millis(2_500);
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
const ATTACH_TIMEOUT: Duration = Duration::from_secs(3);
const IO_QUEUE: u16 = 1;

/// From a host to a target. Requests of one session arrive in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathRequest {
    pub(super) session: u64,
    pub(super) volume: VolumeId,
    pub(super) epoch: Epoch,
    pub(super) op: PathOp,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PathOp {
    Connect,
    Disconnect,
    Ping,
    Write { tag: u64, block: usize, value: u64 },
    Read { tag: u64, block: usize },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PathReply {
    pub(super) session: u64,
    pub(super) volume: VolumeId,
    pub(super) result: PathResult,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PathResult {
    Connected,
    Refused,
    Pong,
    Wrote {
        tag: u64,
    },
    Value {
        tag: u64,
        value: u64,
    },
    /// Every copy is full: the write did not happen.
    NoSpace {
        tag: u64,
    },
    Closed,
}

#[derive(Debug)]
pub(super) struct Initiators {
    host: HostId,
    /// What the host asked for since it was last looked at.
    requests: Vec<(NodeId, PathRequest)>,
    streams: Streams<Lane>,
    /// By the host's own number.
    sessions: BTreeMap<u64, PathSession>,
    replies: Vec<(NodeId, PathReply)>,
    wakes_at: Option<Time>,
}

/// A connection: of this session, for this queue.
type Lane = (u64, u16);

#[derive(Debug)]
struct PathSession {
    machine: Session,
    node: NodeId,
    volume: VolumeId,
    epoch: Epoch,
    commands: BTreeMap<u64, Command>,
    is_heard: bool,
}

/// What an answer will mean.
#[derive(Clone, Copy, Debug)]
enum Command {
    /// Durable when it is answered.
    Write,
    /// To be followed by a flush, which counts.
    WriteBeforeFlush,
    Read,
}

impl Initiators {
    pub(super) fn new(host: HostId, instance: InstanceId) -> Self {
        Self {
            host,
            requests: Vec::new(),
            streams: Streams::new(instance),
            sessions: BTreeMap::new(),
            replies: Vec::new(),
            wakes_at: None,
        }
    }

    pub(super) fn send(&mut self, node: NodeId, request: PathRequest) {
        self.requests.push((node, request));
    }

    /// Does what was asked for.
    pub(super) fn take_requests(&mut self, ctx: &mut Ctx<'_>) {
        for (node, request) in core::mem::take(&mut self.requests) {
            self.request(ctx, node, request);
        }
    }

    /// What is to be told to the host.
    pub(super) fn take_reply(&mut self) -> Option<(NodeId, PathReply)> {
        (!self.replies.is_empty()).then(|| self.replies.remove(0))
    }

    pub(super) fn stream(&mut self, ctx: &mut Ctx<'_>, from: Party, piece: StreamPiece) {
        match self.streams.receive(ctx, from, piece) {
            Some(Heard::Accepted((session, queue))) => {
                self.with(ctx, session, |it, now| it.machine.opened(now, queue));
            }
            Some(Heard::Bytes((session, queue), bytes)) => self.with(ctx, session, |it, now| {
                it.is_heard = true;
                it.machine.receive(now, queue, &bytes);
            }),
            Some(Heard::Closed(lane)) => self.closed(ctx, lane),
            // Nobody dials a host.
            Some(Heard::Dialled(stream)) => self.streams.accept(ctx, from, stream, None),
            None => {}
        }
    }

    pub(super) fn reset(&mut self, ctx: &mut Ctx<'_>, from: Party, process: InstanceId) {
        for lane in self.streams.reset(from, process) {
            self.closed(ctx, lane);
        }
    }

    fn closed(&mut self, ctx: &mut Ctx<'_>, (session, queue): Lane) {
        self.with(ctx, session, |it, _| it.machine.closed(queue));
    }

    /// Time has passed.
    pub(super) fn wake(&mut self, ctx: &mut Ctx<'_>) {
        self.wakes_at = self.wakes_at.filter(|at| *at > ctx.now);
        let is_due = |it: &PathSession| it.machine.next_deadline().is_some_and(|at| at <= now(ctx));
        let due = self.sessions.iter().filter(|(_, it)| is_due(it));
        for session in due.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.with(ctx, session, |it, now| it.machine.tick(now));
        }
        self.sleep(ctx);
    }

    pub(super) fn sleep(&mut self, ctx: &mut Ctx<'_>) {
        self.streams.flush(ctx);
        let deadlines = self.sessions.values().filter_map(|it| it.machine.next_deadline());
        let Some(due) = deadlines.min() else { return };
        let at = Time(u64::try_from(due.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX));
        if self.wakes_at.is_none_or(|set| set > at) {
            self.wakes_at = Some(at.max(ctx.now + Millis(1)));
            ctx.wake_in(at.since(ctx.now).max(Millis(1)), Timer::Deadline);
        }
    }

    fn request(&mut self, ctx: &mut Ctx<'_>, node: NodeId, request: PathRequest) {
        let PathRequest { session, volume, epoch, op } = request;
        match op {
            PathOp::Connect => self.connect(ctx, node, session, volume, epoch),
            PathOp::Disconnect => {
                self.with(ctx, session, |it, _| it.machine.stop());
                self.sessions.remove(&session);
            }
            PathOp::Ping => {
                let heard = self.sessions.get_mut(&session).map(|it| &mut it.is_heard);
                if heard.is_some_and(core::mem::take) {
                    let result = PathResult::Pong;
                    self.replies.push((node, PathReply { session, volume, result }));
                }
            }
            PathOp::Write { tag, block, value } => {
                let is_durable = ctx.random.chance(500);
                self.with(ctx, session, |it, now| {
                    let kind = if is_durable { Command::Write } else { Command::WriteBeforeFlush };
                    it.commands.insert(tag, kind);
                    let (extent, data) = (Extent::new(place(block), 1), filled(value));
                    let durability = Durability::from_fua(is_durable);
                    it.machine.submit(now, IO_QUEUE, tag, Op::Write { extent, data, durability });
                });
            }
            PathOp::Read { tag, block } => self.with(ctx, session, |it, now| {
                it.commands.insert(tag, Command::Read);
                let extent = Extent::new(place(block), 1);
                it.machine.submit(now, IO_QUEUE, tag, Op::Read { extent });
            }),
        }
    }

    fn connect(
        &mut self,
        ctx: &mut Ctx<'_>,
        node: NodeId,
        session: u64,
        volume: VolumeId,
        epoch: Epoch,
    ) {
        let config = Config {
            host_nqn: host_nqn(self.host),
            host_id: *self.host.0.as_bytes(),
            subsystem_nqn: volume.nqn(),
            io_queues: 1,
            entries: 16,
            digests: Digests { header: true, data: true },
            keep_alive: KEEP_ALIVE,
            command_timeout: COMMAND_TIMEOUT,
            attach_timeout: ATTACH_TIMEOUT,
        };
        let (machine, commands) = (Session::new(config), BTreeMap::new());
        let it = PathSession { machine, node, volume, epoch, commands, is_heard: true };
        // One that was given up is closed, and not answered any more.
        let is_old = |(_, old): &(&u64, &PathSession)| {
            (old.node, old.volume, old.epoch) == (node, volume, epoch)
        };
        let old = self.sessions.iter().filter(is_old);
        for old in old.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.with(ctx, old, |it, _| it.machine.stop());
            self.sessions.remove(&old);
        }
        self.sessions.insert(session, it);
        self.with(ctx, session, |it, now| it.machine.connect(now));
    }

    /// Lets one session act, and does what it wants.
    fn with(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u64,
        act: impl FnOnce(&mut PathSession, Duration),
    ) {
        let Some(it) = self.sessions.get_mut(&number) else { return };
        act(it, now(ctx));
        while let Some(out) = self.sessions.get_mut(&number).and_then(|it| it.machine.poll()) {
            self.says(ctx, number, out);
        }
    }

    fn says(&mut self, ctx: &mut Ctx<'_>, number: u64, out: Out) {
        let Some(it) = self.sessions.get_mut(&number) else { return };
        match out {
            Out::Open { queue } => {
                self.streams.dial(ctx, Party::Node(it.node), (number, queue));
            }
            Out::Send { queue, outgoing } => {
                self.streams.send((number, queue), outgoing.pieces(0));
                it.machine.recycle(outgoing);
            }
            Out::Close { queue } => {
                self.streams.close(ctx, (number, queue));
            }
            Out::Ready(attached) => {
                // The name is the volume's, whoever serves it: the number tells the epoch.
                let (first, count) = model::controller_range(it.epoch.0);
                let is_of = attached.cntlid >= first && attached.cntlid - first < count;
                if is_of {
                    self.reply(number, PathResult::Connected);
                } else {
                    it.machine.stop();
                    self.reply(number, PathResult::Refused);
                }
            }
            Out::Done { tag, result } => self.done(ctx, number, tag, result),
            Out::Event(_) => {}
            Out::Dead { reason } => {
                let host = self.host;
                ctx.note(|| format!("{}: session {number}, {reason:?}", names::label(host.0)));
                let result = match reason {
                    Reason::Refused { .. } | Reason::Unfit { .. } => PathResult::Refused,
                    _ => PathResult::Closed,
                };
                if reason != Reason::Stopped {
                    self.reply(number, result);
                }
                self.sessions.remove(&number);
            }
        }
    }

    fn done(&mut self, ctx: &Ctx<'_>, number: u64, tag: u64, result: Result<Reply, Status>) {
        let Some(it) = self.sessions.get_mut(&number) else { return };
        let Some(command) = it.commands.remove(&tag) else { return };
        let result = match (command, result) {
            (Command::Write, Ok(_)) => PathResult::Wrote { tag },
            (Command::WriteBeforeFlush, Ok(_)) => {
                it.commands.insert(tag, Command::Write);
                it.machine.submit(now(ctx), IO_QUEUE, tag, Op::Flush);
                return;
            }
            (Command::Read, Ok(Reply::Data(data))) => {
                PathResult::Value { tag, value: value(data.bytes()) }
            }
            (Command::Write | Command::WriteBeforeFlush, Err(status))
                if status.code == Code::CapacityExceeded =>
            {
                PathResult::NoSpace { tag }
            }
            // Tried again on another session.
            (Command::Read, Ok(Reply::Done)) | (_, Err(_)) => {
                it.machine.stop();
                PathResult::Closed
            }
        };
        self.reply(number, result);
    }

    fn reply(&mut self, session: u64, result: PathResult) {
        if let Some(PathSession { node, volume, .. }) = self.sessions.get(&session) {
            self.replies.push((*node, PathReply { session, volume: *volume, result }));
        }
    }
}

/// As hosts register.
pub(crate) fn host_nqn(host: HostId) -> String {
    format!("nqn.2026-01.holdfast:{}", names::label(host.0))
}
