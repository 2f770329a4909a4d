//! What all connections of a port share. It cannot reach a connection: what must happen to one is
//! left as a `Later`, and the port does it when the bytes at hand are dealt with.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    vec::Vec,
};
use core::time::Duration;

use block::{Buffer, Buffers};

use super::{
    event,
    port::{ConnId, Out},
    session::{Session, SessionId, State},
    subsystem::{Exported, Hosts, Listen, SubsystemId},
};
use crate::{
    limits,
    op::Op,
    reservation::{Effects, HostId, Reservations},
    slab::Slab,
    status::{Code, Status},
};

#[derive(Debug)]
pub(crate) struct Core {
    pub subsystems: Slab<Exported>,
    pub sessions: Slab<Session>,
    pub listen: Vec<Listen>,
    /// Subsystems that live on other ports of the same listener.
    pub routes: BTreeMap<String, Route>,
    /// Counts changes of what the discovery service tells.
    pub discovery_changes: u64,
    pub next_discovery_cntlid: u16,
    pub now: Duration,
    pub buffers: Buffers,
    pub outs: VecDeque<Out>,
    pub later: Vec<Later>,
    /// Preempting commands that wait until these hosts' commands are over.
    pub quiet: Vec<Quiet>,
    /// Reservation commands that wait for the one being made durable.
    pub turns: VecDeque<(SubsystemId, ConnId, u16)>,
    pub persisting: Vec<Persisting>,
}

#[derive(Debug)]
pub(crate) struct Route {
    pub place: u32,
    pub hosts: Hosts,
}

#[derive(Debug)]
pub(crate) enum Later {
    Close(ConnId),
    /// Hand events to the requests that wait for them.
    Events(SessionId),
    /// Commands that end without an answer, because the controller was reset.
    Drop {
        conn: ConnId,
        slots: VecDeque<u16>,
    },
}

#[derive(Debug)]
pub(crate) struct Quiet {
    pub subsystem: SubsystemId,
    pub hosts: Vec<HostId>,
    pub conn: ConnId,
    pub slot: u16,
}

/// A change of reservations on its way to the disk.
#[derive(Debug)]
pub(crate) struct Persisting {
    pub subsystem: SubsystemId,
    pub conn: ConnId,
    pub slot: u16,
    pub effects: Effects,
    pub next: Reservations,
}

/// What a connection is to its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Connect has not come yet.
    Stranger,
    Admin(SessionId),
    Io(SessionId),
}

impl Role {
    pub(crate) fn session(self) -> Option<SessionId> {
        match self {
            Self::Stranger => None,
            Self::Admin(session) | Self::Io(session) => Some(session),
        }
    }
}

/// What becomes of a command.
#[derive(Debug)]
pub(crate) enum Answer {
    Now(Done),
    Ask {
        op: Op,
        reply_max: usize,
    },
    /// Until there is an event to tell of.
    Hold,
    /// Until the reservation command before it is durable.
    Turn {
        subsystem: SubsystemId,
    },
    /// Well done once this is durable.
    Persist {
        subsystem: SubsystemId,
        next: Reservations,
        effects: Effects,
    },
    /// Well done, and the connection is a queue from now on.
    Connected(Connected),
    /// Well done, and then the connection is closed.
    Disconnected,
    /// The subsystem lives on another port, which must answer.
    Elsewhere {
        place: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Connected {
    pub role: Role,
    pub qid: u16,
    pub cntlid: u16,
    pub entries: u16,
    pub has_flow_control: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Done {
    pub status: Option<Status>,
    pub value: u64,
    pub data: Option<Buffer>,
}

impl Answer {
    pub(crate) fn fine() -> Self {
        Self::Now(Done::default())
    }

    pub(crate) fn value(value: u64) -> Self {
        Self::Now(Done { value, ..Done::default() })
    }

    pub(crate) fn data(bytes: &[u8]) -> Self {
        Self::Now(Done { data: Some(Buffer::copy_of(bytes)), ..Done::default() })
    }
}

impl From<Status> for Answer {
    fn from(status: Status) -> Self {
        Self::Now(Done { status: Some(status), ..Done::default() })
    }
}

impl From<Code> for Answer {
    fn from(code: Code) -> Self {
        Self::from(Status::new(code))
    }
}

impl Core {
    pub(crate) fn new(listen: Vec<Listen>) -> Self {
        Self {
            subsystems: Slab::default(),
            sessions: Slab::default(),
            listen,
            routes: BTreeMap::new(),
            discovery_changes: 1,
            next_discovery_cntlid: 0,
            now: Duration::ZERO,
            buffers: Buffers::new(limits::REUSED_PORT),
            outs: VecDeque::new(),
            later: Vec::new(),
            quiet: Vec::new(),
            turns: VecDeque::new(),
            persisting: Vec::new(),
        }
    }

    pub(crate) fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id.0)
    }

    pub(crate) fn session_mut(&mut self, id: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(id.0)
    }

    /// The session of a role and the subsystem that it is of.
    pub(crate) fn exported(&self, id: SessionId) -> Option<(&Session, &Exported)> {
        let session = self.session(id)?;
        Some((session, self.subsystems.get(session.subsystem?.0)?))
    }

    /// Ends a session: no command of it is taken any more, and its connections are closed.
    pub(crate) fn end(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if session.state == State::Ending {
            return;
        }
        session.state = State::Ending;
        session.events.requests.clear();
        let conns = session.conns.iter().copied();
        self.later.extend(conns.map(Later::Close));
        if session.conns.is_empty() {
            self.forget(id);
        }
    }

    /// The last request of a connection was answered and it is closed.
    pub(crate) fn disconnected(&mut self, id: SessionId, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        session.conns.retain(|other| *other != conn);
        if session.state == State::Ending && session.conns.is_empty() {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: SessionId) {
        if self.sessions.remove(id.0).is_some() {
            self.outs.push_back(Out::SessionClosed { session: id });
        }
    }

    /// Tells the sessions of a subsystem that something changed.
    pub(crate) fn raise(&mut self, subsystem: SubsystemId, kind: event::Kind) {
        for (key, session) in self.sessions.iter_mut() {
            if session.subsystem == Some(subsystem) && session.raise(kind) {
                self.later.push(Later::Events(SessionId(key)));
            }
        }
    }

    /// What discovery tells has changed.
    pub(crate) fn discovery_changed(&mut self) {
        self.discovery_changes += 1;
        for (key, session) in self.sessions.iter_mut() {
            if session.subsystem.is_none() && session.raise(event::Kind::Discovery) {
                self.later.push(Later::Events(SessionId(key)));
            }
        }
    }
}
