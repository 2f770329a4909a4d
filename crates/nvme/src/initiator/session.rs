//! The session: an admin queue and I/O queues to one controller, from connecting to the end.

use alloc::{collections::VecDeque, string::String, vec::Vec};
use core::time::Duration;

use super::{
    attach::{Attached, Step, Unfit},
    command,
    queue::{Broken, Completed, Data, Queue},
};
use crate::{
    frame::Digests,
    limits,
    op::{Op, Reply},
    outgoing::Outgoing,
    reservation::HostId,
    status::{Code, Status},
    wire::{
        command::{Sqe, admin},
        fabrics::{ANY_CONTROLLER, ConnectData},
        log::Ana,
    },
};

#[derive(Clone, Debug)]
pub struct Config {
    pub host_nqn: String,
    pub host_id: HostId,
    pub subsystem_nqn: String,
    /// I/O queues to ask for.
    pub io_queues: u16,
    /// Commands at once on each of them.
    pub entries: u16,
    pub digests: Digests,
    /// The target drops us when it has not heard of us for so long. Zero for never.
    pub keep_alive: Duration,
    /// A command that takes longer ends the session.
    pub command_timeout: Duration,
    /// A target that is silent for so long while we attach is left. One that answers, if slowly, is
    /// not, for it would have it all before it again: that ends only with `command_timeout`.
    pub attach_timeout: Duration,
}

/// What the caller must do, or hear.
#[derive(Debug)]
pub enum Out {
    /// Open a connection for this queue and say so by `opened`, or by `closed` if that fails.
    Open {
        queue: u16,
    },
    /// Send all of it, in order.
    Send {
        queue: u16,
        outgoing: Outgoing,
    },
    /// Close the connection when what was to be sent is sent.
    Close {
        queue: u16,
    },
    /// Operations may be submitted.
    Ready(Attached),
    /// An operation is over. `HostPath` if it was lost: it may have happened or not.
    Done {
        tag: u64,
        result: Result<Reply, Status>,
    },
    Event(Event),
    /// The session is over; every operation was answered before this.
    Dead {
        reason: Reason,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The namespace has so many blocks now.
    Resized {
        blocks: u64,
    },
    Ana(Ana),
    /// A reservation notice of this kind was logged.
    Reservation {
        kind: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `Session::stop` was called.
    Stopped,
    ConnectionLost {
        queue: u16,
    },
    CommandTimeout {
        queue: u16,
    },
    AttachTimeout,
    /// The target broke the rules of the transport.
    Protocol {
        queue: u16,
        fes: u16,
    },
    /// The target says that we did.
    Terminated {
        queue: u16,
        fes: u16,
    },
    /// A command of attaching failed.
    Refused {
        status: Status,
    },
    /// The target cannot be worked with.
    Unfit {
        why: &'static str,
    },
}

/// Who waits for a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    Attach(Step),
    /// The Connect of an I/O queue.
    Connect,
    /// A caller, who must get exactly so many bytes, if any.
    Caller {
        tag: u64,
        exact: Option<usize>,
    },
    KeepAlive,
    Event,
    /// A log was read because of an event.
    Log(u8),
    /// The namespace is looked at again.
    Refresh,
}

#[derive(Debug, Default)]
struct Lane {
    queue: Option<Queue<Owner>>,
    is_connecting: bool,
    is_connected: bool,
    /// Operations that wait for room in the queue.
    backlog: VecDeque<(u64, Op)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// `until` it must say something more, and be done by `end`.
    Attaching {
        until: Duration,
        end: Duration,
    },
    Live,
    Dead,
}

/// How long to wait before asking again whether the controller is ready.
const READY_AGAIN: Duration = Duration::from_millis(20);
/// How often commands are looked at for their age, as a part of the time-out.
const LOOKS: u32 = 8;
const ADMIN: u16 = 0;
const ADMIN_ENTRIES: u16 = 32;
/// One request for events, one keep-alive, and for each kind of event a log and what follows.
const ADMIN_KEPT: usize = 8;

#[derive(Debug)]
pub struct Session {
    config: Config,
    state: State,
    pub(super) attached: Attached,
    /// By queue number.
    lanes: Vec<Lane>,
    pub(super) outs: VecDeque<Out>,
    now: Duration,
    ready_again: Option<Duration>,
    keep_alive_due: Duration,
    next_look: Duration,
    spare: Vec<Outgoing>,
    /// Kept for its memory.
    over: Vec<Completed<Owner>>,
}

impl Session {
    pub fn new(config: Config) -> Self {
        let entries = config.entries.clamp(2, limits::QUEUE_ENTRIES);
        let io_queues = config.io_queues.clamp(1, limits::IO_QUEUES);
        let lanes = core::iter::repeat_with(Lane::default).take(usize::from(io_queues) + 1);
        Self {
            state: State::Idle,
            attached: Attached::with_queues(io_queues),
            lanes: lanes.collect(),
            outs: VecDeque::new(),
            now: Duration::ZERO,
            ready_again: None,
            keep_alive_due: Duration::ZERO,
            next_look: Duration::ZERO,
            spare: Vec::new(),
            over: Vec::new(),
            config: Config { io_queues, entries, ..config },
        }
    }

    pub fn is_live(&self) -> bool {
        self.state == State::Live
    }

    /// What was found, once it is live.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    /// Begins.
    pub fn connect(&mut self, now: Duration) {
        if self.state == State::Idle {
            self.now = now;
            let Config { attach_timeout, command_timeout, .. } = self.config;
            let end = now + attach_timeout.max(command_timeout);
            self.state = State::Attaching { until: now + attach_timeout, end };
            self.outs.push_back(Out::Open { queue: ADMIN });
        }
    }

    /// The connection for this queue is open.
    pub fn opened(&mut self, now: Duration, queue: u16) {
        self.now = now;
        self.move_on();
        let entries = if queue == ADMIN { ADMIN_ENTRIES } else { self.config.entries };
        let digests = self.config.digests;
        if matches!(self.state, State::Attaching { .. })
            && let Some(lane) = self.lanes.get_mut(usize::from(queue))
        {
            lane.queue = Some(Queue::new(digests, entries));
        }
    }

    /// The connection is gone, or could not be opened.
    pub fn closed(&mut self, queue: u16) {
        self.die(Reason::ConnectionLost { queue });
    }

    /// Ends the session.
    pub fn stop(&mut self) {
        self.die(Reason::Stopped);
    }

    /// Bytes came.
    pub fn receive(&mut self, now: Duration, queue: u16, bytes: &[u8]) {
        self.now = now;
        self.move_on();
        let mut over = core::mem::take(&mut self.over);
        let Some(lane) = self.lanes.get_mut(usize::from(queue)) else { return };
        let Some(received) = lane.queue.as_mut().map(|q| q.receive(bytes, &mut over)) else {
            return;
        };
        for completed in over.drain(..) {
            self.completed(queue, completed);
        }
        self.over = over;
        match received {
            Ok(()) => self.greet(queue),
            Err(Broken::Terminated { fes }) => self.die(Reason::Terminated { queue, fes }),
            Err(Broken::Fault(fault)) => {
                self.say_goodbye(queue);
                self.die(Reason::Protocol { queue, fes: fault.fes.number() });
            }
        }
        self.unload(queue);
    }

    /// Asks for an operation on an I/O queue; one of our own goes to the admin queue whatever is
    /// said here. `Out::Done` follows, if only to say that it could not be tried.
    pub fn submit(&mut self, now: Duration, queue: u16, tag: u64, op: Op) {
        self.now = now;
        let queue = if matches!(op, Op::Vendor(_)) { ADMIN } else { queue };
        let is_there = queue <= self.attached.io_queues;
        if self.state != State::Live || !is_there {
            let result = Err(Code::HostPath.into());
            self.outs.push_back(Out::Done { tag, result });
            return;
        }
        let Some(lane) = self.lanes.get_mut(usize::from(queue)) else { return };
        match lane.queue.as_mut() {
            Some(open) if lane.backlog.is_empty() && open.has_room(kept(queue)) => {
                if let Err(status) = send(open, &self.attached, self.now, queue, tag, op) {
                    self.outs.push_back(Out::Done { tag, result: Err(status) });
                }
            }
            _ => {
                lane.backlog.push_back((tag, op));
                self.unload(queue);
            }
        }
    }

    /// Time has passed: silence is broken, and what takes too long ends the session.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
        match self.state {
            State::Attaching { until, .. } if until <= now => {
                return self.die(Reason::AttachTimeout);
            }
            State::Idle | State::Dead => return,
            State::Attaching { .. } | State::Live => {}
        }
        if self.ready_again.is_some_and(|at| at <= now) {
            self.ready_again = None;
            self.step(Step::Ready);
        }
        if self.next_look <= now {
            self.look();
        }
        for queue in self.lanes.iter_mut().filter_map(|lane| lane.queue.as_mut()) {
            queue.buffers.rest();
        }
        if self.state == State::Live && self.keeps_alive() && self.keep_alive_due <= now {
            self.keep_alive_due = now + self.config.keep_alive / 2;
            self.admin(Owner::KeepAlive, Sqe::new(admin::KEEP_ALIVE), Data::None);
        }
    }

    /// When `tick` is needed next.
    pub fn next_deadline(&self) -> Option<Duration> {
        let until = match self.state {
            State::Idle | State::Dead => return None,
            State::Attaching { until, .. } => Some(until),
            State::Live => self.keeps_alive().then_some(self.keep_alive_due),
        };
        let is_busy = self.lanes.iter().filter_map(|lane| lane.queue.as_ref()).any(Queue::is_busy);
        let look = is_busy.then_some(self.next_look);
        [until, self.ready_again, look].into_iter().flatten().min()
    }

    /// What is to be done next, until there is nothing.
    pub fn poll(&mut self) -> Option<Out> {
        if let Some(out) = self.outs.pop_front() {
            return Some(out);
        }
        for (number, lane) in (0u16..).zip(&mut self.lanes) {
            let Some(queue) = lane.queue.as_mut().filter(|queue| !queue.outgoing.is_empty()) else {
                continue;
            };
            let empty = self.spare.pop().unwrap_or_default();
            let outgoing = core::mem::replace(&mut queue.outgoing, empty);
            return Some(Out::Send { queue: number, outgoing });
        }
        None
    }

    /// Hands back a batch that was sent, for its memory.
    pub fn recycle(&mut self, mut outgoing: Outgoing) {
        if self.spare.len() < self.lanes.len() * 2 {
            outgoing.clear();
            self.spare.push(outgoing);
        }
    }

    /// The target does something.
    fn move_on(&mut self) {
        if let State::Attaching { until, end } = &mut self.state {
            *until = (self.now + self.config.attach_timeout).min(*end);
        }
    }

    fn keeps_alive(&self) -> bool {
        !self.config.keep_alive.is_zero()
    }

    /// Looks for a command that takes too long.
    fn look(&mut self) {
        let timeout = self.config.command_timeout;
        self.next_look = self.now + timeout / LOOKS;
        let limit = self.now.checked_sub(timeout);
        let is_late = |lane: &Lane| {
            let oldest = lane.queue.as_ref().and_then(Queue::oldest);
            oldest.zip(limit).is_some_and(|(oldest, limit)| oldest <= limit)
        };
        let late = (0u16..).zip(&self.lanes).find(|(_, lane)| is_late(lane));
        if let Some((queue, _)) = late {
            self.die(Reason::CommandTimeout { queue });
        }
    }

    /// A queue that can be spoken on for the first time is connected.
    fn greet(&mut self, number: u16) {
        let entries = if number == ADMIN { ADMIN_ENTRIES } else { self.config.entries };
        let (cntlid, owner) = match number {
            ADMIN => (ANY_CONTROLLER, Owner::Attach(Step::Connect)),
            _ => (self.attached.cntlid, Owner::Connect),
        };
        let Some(lane) = self.lanes.get_mut(usize::from(number)) else { return };
        let Some(queue) = lane.queue.as_mut().filter(|queue| queue.is_open()) else { return };
        if lane.is_connecting {
            return;
        }
        lane.is_connecting = true;
        let config = &self.config;
        let data =
            ConnectData::new(config.host_id, cntlid, &config.subsystem_nqn, &config.host_nqn);
        let keep_alive = u32::try_from(config.keep_alive.as_millis()).unwrap_or(u32::MAX);
        let (sqe, data) = command::connect(number, entries, keep_alive, &data);
        queue.submit(owner, sqe, data, Some(self.now));
        if number != ADMIN {
            queue.inline_max = self.attached.inline_max;
        }
    }

    /// Sends as much of the backlog as there is room for.
    fn unload(&mut self, number: u16) {
        let Some(lane) = self.lanes.get_mut(usize::from(number)) else { return };
        let Some(queue) = lane.queue.as_mut() else { return };
        if self.state != State::Live {
            return;
        }
        while queue.has_room(kept(number))
            && let Some((tag, op)) = lane.backlog.pop_front()
        {
            if let Err(status) = send(queue, &self.attached, self.now, number, tag, op) {
                self.outs.push_back(Out::Done { tag, result: Err(status) });
            }
        }
    }

    /// A command of our own on the admin queue. If there is no room the session is at its end
    /// anyway: no more than a few of them are ever under way.
    pub(super) fn admin(&mut self, owner: Owner, sqe: Sqe, data: Data) {
        let started = (!matches!(owner, Owner::Event)).then_some(self.now);
        let queue = self.lanes.first_mut().and_then(|lane| lane.queue.as_mut());
        if let Some(queue) = queue.filter(|queue| queue.has_room(0)) {
            queue.submit(owner, sqe, data, started);
        }
    }

    fn completed(&mut self, number: u16, completed: Completed<Owner>) {
        let Completed { owner, result } = completed;
        match (owner, result) {
            (Owner::Caller { tag, exact }, result) => {
                let result = result.and_then(|(_, data)| reply(data, exact));
                self.outs.push_back(Out::Done { tag, result });
            }
            (Owner::Attach(step), Ok((cqe, data))) => {
                match self.attached.learn(step, &cqe, data.as_ref()) {
                    Ok(Some(Step::Ready)) if step == Step::Ready => {
                        self.ready_again = Some(self.now + READY_AGAIN);
                    }
                    Ok(Some(next)) => self.step(next),
                    Ok(None) => self.go_live(),
                    Err(Unfit(why)) => self.die(Reason::Unfit { why }),
                }
            }
            (Owner::Connect, Ok(_)) => self.io_connected(number),
            (Owner::Attach(_) | Owner::Connect, Err(status)) => {
                self.die(Reason::Refused { status });
            }
            (Owner::Event, Ok((cqe, _))) => self.heard(cqe.value()),
            (Owner::Log(log), Ok((_, data))) => self.read_log(log, data.as_ref()),
            (Owner::Refresh, Ok((_, data))) => self.refreshed(data.as_ref()),
            // A controller that will not be kept alive, or tells of no events, shows it in time by
            // other means.
            (Owner::KeepAlive, _) | (Owner::Event | Owner::Log(_) | Owner::Refresh, Err(_)) => {}
        }
    }

    fn step(&mut self, step: Step) {
        if step == Step::IoQueues {
            for queue in 1..=self.attached.io_queues {
                self.outs.push_back(Out::Open { queue });
            }
            return;
        }
        if let Some((sqe, data)) = step.command(&self.attached, self.config.io_queues) {
            self.admin(Owner::Attach(step), sqe, data);
        }
    }

    fn io_connected(&mut self, number: u16) {
        if let Some(lane) = self.lanes.get_mut(usize::from(number)) {
            lane.is_connected = true;
        }
        let wanted = self.lanes.iter().skip(1).take(usize::from(self.attached.io_queues));
        if wanted.into_iter().all(|lane| lane.is_connected) {
            self.step(Step::List);
        }
    }

    fn go_live(&mut self) {
        self.state = State::Live;
        self.keep_alive_due = self.now + self.config.keep_alive / 2;
        self.next_look = self.now + self.config.command_timeout / LOOKS;
        self.outs.push_back(Out::Ready(self.attached.clone()));
        self.listen();
    }

    fn say_goodbye(&mut self, number: u16) {
        let lane = self.lanes.get_mut(usize::from(number));
        if let Some(queue) = lane.and_then(|lane| lane.queue.as_mut()) {
            let outgoing = queue.goodbye();
            self.outs.push_back(Out::Send { queue: number, outgoing });
        }
    }

    fn die(&mut self, reason: Reason) {
        if self.state == State::Dead {
            return;
        }
        self.state = State::Dead;
        for (number, lane) in (0u16..).zip(&mut self.lanes) {
            let lane = core::mem::take(lane);
            let is_open = lane.queue.is_some();
            let owners = lane.queue.into_iter().flat_map(Queue::into_owners);
            let sent = owners.filter_map(|owner| match owner {
                Owner::Caller { tag, .. } => Some(tag),
                _ => None,
            });
            let waiting = lane.backlog.into_iter().map(|(tag, _)| tag);
            let lost = sent.chain(waiting);
            let result = || Err(Code::HostPath.into());
            self.outs.extend(lost.map(|tag| Out::Done { tag, result: result() }));
            // The one that broke is closed already.
            if is_open && reason != (Reason::ConnectionLost { queue: number }) {
                self.outs.push_back(Out::Close { queue: number });
            }
        }
        self.outs.push_back(Out::Dead { reason });
    }
}

/// Callers' commands never keep our own from the admin queue.
const fn kept(queue: u16) -> usize {
    if queue == ADMIN { ADMIN_KEPT } else { 0 }
}

/// Sends an operation on a queue that has room, or tells why it is none.
fn send(
    queue: &mut Queue<Owner>,
    attached: &Attached,
    now: Duration,
    number: u16,
    tag: u64,
    op: Op,
) -> Result<(), Status> {
    let (sqe, data) = command::encode(op, attached)?;
    let is_read = sqe.opcode == crate::wire::command::io::READ && number != ADMIN;
    let exact = match &data {
        Data::In(bytes) if is_read => Some(*bytes),
        _ => None,
    };
    queue.submit(Owner::Caller { tag, exact }, sqe, data, Some(now));
    Ok(())
}

/// The data of a read must be whole.
fn reply(data: Option<block::Buffer>, exact: Option<usize>) -> Result<Reply, Status> {
    let came = data.as_ref().map_or(0, block::Buffer::len);
    if exact.is_some_and(|exact| exact != came) {
        return Err(Code::DataTransferError.into());
    }
    Ok(data.map_or(Reply::Done, Reply::Data))
}
