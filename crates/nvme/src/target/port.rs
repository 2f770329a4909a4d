//! The port: every subsystem, session and connection of one listener, on one thread.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::time::Duration;

use super::{
    connection::{Connection, Phase},
    core::{Core, Done, Later, Quiet, Role, Route},
    event,
    session::{Session, SessionId},
    slots::Slot,
    subsystem::{Exported, Hosts, Listen, Subsystem, SubsystemId},
};
use crate::{
    limits,
    op::{Op, Reply},
    outgoing::Outgoing,
    reservation::HostId,
    slab::{Key, Slab},
    status::{Code, Status},
    wire::log::Ana,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(Key);

/// Names one request until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag {
    pub(crate) conn: ConnId,
    pub(crate) slot: u16,
    pub(crate) generation: u16,
}

/// What the caller must do.
#[derive(Debug)]
pub enum Out {
    /// Carry it out and answer with `Port::complete`, also if the session is gone meanwhile.
    Request(Request),
    /// Send all of it, in order.
    Send { conn: ConnId, outgoing: Outgoing },
    /// Close the connection when what was to be sent is sent. Nothing more is heard of it.
    Close { conn: ConnId },
    /// A host has a controller. `subsystem` is `None` for the discovery service.
    SessionOpened {
        session: SessionId,
        subsystem: Option<SubsystemId>,
        host_nqn: String,
        host_id: HostId,
        cntlid: u16,
    },
    /// The host asks for a subsystem that another port has: the connection goes there, with what
    /// was to be sent before, and `Port::adopt` continues it.
    Moved { conn: ConnId, place: u32, parcel: Parcel },
    /// It is gone, its connections are closed and every request of it was answered.
    SessionClosed { session: SessionId },
}

#[derive(Debug)]
pub struct Request {
    pub tag: Tag,
    pub session: SessionId,
    pub subsystem: SubsystemId,
    pub op: Op,
}

/// A connection on its way to another port.
#[derive(Debug)]
pub struct Parcel(Box<Connection>);

/// How many emptied batches are kept for their memory.
const SPARE: usize = 64;

#[derive(Debug)]
pub struct Port {
    conns: Slab<Connection>,
    core: Core,
    /// Connections with something to send, or to be closed.
    listed: Vec<ConnId>,
    spare: Vec<Outgoing>,
}

impl Port {
    pub fn new(listen: Vec<Listen>) -> Self {
        Self {
            conns: Slab::default(),
            core: Core::new(listen),
            listed: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// `None` if a subsystem of that name is there already.
    pub fn add_subsystem(&mut self, subsystem: Subsystem) -> Option<SubsystemId> {
        if self.find_subsystem(&subsystem.nqn).is_some() {
            return None;
        }
        let key = self.core.subsystems.insert(Exported::new(subsystem));
        self.core.discovery_changed();
        self.run_later();
        Some(SubsystemId(key))
    }

    /// No session of it is opened any more; those that there are end.
    pub fn remove_subsystem(&mut self, id: SubsystemId) {
        if self.core.subsystems.remove(id.0).is_none() {
            return;
        }
        self.end_sessions(|session| session.subsystem == Some(id));
        self.core.discovery_changed();
        self.run_later();
    }

    pub fn subsystem(&self, id: SubsystemId) -> Option<&Subsystem> {
        self.core.subsystems.get(id.0).map(|exported| &exported.subsystem)
    }

    pub fn find_subsystem(&self, nqn: &str) -> Option<SubsystemId> {
        let mut all = self.core.subsystems.iter();
        let found = all.find(|(_, exported)| exported.subsystem.nqn == nqn);
        found.map(|(key, _)| SubsystemId(key))
    }

    /// Hosts are told that the namespace has another size.
    pub fn resize(&mut self, id: SubsystemId, blocks: u64) {
        let Some(exported) = self.core.subsystems.get_mut(id.0) else { return };
        if exported.subsystem.namespace.blocks != blocks {
            exported.subsystem.namespace.blocks = blocks;
            self.core.raise(id, event::Kind::Namespace);
            self.run_later();
        }
    }

    /// From now on commands are answered accordingly, and hosts are told.
    pub fn set_ana(&mut self, id: SubsystemId, ana: Ana) {
        let Some(exported) = self.core.subsystems.get_mut(id.0) else { return };
        if exported.subsystem.namespace.ana != ana {
            exported.subsystem.namespace.ana = ana;
            exported.ana_changes += 1;
            self.core.raise(id, event::Kind::Ana);
            self.run_later();
        }
    }

    /// Sessions of hosts that are no longer admitted end.
    pub fn set_hosts(&mut self, id: SubsystemId, hosts: &Hosts) {
        let Some(exported) = self.core.subsystems.get_mut(id.0) else { return };
        if exported.subsystem.hosts == *hosts {
            return;
        }
        exported.subsystem.hosts.clone_from(hosts);
        self.end_sessions(|session| {
            session.subsystem == Some(id) && !hosts.admit(&session.host_nqn)
        });
        self.core.discovery_changed();
        self.run_later();
    }

    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.core.sessions.iter().map(|(key, session)| (SessionId(key), session))
    }

    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.core.session(id)
    }

    /// Ends a session; `Out::SessionClosed` follows when its requests are answered.
    pub fn end_session(&mut self, id: SessionId) {
        self.core.end(id);
        self.run_later();
    }

    fn end_sessions(&mut self, which: impl Fn(&Session) -> bool) {
        let sessions = self.core.sessions.iter().filter(|(_, session)| which(session));
        let ids: Vec<_> = sessions.map(|(key, _)| SessionId(key)).collect();
        for id in ids {
            self.core.end(id);
        }
    }

    /// A connection was opened; `None` if there are too many and it should be closed.
    pub fn accept(&mut self, now: Duration) -> Option<ConnId> {
        self.core.now = now;
        if self.conns.len() >= limits::CONNECTIONS {
            return None;
        }
        let key = self.conns.insert_with(|key| Connection::new(ConnId(key), now));
        Some(ConnId(key))
    }

    /// Names a subsystem of another port of the same listener: connections for it are handed out
    /// with this place, and the discovery service tells of it.
    pub fn add_route(&mut self, nqn: String, place: u32, hosts: Hosts) {
        self.core.routes.insert(nqn, Route { place, hosts });
        self.core.discovery_changed();
        self.run_later();
    }

    pub fn remove_route(&mut self, nqn: &str) {
        if self.core.routes.remove(nqn).is_some() {
            self.core.discovery_changed();
            self.run_later();
        }
    }

    /// Continues a connection that another port handed out; `None` if there are too many.
    pub fn adopt(&mut self, now: Duration, parcel: Parcel) -> Option<ConnId> {
        self.core.now = now;
        if self.conns.len() >= limits::CONNECTIONS {
            return None;
        }
        let Parcel(mut conn) = parcel;
        let key = self.conns.insert_with(|key| {
            (conn.id, conn.opened, conn.is_listed) = (ConnId(key), now, false);
            *conn
        });
        let id = ConnId(key);
        if let Some(conn) = self.conns.get_mut(key) {
            conn.resume(&mut self.core);
        }
        self.settle(id);
        self.run_later();
        Some(id)
    }

    /// Bytes came. Do not call it while much is still to be sent on that connection: that is what
    /// keeps a host that does not listen from filling memory.
    pub fn receive(&mut self, now: Duration, id: ConnId, bytes: &[u8]) {
        self.core.now = now;
        let Some(conn) = self.conns.get_mut(id.0) else { return };
        conn.receive(&mut self.core, bytes);
        self.settle(id);
        self.run_later();
    }

    /// Where the next bytes may be received to directly: what is left of a payload. Whatever is
    /// put there is announced by `filled`; anything else still goes through `receive`.
    pub fn want(&mut self, id: ConnId) -> Option<&mut [u8]> {
        self.conns.get_mut(id.0)?.want()
    }

    /// So many bytes were put where `want` said.
    pub fn filled(&mut self, now: Duration, id: ConnId, bytes: usize) {
        self.core.now = now;
        let Some(conn) = self.conns.get_mut(id.0) else { return };
        conn.filled(bytes);
        self.receive(now, id, &[]);
    }

    /// The peer closed it, or it broke.
    pub fn closed(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id.0) else { return };
        conn.lost(&mut self.core);
        self.settle(id);
        self.run_later();
    }

    /// Time has passed. Sessions that were silent for too long end.
    pub fn tick(&mut self, now: Duration) {
        self.core.now = now;
        self.core.buffers.rest();
        let is_due = |deadline: Option<Duration>| deadline.is_some_and(|deadline| deadline <= now);
        self.end_sessions(|session| is_due(session.deadline()));
        let strangers = self.conns.iter().filter(|(_, conn)| is_due(handshake_deadline(conn)));
        let late: Vec<_> = strangers.map(|(key, _)| Later::Close(ConnId(key))).collect();
        self.core.later.extend(late);
        self.run_later();
    }

    /// When `tick` is needed next.
    pub fn next_deadline(&self) -> Option<Duration> {
        let sessions = self.core.sessions.iter().filter_map(|(_, session)| session.deadline());
        let strangers = self.conns.iter().filter_map(|(_, conn)| handshake_deadline(conn));
        sessions.chain(strangers).min()
    }

    /// Answers a request. Each is answered once, also when its connection is gone.
    pub fn complete(&mut self, tag: Tag, result: Result<Reply, Status>) {
        let Tag { conn: id, slot, generation } = tag;
        let conn = self.conns.get_mut(id.0).expect("a connection stays while it is owed an answer");
        assert_eq!(conn.slots.generation(slot), generation, "a request is answered once");
        let Some(&Slot::Answer { cid, reply_max, is_io }) = conn.slots.get(slot) else {
            panic!("a request is answered once");
        };
        if is_io && let Some(session) = conn.role.session().and_then(|s| self.core.session_mut(s)) {
            session.io_in_flight -= 1;
        }
        let change = self.core.persisting_of(id, slot);
        let subsystem = change.as_ref().map(|change| change.subsystem);
        let quiet = change.and_then(|change| self.core.persisted(change, result.is_ok()));
        if let Some(quiet) = quiet {
            conn.slots.put(slot, Slot::Quiet { cid });
            self.core.quiet.push(quiet);
        } else {
            conn.finish(slot, cid, &done(result, reply_max));
        }
        self.settle(id);
        if let Some(subsystem) = subsystem {
            self.next_turn(subsystem);
        }
        if !self.core.quiet.is_empty() {
            self.hush();
        }
        self.run_later();
    }

    /// What is to be done next, until there is nothing.
    pub fn poll(&mut self) -> Option<Out> {
        loop {
            if let Some(out) = self.core.outs.pop_front() {
                return Some(out);
            }
            let id = self.listed.pop()?;
            let Some(conn) = self.conns.get_mut(id.0) else { continue };
            conn.is_listed = false;
            let send = (!conn.outgoing.is_empty()).then(|| {
                let empty = self.spare.pop().unwrap_or_default();
                Out::Send { conn: id, outgoing: core::mem::replace(&mut conn.outgoing, empty) }
            });
            if conn.phase == Phase::Closing {
                conn.phase = Phase::Closed;
                self.core.outs.push_back(Out::Close { conn: id });
                self.settle(id);
            }
            if send.is_some() {
                return send;
            }
        }
    }

    /// Hands back a batch that was sent, for its memory.
    pub fn recycle(&mut self, mut outgoing: Outgoing) {
        if self.spare.len() < SPARE {
            outgoing.clear();
            self.spare.push(outgoing);
        }
    }

    /// Whether `poll` has something to tell.
    pub fn is_ready(&self) -> bool {
        !self.core.outs.is_empty() || !self.listed.is_empty()
    }

    /// A batch that was handed back, for somebody else who sends.
    pub fn take_spare(&mut self) -> Option<Outgoing> {
        self.spare.pop()
    }

    /// Lists a connection that has something to send; forgets one that is over.
    fn settle(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id.0) else { return };
        if let Some(place) = conn.leaves_for() {
            if let Some(conn) = self.conns.remove(id.0) {
                let parcel = Parcel(Box::new(conn));
                self.core.outs.push_back(Out::Moved { conn: id, place, parcel });
            }
            return;
        }
        if conn.phase == Phase::Closed && !conn.slots.is_owed() {
            let role = conn.role;
            self.conns.remove(id.0);
            if let Some(session) = role.session() {
                self.core.disconnected(session, id);
            }
            return;
        }
        let has_something = !conn.outgoing.is_empty() || conn.phase == Phase::Closing;
        if has_something && !conn.is_listed {
            conn.is_listed = true;
            self.listed.push(id);
        }
    }

    fn run_later(&mut self) {
        while let Some(later) = self.core.later.pop() {
            match later {
                Later::Close(id) => {
                    if let Some(conn) = self.conns.get_mut(id.0) {
                        conn.close(&mut self.core);
                        self.settle(id);
                    }
                }
                Later::Events(session) => self.tell_events(session),
                Later::Drop { conn, slots } => {
                    if let Some(conn) = self.conns.get_mut(conn.0) {
                        conn.forget(&slots);
                    }
                }
            }
        }
    }

    fn tell_events(&mut self, id: SessionId) {
        let Some(session) = self.core.session_mut(id) else { return };
        let Some(admin) = session.admin() else { return };
        while let Some((slot, value)) = session.next_event() {
            let Some(conn) = self.conns.get_mut(admin.0) else { return };
            if let Some(&Slot::Event { cid }) = conn.slots.get(slot) {
                conn.finish(slot, cid, &Done { value, ..Done::default() });
            }
        }
        self.settle(admin);
    }

    /// Runs the reservation commands that waited for the one that is durable now.
    fn next_turn(&mut self, subsystem: SubsystemId) {
        loop {
            let is_busy = |exported: &Exported| exported.is_persisting;
            if self.core.subsystems.get(subsystem.0).is_none_or(is_busy) {
                return;
            }
            let at = self.core.turns.iter().position(|(of, ..)| *of == subsystem);
            let Some((_, id, slot)) = at.and_then(|at| self.core.turns.remove(at)) else { return };
            let Some(conn) = self.conns.get_mut(id.0) else { continue };
            if conn.phase == Phase::Open && matches!(conn.slots.get(slot), Some(Slot::Turn { .. }))
            {
                let Slot::Turn { sqe, data } = conn.slots.take(slot) else { continue };
                conn.execute(&mut self.core, slot, sqe, data);
                self.settle(id);
            }
        }
    }

    /// Answers the preempting commands whose victims have no command under way any more.
    fn hush(&mut self) {
        let waiting = core::mem::take(&mut self.core.quiet);
        for quiet in waiting {
            if !self.core.is_quiet(&quiet) {
                self.core.quiet.push(quiet);
                continue;
            }
            let Quiet { conn: id, slot, .. } = quiet;
            if let Some(conn) = self.conns.get_mut(id.0)
                && let Some(&Slot::Quiet { cid }) = conn.slots.get(slot)
            {
                conn.finish(slot, cid, &Done::default());
            }
            self.settle(id);
        }
    }
}

/// When a connection that is no queue yet has had its time.
fn handshake_deadline(conn: &Connection) -> Option<Duration> {
    let is_open = matches!(conn.phase, Phase::Hello | Phase::Open);
    (is_open && conn.role == Role::Stranger).then(|| conn.opened + limits::HANDSHAKE)
}

/// The caller's answer as the host gets it.
fn done(result: Result<Reply, Status>, reply_max: usize) -> Done {
    match result {
        Ok(Reply::Done) if reply_max == 0 => Done::default(),
        Ok(Reply::Data(data)) if data.len() <= reply_max => {
            Done { data: Some(data), ..Done::default() }
        }
        // The caller's mistake must not become the host's data.
        Ok(_) => Code::InternalError.into(),
        Err(status) => status.into(),
    }
}
