//! A volume in use: commands in, answers out, and another path when one is lost.
//!
//! A command without an answer is sent again on the next connection. That is right because a target
//! serialises what overlaps, and because nothing overlapping is submitted here before the answer.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use block::Buffer;
use nvme::{
    Code, Op, Reply, Status,
    initiator::{Attached, Config, Event, Out, Reason, Session},
};
use uring::{Chunk, Completion, Outcome, Reactor, Socket, Waker};

use crate::{
    options::{GiveUp, Lost, Options, PathState},
    uri::Uri,
};

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no reactor can be had")]
    Reactor(#[from] uring::StartError),
    #[error("input or output failed")]
    Io(#[from] std::io::Error),
    #[error("no path to {uri} worked for {waited:?}; the last one: {reason}")]
    NoPath { uri: Uri, waited: Duration, reason: String },
    #[error("the device is gone: {reason}")]
    DeviceGone { reason: String },
    #[error("the volume has {is} blocks now, it had {was}")]
    Shrunk { was: u64, is: u64 },
}

/// An answer.
#[derive(Debug)]
pub struct Done {
    pub tag: u64,
    pub result: Result<Reply, Status>,
    pub took: Duration,
}

#[derive(Debug)]
pub struct Client {
    uri: Uri,
    options: Options,
    reactor: Reactor,
    began: Instant,
    path: Path,
    /// Which address is next.
    turn: usize,
    /// Addresses in a row that were reached and did not answer in time.
    silent: usize,
    ticked_at: Instant,
    /// Since when no path works.
    lost_at: Option<Instant>,
    /// How this path was lost; `None` while it is tried for the first time, and while it works.
    lost: Option<(Lost, Instant)>,
    reason: String,
    attached: Option<Attached>,
    /// Not answered yet, and when they were submitted.
    open: BTreeMap<u64, (Op, Instant)>,
    /// Answers that nobody has taken.
    done: VecDeque<Done>,
    /// Which queue is next.
    lane: u16,
    /// Tokens of earlier paths are not ours any more.
    round: u64,
    pub switches: u64,
    /// Commands that a target has answered.
    pub answers: u64,
    completions: Vec<Completion>,
    /// Of operations that somebody else has on this reactor.
    foreign: Vec<Completion>,
}

#[derive(Debug)]
enum Path {
    /// Until then no address is tried.
    Waiting {
        until: Instant,
    },
    Up(Box<Link>),
}

#[derive(Debug)]
struct Link {
    session: Session,
    to: SocketAddr,
    queues: BTreeMap<u16, Queue>,
    dialled_at: Instant,
    /// When anything came from the other side.
    heard_at: Instant,
    is_silent: bool,
}

#[derive(Debug, Default)]
struct Queue {
    socket: Option<Socket>,
    outgoing: Vec<Chunk>,
    is_sending: bool,
}

impl Link {
    fn is_silent_at(&self, now: Instant) -> bool {
        match self.unreached_until() {
            Some(until) => until <= now,
            None => {
                self.session.is_live() && now.saturating_duration_since(self.heard_at) >= SILENCE
            }
        }
    }

    /// A connection that does not come about is begun anew, however patient we are with answers:
    /// the kernel itself asks ever less often on a net that is cut.
    fn unreached_until(&self) -> Option<Instant> {
        let is_reached = self.queues.values().any(|queue| queue.socket.is_some());
        (!is_reached).then_some(self.dialled_at + ATTACH_TIMEOUT)
    }
}

/// Marks tokens that are not the client's own.
const FOREIGN: u64 = 1 << 63;
const RETRY: Duration = Duration::from_millis(20);
/// What is away for longer than `EAGER` is tried less often.
const RETRY_LATER: Duration = Duration::from_millis(250);
const EAGER: Duration = Duration::from_secs(5);
const RECEIVE: usize = 256 * 1024;
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
const ATTACH_TIMEOUT: Duration = Duration::from_secs(2);
/// Whoever needs longer for one answer would be lost as silent right after attaching.
const ATTACH_TIMEOUT_MAX: Duration = Duration::from_secs(8);
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Keep-alives go out twice in their time, and each is answered: whoever says nothing for all of it
/// is not there, whatever the commands under way may still take.
const SILENCE: Duration = KEEP_ALIVE;
/// Whoever did not listen for so long has no right to call the other side silent.
const AWAY: Duration = Duration::from_millis(3_750);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Connect,
    Receive,
    Send,
}

impl Client {
    /// Returns when the volume can be used.
    pub fn connect(uri: &Uri, options: Options) -> Result<Self, ClientError> {
        let mut client = Self::open(&uri.nqn, options)?;
        client.follow(uri.addresses.clone());
        while client.lost_at.is_some() {
            client.turn(None)?;
        }
        Ok(client)
    }

    /// Without a path: `follow` names one.
    pub fn open(nqn: &str, options: Options) -> Result<Self, ClientError> {
        let now = Instant::now();
        Ok(Self {
            uri: Uri { addresses: Vec::new(), nqn: nqn.into() },
            reactor: Reactor::new(options.backend)?,
            options,
            began: now,
            path: Path::Waiting { until: now },
            turn: 0,
            silent: 0,
            ticked_at: now,
            lost_at: Some(now),
            lost: None,
            reason: "none was tried".into(),
            attached: None,
            open: BTreeMap::new(),
            done: VecDeque::new(),
            lane: 0,
            round: 0,
            switches: 0,
            answers: 0,
            completions: Vec::new(),
            foreign: Vec::new(),
        })
    }

    /// The volume is served there from now on: whatever has no answer is sent there.
    pub fn follow(&mut self, addresses: Vec<SocketAddr>) {
        if let Path::Up(link) = &mut self.path {
            link.session.stop();
            self.poll();
        }
        self.uri.addresses = addresses;
        (self.turn, self.silent) = (0, 0);
        self.lost = None;
        self.path = Path::Waiting { until: Instant::now() };
    }

    pub fn state(&self) -> PathState {
        match (self.lost_at, self.lost) {
            (None, _) => PathState::Live,
            (Some(_), None) => PathState::Connecting,
            (Some(_), Some((why, since))) => PathState::Lost { why, since },
        }
    }

    /// Ends a `step` from another thread.
    pub fn waker(&self) -> Waker {
        self.reactor.waker()
    }

    pub fn attached(&self) -> &Attached {
        self.attached.as_ref().expect("connect returns when it is attached")
    }

    pub fn blocks(&self) -> u64 {
        self.attached().blocks
    }

    pub fn address(&self) -> Option<SocketAddr> {
        match &self.path {
            Path::Up(link) => Some(link.to),
            Path::Waiting { .. } => None,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.open.len()
    }

    pub fn submit(&mut self, tag: u64, op: Op) {
        self.open.insert(tag, (op.clone(), Instant::now()));
        self.send(tag, op);
    }

    fn send(&mut self, tag: u64, op: Op) {
        let now = self.began.elapsed();
        if let Path::Up(link) = &mut self.path
            && link.session.is_live()
        {
            self.lane = self.lane % link.session.attached().io_queues + 1;
            link.session.submit(now, self.lane, tag, op);
        }
    }

    /// Has the reactor do something else, too; `token` below 2^63. See `step`.
    pub fn submit_io(&mut self, token: u64, op: uring::Op) {
        self.reactor.submit(token | FOREIGN, op);
    }

    /// Returns when anything happened: an answer, a completion, the waker, or nothing but time.
    pub fn step(
        &mut self,
        done: &mut Vec<Done>,
        completions: &mut Vec<Completion>,
    ) -> Result<(), ClientError> {
        self.poll();
        if self.done.is_empty() && self.foreign.is_empty() {
            self.turn(None)?;
        }
        done.extend(self.done.drain(..));
        completions.append(&mut self.foreign);
        Ok(())
    }

    /// Waits for at least one answer, or for the time. Answers come in `done`.
    pub fn wait(
        &mut self,
        done: &mut Vec<Done>,
        until: Option<Instant>,
    ) -> Result<(), ClientError> {
        loop {
            self.poll();
            done.extend(self.done.drain(..));
            if !done.is_empty() || until.is_some_and(|until| until <= Instant::now()) {
                return Ok(());
            }
            self.turn(until)?;
        }
    }

    /// Waits until nothing is under way any more, whatever becomes of it: a workload that gave up
    /// leaves commands behind, and their answers are none of the next one's.
    pub fn settle(&mut self) -> Result<(), ClientError> {
        while !self.open.is_empty() {
            self.turn(None)?;
        }
        self.done.clear();
        Ok(())
    }

    /// One command, and its answer.
    pub fn run(&mut self, op: Op) -> Result<Result<Reply, Status>, ClientError> {
        const TAG: u64 = u64::MAX;
        self.submit(TAG, op);
        let mut done = Vec::new();
        loop {
            self.wait(&mut done, None)?;
            if let Some(at) = done.iter().position(|done| done.tag == TAG) {
                let ours = done.swap_remove(at);
                self.done.extend(done);
                return Ok(ours.result);
            }
        }
    }

    /// What the kernel has, and what follows from it.
    fn turn(&mut self, until: Option<Instant>) -> Result<(), ClientError> {
        self.poll();
        let deadline = self.deadline();
        let until = [until, deadline].into_iter().flatten().min();
        let mut completions = std::mem::take(&mut self.completions);
        self.reactor.wait(&mut completions, until)?;
        for mut completion in completions.drain(..) {
            if completion.token & FOREIGN == 0 {
                self.completed(completion);
            } else {
                completion.token &= !FOREIGN;
                self.foreign.push(completion);
            }
        }
        self.completions = completions;
        self.tick()?;
        self.poll();
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.path {
            Path::Waiting { until } => Some(*until),
            Path::Up(link) => {
                let session = link.session.next_deadline().map(|at| self.began + at);
                let silent = link.session.is_live().then_some(link.heard_at + SILENCE);
                [session, silent, link.unreached_until()].into_iter().flatten().min()
            }
        }
    }

    fn tick(&mut self) -> Result<(), ClientError> {
        let now = Instant::now();
        let was_away = now.duration_since(self.ticked_at) > AWAY;
        self.ticked_at = now;
        if let Path::Up(link) = &mut self.path
            && was_away
        {
            link.heard_at = now;
        }
        if let Some(lost_at) = self.lost_at
            && now.duration_since(lost_at) > self.options.patience
        {
            match self.options.give_up {
                GiveUp::End => {
                    let (uri, reason) = (self.uri.clone(), self.reason.clone());
                    return Err(ClientError::NoPath { uri, waited: self.options.patience, reason });
                }
                GiveUp::FailCommands => self.fail_all(),
            }
        }
        match &mut self.path {
            Path::Waiting { until } if *until <= now => self.dial(),
            Path::Waiting { .. } => {}
            Path::Up(link) if link.is_silent_at(now) => {
                link.is_silent = true;
                link.session.stop();
            }
            Path::Up(link) => {
                let now = now.duration_since(self.began);
                if link.session.next_deadline().is_some_and(|at| at <= now) {
                    link.session.tick(now);
                }
            }
        }
        Ok(())
    }

    fn fail_all(&mut self) {
        for (tag, (_, at)) in std::mem::take(&mut self.open) {
            let result = Err(Code::HostPath.into());
            self.done.push_back(Done { tag, result, took: at.elapsed() });
        }
    }

    fn dial(&mut self) {
        if self.uri.addresses.is_empty() {
            self.path = Path::Waiting { until: Instant::now() + RETRY_LATER };
            return;
        }
        let to = self.uri.addresses[self.turn % self.uri.addresses.len()];
        self.turn += 1;
        self.round += 1;
        let options = &self.options;
        let mut session = Session::new(Config {
            host_nqn: options.host_nqn.clone(),
            host_id: *options.host_id.as_bytes(),
            subsystem_nqn: self.uri.nqn.clone(),
            io_queues: options.io_queues,
            entries: options.entries,
            digests: options.digests,
            keep_alive: KEEP_ALIVE,
            command_timeout: COMMAND_TIMEOUT,
            attach_timeout: attach_timeout(self.silent / self.uri.addresses.len()),
        });
        session.connect(self.began.elapsed());
        self.path = Path::Up(Box::new(Link {
            session,
            to,
            queues: BTreeMap::new(),
            dialled_at: Instant::now(),
            heard_at: Instant::now(),
            is_silent: false,
        }));
    }

    fn completed(&mut self, completion: Completion) {
        let Some((kind, queue)) = unpack(completion.token, self.round) else { return };
        let now = self.began.elapsed();
        let token = |kind| pack(kind, self.round, queue);
        let Path::Up(link) = &mut self.path else { return };
        match (kind, completion.outcome) {
            (Kind::Connect, Outcome::Connected(Ok(socket))) => {
                let buffer = Buffer::zeroed(RECEIVE);
                let op = uring::Op::Receive { socket: socket.clone(), buffer, at: 0 };
                self.reactor.submit(token(Kind::Receive), op);
                link.queues.entry(queue).or_default().socket = Some(socket);
                link.session.opened(now, queue);
            }
            (Kind::Connect, Outcome::Connected(Err(error))) => {
                self.reason = format!("{}: {error}", link.to);
                link.session.closed(queue);
            }
            (Kind::Receive, Outcome::Received { buffer, result: Ok(len) }) if len > 0 => {
                link.heard_at = Instant::now();
                link.session.receive(now, queue, &buffer.bytes()[..len]);
                if let Some(socket) = link.queues.get(&queue).and_then(|q| q.socket.clone()) {
                    let op = uring::Op::Receive { socket, buffer, at: 0 };
                    self.reactor.submit(token(Kind::Receive), op);
                }
            }
            (Kind::Receive, _) => link.session.closed(queue),
            (Kind::Send, Outcome::Sent { result, .. }) => {
                if let Some(entry) = link.queues.get_mut(&queue) {
                    entry.is_sending = false;
                }
                if result.is_err() {
                    link.session.closed(queue);
                }
            }
            _ => {}
        }
    }

    fn poll(&mut self) {
        loop {
            let Path::Up(link) = &mut self.path else { return };
            let Some(out) = link.session.poll() else { break };
            match out {
                Out::Open { queue } => {
                    let token = pack(Kind::Connect, self.round, queue);
                    self.reactor.submit(token, uring::Op::Connect { to: link.to });
                }
                Out::Send { queue, outgoing } => {
                    let entry = link.queues.entry(queue).or_default();
                    entry.outgoing.extend(outgoing.shared().map(Chunk::from));
                    link.session.recycle(outgoing);
                }
                Out::Close { queue } => {
                    if let Some(socket) = link.queues.get(&queue).and_then(|q| q.socket.as_ref()) {
                        socket.close();
                    }
                }
                Out::Ready(attached) => self.ready(attached),
                Out::Done { tag, result } => self.answered(tag, result),
                Out::Event(Event::Resized { blocks }) => {
                    if let Some(attached) = &mut self.attached {
                        attached.blocks = blocks;
                    }
                }
                Out::Event(_) => {}
                Out::Dead { reason } => {
                    self.lose(reason);
                    return;
                }
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        let Path::Up(link) = &mut self.path else { return };
        for (number, queue) in &mut link.queues {
            if let Some(socket) = &queue.socket
                && !queue.is_sending
                && !queue.outgoing.is_empty()
            {
                queue.is_sending = true;
                let chunks = std::mem::take(&mut queue.outgoing);
                let op = uring::Op::Send { socket: socket.clone(), chunks };
                self.reactor.submit(pack(Kind::Send, self.round, *number), op);
            }
        }
    }

    fn ready(&mut self, attached: Attached) {
        self.switches += u64::from(self.attached.is_some());
        self.attached = Some(attached);
        self.silent = 0;
        self.lost_at = None;
        self.lost = None;
        let open: Vec<(u64, Op)> =
            self.open.iter().map(|(tag, (op, _))| (*tag, op.clone())).collect();
        for (tag, op) in open {
            self.send(tag, op);
        }
    }

    fn answered(&mut self, tag: u64, result: Result<Reply, Status>) {
        // What says something about the path says nothing about the command: it is sent again.
        if matches!(&result, Err(status) if status.is_path_related()) {
            if let Path::Up(link) = &mut self.path {
                link.session.stop();
            }
            return;
        }
        self.answers += 1;
        if let Some((_, at)) = self.open.remove(&tag) {
            self.done.push_back(Done { tag, result, took: at.elapsed() });
        }
    }

    fn lose(&mut self, reason: Reason) {
        let now = Instant::now();
        let was_silent = matches!(&self.path, Path::Up(link) if link.is_silent);
        self.silent = if reason == Reason::AttachTimeout { self.silent + 1 } else { 0 };
        if let Path::Up(link) = &self.path {
            if !matches!(reason, Reason::ConnectionLost { .. }) || self.lost_at.is_none() {
                self.reason = format!("{}: {reason:?}", link.to);
            }
            for queue in link.queues.values() {
                if let Some(socket) = &queue.socket {
                    socket.close();
                }
            }
        }
        // The first try on another path is at once; only a whole round without success waits.
        let is_round_over = self.turn.is_multiple_of(self.uri.addresses.len());
        let lost_at = *self.lost_at.get_or_insert(now);
        let pause = match is_round_over {
            false => Duration::ZERO,
            true if now.duration_since(lost_at) < EAGER => RETRY,
            true => RETRY_LATER,
        };
        let why = if was_silent { Lost::Silent } else { reason.into() };
        let (_, since) = self.lost.unwrap_or((why, now));
        self.lost = Some((why, since));
        self.path = Path::Waiting { until: now + pause };
    }
}

/// After so many rounds of silence. A target under load that is left half-way has the same work
/// before it again, and that of ending what it had begun: it is given more time each time.
fn attach_timeout(rounds: usize) -> Duration {
    let doubled = u32::try_from(rounds).ok().and_then(|rounds| 1u32.checked_shl(rounds));
    let grown = doubled.and_then(|times| ATTACH_TIMEOUT.checked_mul(times));
    grown.map_or(ATTACH_TIMEOUT_MAX, |grown| grown.min(ATTACH_TIMEOUT_MAX))
}

fn pack(kind: Kind, round: u64, queue: u16) -> u64 {
    let kind = match kind {
        Kind::Connect => 0,
        Kind::Receive => 1,
        Kind::Send => 2,
    };
    round << 18 | u64::from(queue) << 2 | kind
}

fn unpack(token: u64, round: u64) -> Option<(Kind, u16)> {
    let kind = match token & 3 {
        0 => Kind::Connect,
        1 => Kind::Receive,
        _ => Kind::Send,
    };
    let queue = u16::try_from(token >> 2 & 0xffff).ok()?;
    (token >> 18 == round).then_some((kind, queue))
}

#[cfg(test)]
mod tests;
