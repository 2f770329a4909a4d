//! What hosts and remote targets reach: the port, its sessions, and who answers them.

use std::{collections::BTreeMap, time::Instant};

use block::Buffer;
use model::{HostId, ReplicaId, VolumeId};
use nvme::{
    Code, Op, Reply, Status,
    target::{ConnId, Family, Listen, Out, Port, Request, SessionId, SubsystemId, Tag},
};
use tracing::debug;
use uring::{Listener, Socket};

use super::{Export, Shard};
use crate::device::{FileOp, Step};

#[derive(Debug)]
pub(super) struct Front {
    pub(super) port: Port,
    /// By the number of the connection.
    conns: BTreeMap<u32, ConnId>,
    numbers: BTreeMap<ConnId, u32>,
    pub(super) exports: BTreeMap<SubsystemId, Export>,
    sessions: BTreeMap<SessionId, Seat>,
    by_number: BTreeMap<u64, SessionId>,
    /// Machines know sessions and commands by numbers that are never used again.
    last: u64,
    /// Commands that a machine has not answered, by their number.
    pub(super) asked: BTreeMap<u64, Asked>,
}

/// A session of a host or of a remote target.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) number: u64,
    pub(super) whom: Whom,
    pub(super) host: Option<HostId>,
    /// What the machine calls itself on the wire.
    machine: nvme::reservation::HostId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Nobody,
    Replica(ReplicaId),
    Volume(VolumeId),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) tag: Tag,
    pub(super) session: u64,
    pub(super) kind: Kind,
    pub(super) bytes: u64,
    pub(super) at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Flush,
    /// Reservations to be kept; not measured.
    Keep,
    /// Not measured.
    Other,
}

impl Front {
    pub(super) fn new(listeners: &[Listener], advertised: Option<&str>) -> Self {
        let own = || listeners.iter().filter_map(|at| Some(at.local_addr()?.to_string()));
        let listen = match advertised.and_then(told) {
            Some(told) => vec![told],
            None => own().filter_map(|at| told(&at)).collect(),
        };
        Self {
            port: Port::new(listen),
            conns: BTreeMap::new(),
            numbers: BTreeMap::new(),
            exports: BTreeMap::new(),
            sessions: BTreeMap::new(),
            by_number: BTreeMap::new(),
            last: 0,
            asked: BTreeMap::new(),
        }
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn subsystem_of(&self, wanted: Whom) -> Option<SubsystemId> {
        self.exports.iter().find(|(_, export)| export.is(wanted)).map(|(id, _)| *id)
    }

    /// The sessions of a replica's or volume's export.
    pub(super) fn sessions_of(&self, whom: Whom) -> impl Iterator<Item = &Seat> {
        self.sessions.values().filter(move |seat| seat.whom == whom)
    }

    /// Answers a command; one that was answered for its machine is forgotten here.
    pub(super) fn answer(&mut self, number: u64, result: Result<Reply, Status>) -> Option<Asked> {
        let asked = self.asked.remove(&number)?;
        self.port.complete(asked.tag, result);
        Some(asked)
    }

    /// Answers whatever this session still waits for, and ends it.
    pub(super) fn end(&mut self, number: u64, status: Status) {
        self.end_where(number, status, |_| true);
    }

    /// Sends a host away while its volume goes on. What it has reserved may still reach the store:
    /// the target's answer tells whether it counts.
    pub(super) fn end_all_but_kept(&mut self, number: u64, status: Status) {
        self.end_where(number, status, |asked| asked.kind != Kind::Keep);
    }

    fn end_where(&mut self, number: u64, status: Status, is_over: impl Fn(&Asked) -> bool) {
        let open: Vec<u64> = self
            .asked
            .iter()
            .filter(|(_, asked)| asked.session == number && is_over(asked))
            .map(|(tag, _)| *tag)
            .collect();
        for tag in open {
            self.answer(tag, Err(status));
        }
        if let Some(session) = self.by_number.get(&number) {
            self.port.end_session(*session);
        }
    }
}

impl Export {
    fn is(&self, wanted: Whom) -> bool {
        self.whom() == wanted && wanted != Whom::Nobody
    }

    fn whom(&self) -> Whom {
        match self {
            Self::Device(_) => Whom::Nobody,
            Self::Replica(replica) => Whom::Replica(*replica),
            Self::Volume(volume) => Whom::Volume(*volume),
        }
    }
}

impl Shard {
    pub(super) fn front_accepted(&mut self, socket: Socket) {
        let Some(id) = self.front.port.accept(self.began.elapsed()) else {
            socket.close();
            return;
        };
        let conn = self.net.accepted(&mut self.reactor, socket);
        self.front.conns.insert(conn, id);
        self.front.numbers.insert(id, conn);
    }

    /// False if the connection is none of the port's.
    pub(super) fn front_received(&mut self, conn: u32, bytes: &[u8]) -> bool {
        let Some(id) = self.front.conns.get(&conn) else { return false };
        self.front.port.receive(self.began.elapsed(), *id, bytes);
        true
    }

    pub(super) fn front_gone(&mut self, conn: u32) -> bool {
        let Some(id) = self.front.conns.remove(&conn) else { return false };
        self.front.numbers.remove(&id);
        self.front.port.closed(id);
        true
    }

    /// True if there was something to do.
    pub(super) fn front_poll(&mut self) -> bool {
        let mut is_busy = false;
        while let Some(out) = self.front.port.poll() {
            is_busy = true;
            match out {
                Out::Request(request) => self.front_request(request),
                Out::Send { conn, outgoing } => {
                    if let Some(conn) = self.front.numbers.get(&conn) {
                        self.net.send(*conn, &outgoing);
                    }
                    self.front.port.recycle(outgoing);
                }
                Out::Close { conn } => {
                    if let Some(conn) = self.front.numbers.get(&conn) {
                        self.net.close(*conn);
                    }
                }
                Out::SessionOpened { session, subsystem, host_nqn, host_id, .. } => {
                    self.session_opened(session, subsystem, &host_nqn, host_id);
                }
                Out::SessionClosed { session } => self.session_closed(session),
                // One shard so far: nothing is ever handed to another port.
                Out::Moved { .. } => {}
            }
        }
        is_busy
    }

    fn session_opened(
        &mut self,
        session: SessionId,
        subsystem: Option<SubsystemId>,
        host_nqn: &str,
        machine: nvme::reservation::HostId,
    ) {
        let export = subsystem.and_then(|id| self.front.exports.get(&id));
        let whom = export.map_or(Whom::Nobody, Export::whom);
        let number = self.front.next_number();
        let host = match whom {
            Whom::Volume(volume) => self.targets.host_named(volume, host_nqn),
            Whom::Replica(_) | Whom::Nobody => None,
        };
        if let (Whom::Volume(_), Some(host)) = (whom, host) {
            self.end_earlier(whom, host, machine);
        }
        self.front.sessions.insert(session, Seat { number, whom, host, machine });
        self.front.by_number.insert(number, session);
        if matches!(whom, Whom::Replica(replica) if self.faults.hidden.contains(&replica)) {
            self.front.end(number, Code::Inaccessible.into());
        }
        if let (Whom::Volume(volume), Some(host)) = (whom, host) {
            self.tell_target(volume, mirror::Input::HostOpened { session: number, host });
            self.changed();
        }
    }

    /// A machine that connects again sends again what has no answer. What lies unread on its old
    /// connection, or is still on the way there, must not be done after that.
    fn end_earlier(&mut self, whom: Whom, host: HostId, machine: nvme::reservation::HostId) {
        // Where anyone is let in, several programs may well call themselves the same.
        let is_named = |volume| self.targets.names_hosts(volume);
        if !matches!(whom, Whom::Volume(volume) if is_named(volume)) {
            return;
        }
        let is_earlier = |seat: &&Seat| seat.host == Some(host) && seat.machine == machine;
        let earlier = self.front.sessions_of(whom).filter(is_earlier);
        let earlier: Vec<u64> = earlier.map(|seat| seat.number).collect();
        for number in earlier {
            debug!(%host, "a host connected again: its earlier session ends");
            self.front.end_all_but_kept(number, Code::HostPath.into());
        }
    }

    fn session_closed(&mut self, session: SessionId) {
        let Some(seat) = self.front.sessions.remove(&session) else { return };
        self.front.by_number.remove(&seat.number);
        match seat.whom {
            Whom::Replica(replica) => self.replica_session_closed(replica, seat.number),
            Whom::Volume(volume) => {
                self.tell_target(volume, mirror::Input::HostClosed { session: seat.number });
                self.changed();
            }
            Whom::Nobody => {}
        }
    }

    fn front_request(&mut self, request: Request) {
        let Request { tag, session, subsystem, op } = request;
        match self.front.exports.get_mut(&subsystem) {
            Some(Export::Device(device)) => match device.run(op) {
                Step::Done(result) => self.front.port.complete(tag, result),
                Step::File(disk, op) => self.start_file(tag, disk, op),
            },
            Some(Export::Replica(replica)) => {
                let replica = *replica;
                self.replica_asked(replica, session, tag, op);
            }
            Some(Export::Volume(volume)) => {
                let volume = *volume;
                self.volume_asked(volume, session, tag, op);
            }
            None => {
                debug!("a command for a subsystem that is gone");
                self.front.port.complete(tag, Err(Code::Inaccessible.into()));
            }
        }
    }

    fn start_file(&mut self, tag: Tag, disk: uring::Disk, op: FileOp) {
        let work = super::DiskWork::Device { tag };
        let op = match op {
            FileOp::Read { offset, len } => {
                uring::Op::Read { disk, offset, buffer: Buffer::zeroed(len) }
            }
            FileOp::Write { offset, data, dsync } => {
                uring::Op::Write { disk, offset, data: data.into(), dsync }
            }
            FileOp::Sync => uring::Op::Sync { disk },
        };
        self.start_disk(work, op);
    }

    /// Notes that a machine is asked, and the numbers by which it knows session and command.
    pub(super) fn ask(&mut self, session: SessionId, tag: Tag, op: &Op) -> Option<(u64, u64)> {
        let seat = self.front.sessions.get(&session)?;
        let (kind, bytes) = measure(op);
        let asked = Asked { tag, session: seat.number, kind, bytes, at: Instant::now() };
        let session = seat.number;
        let number = self.front.next_number();
        self.front.asked.insert(number, asked);
        Some((session, number))
    }
}

fn measure(op: &Op) -> (Kind, u64) {
    match op {
        Op::Read { extent } | Op::Compare { extent, .. } => (Kind::Read, extent.bytes()),
        Op::Write { extent, .. } | Op::Zero { extent, .. } => (Kind::Write, extent.bytes()),
        Op::Flush => (Kind::Flush, 0),
        Op::Persist(_) => (Kind::Keep, 0),
        _ => (Kind::Other, 0),
    }
}

/// What discovery tells of an address with its port. A name is told as it is: the host resolves it.
fn told(at: &str) -> Option<Listen> {
    let (address, service) = at.rsplit_once(':')?;
    let address = address.trim_start_matches('[').trim_end_matches(']');
    let family = if address.contains(':') { Family::V6 } else { Family::V4 };
    Some(Listen { family, address: address.into(), service: service.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_tells_the_address_that_is_advertised() {
        for (advertised, family, address) in [
            ("10.0.2.2:4420", Family::V4, "10.0.2.2"),
            ("[fd00::1]:4420", Family::V6, "fd00::1"),
            ("storage-1:4420", Family::V4, "storage-1"),
        ] {
            let (address, service) = (address.into(), "4420".into());
            assert_eq!(told(advertised), Some(Listen { family, address, service }));
        }
    }
}
