//! What hosts and remote targets reach: the NVMe port, its exports and their sessions, and which
//! commands wait for an answer.

mod pending_commands;

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::{String, ToString},
    vec::Vec,
};
use core::time::Duration;

use model::{HostId, ReplicaId, VolumeId};
use nvme::{
    Code, Op, Outgoing, Reply, Status,
    reservation::Reservations,
    target::{self, Family, Hosts, Kind, Listen, Namespace, Out, Port, SessionId, Subsystem, Tag},
    wire::log::Ana,
};

use self::pending_commands::{CommandKind, PendingCommand, PendingCommands, measure};
use crate::{
    Device,
    device::DeviceStep,
    effect::{ConnId, DiskId, Effect, LogEvent},
    metrics::Flow,
    names,
    registry::{Handle, Registry},
};

/// What is exported under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Export {
    /// A device that is served as it is, by its place in the list.
    Device(usize),
    Replica(ReplicaId),
    Volume(VolumeId),
}

/// Who carries out the commands of an export.
#[derive(Clone, Copy, Debug)]
enum Server {
    Device(usize),
    Replica(Handle<ReplicaId>),
    Target(Handle<VolumeId>),
}

#[derive(Debug)]
struct ExportEntry {
    subsystem: target::SubsystemId,
    server: Server,
    /// The hosts that are let in, by the name they connect with.
    hosts: BTreeMap<String, HostId>,
    flow: Flow,
}

/// A session of a host or of a remote target.
#[derive(Clone, Debug)]
pub(crate) struct PortSession {
    pub(crate) number: u64,
    /// None of the discovery service.
    export: Option<Handle<Export>>,
    pub(crate) host: Option<HostId>,
    /// What the machine calls itself on the wire.
    machine: nvme::reservation::HostId,
}

/// What the port wants of others.
#[derive(Debug)]
pub(crate) enum PortEvent {
    ReplicaCommand { replica: Handle<ReplicaId>, session: u64, number: u64, op: Op },
    VolumeCommand { volume: Handle<VolumeId>, session: u64, number: u64, op: Op },
    DeviceIo { tag: Tag, disk: DiskId, io: pool::Io },
    SessionOpened { session: PortSession },
    SessionClosed { session: PortSession },
}

#[derive(Debug)]
pub(crate) struct NvmePort {
    port: Port,
    numbers: BTreeMap<target::ConnId, ConnId>,
    exports: Registry<Export, ExportEntry>,
    by_subsystem: BTreeMap<target::SubsystemId, Export>,
    devices: Vec<Device>,
    sessions: PortSessions,
    by_number: BTreeMap<u64, SessionId>,
    /// Machines know sessions by numbers that are never used again.
    last: u64,
    pending: PendingCommands,
}

impl PortSession {
    pub(crate) fn volume(&self) -> Option<VolumeId> {
        match self.export?.id {
            Export::Volume(volume) => Some(volume),
            _ => None,
        }
    }

    pub(crate) fn replica(&self) -> Option<ReplicaId> {
        match self.export?.id {
            Export::Replica(replica) => Some(replica),
            _ => None,
        }
    }
}

impl NvmePort {
    pub(crate) fn new(advertised: &[String]) -> Self {
        Self {
            port: Port::new(advertised.iter().filter_map(|at| listen(at)).collect()),
            numbers: BTreeMap::new(),
            exports: Registry::default(),
            by_subsystem: BTreeMap::new(),
            devices: Vec::new(),
            sessions: PortSessions::default(),
            by_number: BTreeMap::new(),
            last: 0,
            pending: PendingCommands::default(),
        }
    }

    pub(crate) fn accept(&mut self, now: Duration) -> Option<target::ConnId> {
        self.port.accept(now)
    }

    /// The number by which the driver knows a connection that was accepted.
    pub(crate) fn number_conn(&mut self, id: target::ConnId, conn: ConnId) {
        self.numbers.insert(id, conn);
    }

    pub(crate) fn receive(&mut self, now: Duration, id: target::ConnId, bytes: &[u8]) {
        self.port.receive(now, id, bytes);
    }

    pub(crate) fn closed(&mut self, id: target::ConnId) {
        self.numbers.remove(&id);
        self.port.closed(id);
    }

    pub(crate) fn tick(&mut self, now: Duration) {
        self.port.tick(now);
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.port.next_deadline()
    }

    pub(crate) fn recycle(&mut self, outgoing: Outgoing) {
        self.port.recycle(outgoing);
    }

    /// A batch that was sent and handed back, by whomever.
    pub(crate) fn take_spare(&mut self) -> Option<Outgoing> {
        self.port.take_spare()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.port.is_ready()
    }

    /// A number for a session or a part of a command that is never used again.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Exports a device to any host.
    pub(crate) fn export_device(&mut self, nqn: String, uuid: uuid::Uuid, device: Device) {
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
        self.devices.push(device);
        let index = self.devices.len() - 1;
        self.add(Export::Device(index), Server::Device(index), subsystem, BTreeMap::new());
    }

    /// Exports a replica to nobody yet.
    pub(crate) fn export_replica(&mut self, handle: Handle<ReplicaId>, blocks: u64) {
        let replica = handle.id;
        let subsystem = Subsystem {
            nqn: names::nqn(replica.0),
            serial: names::serial(replica.0),
            hosts: Hosts::Only(alloc::collections::BTreeSet::default()),
            namespace: namespace(replica.0, blocks),
            first_cntlid: 1,
            cntlids: 4000,
            kind: Kind::Replica,
        };
        let export = Export::Replica(replica);
        self.add(export, Server::Replica(handle), subsystem, BTreeMap::new());
    }

    /// False if the name is taken.
    pub(crate) fn export_volume(
        &mut self,
        handle: Handle<VolumeId>,
        epoch: model::Epoch,
        blocks: u64,
        hosts: BTreeMap<String, HostId>,
        reservations: Reservations,
    ) -> bool {
        let volume = handle.id;
        let (first_cntlid, cntlids) = names::controller_range(epoch.0);
        let subsystem = Subsystem {
            nqn: names::nqn(volume.0),
            serial: names::serial(volume.0),
            hosts: admitted(&hosts),
            namespace: namespace(volume.0, blocks),
            first_cntlid,
            cntlids,
            kind: Kind::Volume { reservations, can_last: true },
        };
        self.add(Export::Volume(volume), Server::Target(handle), subsystem, hosts)
    }

    fn add(
        &mut self,
        export: Export,
        server: Server,
        subsystem: Subsystem,
        hosts: BTreeMap<String, HostId>,
    ) -> bool {
        let Some(subsystem) = self.port.add_subsystem(subsystem) else { return false };
        self.by_subsystem.insert(subsystem, export);
        let flow = Flow::default();
        self.exports.insert(export, ExportEntry { subsystem, server, hosts, flow });
        true
    }

    /// Ends its sessions, and lets nobody in any more.
    pub(crate) fn withdraw(&mut self, export: Export) {
        let numbers: Vec<u64> = self.sessions_of(export).map(|session| session.number).collect();
        for number in numbers {
            self.end_session(number, Code::Inaccessible.into());
        }
        if let Some(entry) = self.exports.remove(&export) {
            self.by_subsystem.remove(&entry.subsystem);
            self.port.remove_subsystem(entry.subsystem);
        }
    }

    pub(crate) fn set_volume_hosts(&mut self, volume: VolumeId, hosts: BTreeMap<String, HostId>) {
        let Some(entry) = self.exports.get_mut(&Export::Volume(volume)) else { return };
        entry.hosts = hosts;
        self.port.set_hosts(entry.subsystem, &admitted(&entry.hosts));
    }

    /// Lets in one node's targets, or nobody.
    pub(crate) fn set_replica_node(&mut self, replica: ReplicaId, node: Option<model::NodeId>) {
        let Some(entry) = self.exports.get(&Export::Replica(replica)) else { return };
        let hosts = node.iter().map(|node| names::nqn(node.0)).collect();
        self.port.set_hosts(entry.subsystem, &Hosts::Only(hosts));
    }

    pub(crate) fn resize(&mut self, export: Export, blocks: u64) {
        if let Some(entry) = self.exports.get(&export) {
            self.port.resize(entry.subsystem, blocks);
        }
    }

    /// The sessions of a replica's or volume's export.
    pub(crate) fn sessions_of(&self, export: Export) -> impl Iterator<Item = &PortSession> {
        self.sessions.values().filter(move |session| session.is_of(export))
    }

    pub(crate) fn flows(&self) -> impl Iterator<Item = (Export, &Flow)> {
        self.exports.iter().map(|(export, entry)| (*export, &entry.flow))
    }

    /// Answers a command; one that was answered before is no more.
    pub(crate) fn answer(&mut self, now: Duration, number: u64, result: Result<Reply, Status>) {
        let Some(command) = self.pending.remove(number) else { return };
        let is_error = result.is_err();
        self.port.complete(command.tag, result);
        let Some(entry) = self.exports.at_mut(command.export) else { return };
        let traffic = match command.kind {
            CommandKind::Read => &mut entry.flow.read,
            CommandKind::Write => &mut entry.flow.write,
            CommandKind::Flush => &mut entry.flow.flush,
            CommandKind::Reserve | CommandKind::Other => return,
        };
        traffic.latency.add(now.saturating_sub(command.arrived));
        traffic.bytes += command.bytes;
        traffic.errors += u64::from(is_error);
    }

    /// Answers a command of a device.
    pub(crate) fn complete_device(&mut self, tag: Tag, result: Result<Reply, Status>) {
        self.port.complete(tag, result);
    }

    /// Answers whatever this session still waits for, and ends it.
    pub(crate) fn end_session(&mut self, number: u64, status: Status) {
        self.end_where(number, status, |_| true);
    }

    /// Sends a host away while its volume goes on. What it has reserved may still reach the store:
    /// the target's answer tells whether it counts.
    pub(crate) fn end_all_but_reserving(&mut self, number: u64, status: Status) {
        self.end_where(number, status, |command| command.kind != CommandKind::Reserve);
    }

    fn end_where(
        &mut self,
        number: u64,
        status: Status,
        is_over: impl Fn(&PendingCommand) -> bool,
    ) {
        let is_of = |command: &&PendingCommand| command.session == number && is_over(command);
        let open: Vec<u64> =
            self.pending.iter().filter(is_of).map(|command| command.number).collect();
        for command in open {
            if let Some(command) = self.pending.remove(command) {
                self.port.complete(command.tag, Err(status));
            }
        }
        if let Some(session) = self.by_number.get(&number) {
            self.port.end_session(*session);
        }
    }

    /// What the port wants next. What it wants of connections goes out by itself.
    pub(crate) fn poll(
        &mut self,
        now: Duration,
        effects: &mut VecDeque<Effect>,
    ) -> Option<PortEvent> {
        while let Some(out) = self.port.poll() {
            let event = match out {
                Out::Request(request) => self.dispatch(now, request),
                Out::Send { conn, outgoing } => {
                    match self.numbers.get(&conn) {
                        Some(conn) => effects.push_back(Effect::Send { conn: *conn, outgoing }),
                        None => self.port.recycle(outgoing),
                    }
                    continue;
                }
                Out::Close { conn } => {
                    effects.extend(self.numbers.get(&conn).map(|conn| Effect::Close(*conn)));
                    continue;
                }
                Out::SessionOpened { session, subsystem, host_nqn, host_id, .. } => {
                    return Some(
                        self.session_opened(effects, session, subsystem, &host_nqn, host_id),
                    );
                }
                Out::SessionClosed { session } => self.session_closed(session),
                // One shard so far: nothing is ever handed to another port.
                Out::Moved { .. } => continue,
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    fn session_opened(
        &mut self,
        effects: &mut VecDeque<Effect>,
        id: SessionId,
        subsystem: Option<target::SubsystemId>,
        host_nqn: &str,
        machine: nvme::reservation::HostId,
    ) -> PortEvent {
        let export = subsystem.and_then(|id| self.by_subsystem.get(&id)).copied();
        let entry = export.and_then(|export| self.exports.get(&export));
        let hosts = entry.map(|entry| &entry.hosts);
        let host = hosts.and_then(|hosts| hosts.get(host_nqn).or_else(|| hosts.get(names::ANY)));
        let host = host.copied();
        // Where anyone is let in, several programs may well call themselves the same.
        let is_named = hosts.is_some_and(|hosts| !hosts.contains_key(names::ANY));
        if let (Some(export @ Export::Volume(_)), Some(host), true) = (export, host, is_named) {
            self.end_earlier(effects, export, host, machine);
        }
        let number = self.next_number();
        let export = export.map(|export| self.exports.handle(export));
        let session = PortSession { number, export, host, machine };
        self.sessions.insert(id, session.clone());
        self.by_number.insert(number, id);
        PortEvent::SessionOpened { session }
    }

    /// A machine that connects again sends again what has no answer. What lies unread on its old
    /// connection, or is still on the way there, must not be done after that.
    fn end_earlier(
        &mut self,
        effects: &mut VecDeque<Effect>,
        export: Export,
        host: HostId,
        machine: nvme::reservation::HostId,
    ) {
        let is_earlier =
            |session: &&PortSession| session.host == Some(host) && session.machine == machine;
        let earlier = self.sessions_of(export).filter(is_earlier);
        let earlier: Vec<u64> = earlier.map(|session| session.number).collect();
        for number in earlier {
            effects.push_back(Effect::Log(LogEvent::HostReconnected { host }));
            self.end_all_but_reserving(number, Code::HostPath.into());
        }
    }

    fn session_closed(&mut self, id: SessionId) -> Option<PortEvent> {
        let session = self.sessions.remove(id)?;
        self.by_number.remove(&session.number);
        Some(PortEvent::SessionClosed { session })
    }

    /// Notes that a machine is asked, and the numbers by which it knows session and command.
    fn dispatch(&mut self, now: Duration, request: target::Request) -> Option<PortEvent> {
        let target::Request { tag, session, subsystem, op } = request;
        let known = self.sessions.get(session);
        let export = known.and_then(|known| Some((known.number, known.export?)));
        let entry = export.and_then(|(_, export)| self.exports.at(export));
        // The name may be another export's by now.
        let server = entry.filter(|entry| entry.subsystem == subsystem).map(|entry| entry.server);
        let (Some((session, export)), Some(server)) = (export, server) else {
            self.port.complete(tag, Err(Code::Inaccessible.into()));
            return None;
        };
        if let Server::Device(index) = server {
            return match self.devices.get_mut(index)?.run(op) {
                DeviceStep::Done(result) => {
                    self.port.complete(tag, result);
                    None
                }
                DeviceStep::Disk(disk, io) => Some(PortEvent::DeviceIo { tag, disk, io }),
            };
        }
        let (kind, bytes) = measure(&op);
        let arrived = now;
        let number = self.pending.insert(|number| PendingCommand {
            number,
            tag,
            session,
            export,
            kind,
            bytes,
            arrived,
        });
        match server {
            Server::Replica(replica) => {
                Some(PortEvent::ReplicaCommand { replica, session, number, op })
            }
            Server::Target(volume) => {
                Some(PortEvent::VolumeCommand { volume, session, number, op })
            }
            Server::Device(_) => None,
        }
    }
}

impl PortSession {
    fn is_of(&self, export: Export) -> bool {
        self.export.is_some_and(|own| own.id == export)
    }
}

/// Sessions by the port's own numbers, which say where they lie.
#[derive(Debug, Default)]
struct PortSessions {
    places: Vec<Option<(SessionId, PortSession)>>,
}

impl PortSessions {
    fn insert(&mut self, id: SessionId, session: PortSession) {
        if self.places.len() <= id.index() {
            self.places.resize_with(id.index() + 1, || None);
        }
        self.places[id.index()] = Some((id, session));
    }

    fn get(&self, id: SessionId) -> Option<&PortSession> {
        match self.places.get(id.index()) {
            Some(Some((known, session))) if *known == id => Some(session),
            _ => None,
        }
    }

    fn remove(&mut self, id: SessionId) -> Option<PortSession> {
        self.get(id)?;
        self.places.get_mut(id.index())?.take().map(|(_, session)| session)
    }

    fn values(&self) -> impl Iterator<Item = &PortSession> {
        self.places.iter().flatten().map(|(_, session)| session)
    }
}

fn namespace(uuid: uuid::Uuid, blocks: u64) -> Namespace {
    Namespace { uuid, nguid: *uuid.as_bytes(), blocks, is_thin: true, ana: Ana::Optimized }
}

fn admitted(hosts: &BTreeMap<String, HostId>) -> Hosts {
    if hosts.contains_key(names::ANY) {
        return Hosts::Any;
    }
    Hosts::Only(hosts.keys().cloned().collect())
}

/// What discovery tells of an address with its port. A name is told as it is: the host resolves it.
fn listen(at: &str) -> Option<Listen> {
    let (address, service) = at.rsplit_once(':')?;
    let address = address.trim_start_matches('[').trim_end_matches(']');
    let family = if address.contains(':') { Family::V6 } else { Family::V4 };
    Some(Listen { family, address: address.to_string(), service: service.to_string() })
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
            assert_eq!(listen(advertised), Some(Listen { family, address, service }));
        }
    }
}
