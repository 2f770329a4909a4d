//! Targets: the machines, the hosts in front of them and the replicas behind.

use std::{collections::BTreeMap, time::Instant};

use block::Buffer;
use mirror::{Command, HostFault, HostResult, Input, Notice, Output, Phase, StoreAnswer, Target};
use model::{Epoch, HostId, ReplicaId, TargetHealth, TargetItem, TargetSeen, Time, VolumeId};
use nvme::{
    Code, Op, Reply, Status,
    target::{Hosts, Namespace, SessionId, Subsystem, SubsystemId, Tag},
    wire::log::Ana,
};
use ports::MembershipError;
use tracing::{error, info, warn};

use super::{
    Export, Shard, Work,
    front::{Kind, Whom},
};
use crate::{
    handle::{self, RecordAnswer, RecordAsk, TargetKey},
    metrics::Flow,
    names, reserved,
};

#[derive(Debug, Default)]
pub(super) struct Targets {
    pub(super) homes: BTreeMap<VolumeId, Home>,
}

#[derive(Debug)]
pub(super) struct Home {
    pub(super) machine: Target<Buffer>,
    pub(super) item: TargetItem,
    /// The hosts that are let in, by the name they connect with.
    hosts: BTreeMap<String, HostId>,
    subsystem: Option<SubsystemId>,
    /// Why nobody can reach it although it is ready.
    pub(super) unreachable: Option<&'static str>,
    /// Local sessions, by the target's number, and the number by which the replica knows them.
    local: BTreeMap<(ReplicaId, u64), u64>,
    /// The question that the store was asked last.
    call: u64,
    /// Commands that are several to the machine, or that need a look at what it answers.
    composed: BTreeMap<u64, Composed>,
    pub(super) flow: Flow,
    /// Bytes that were copied from replica to replica.
    pub(super) copied: u64,
}

/// What becomes of a command's answer.
#[derive(Debug)]
enum Composed {
    /// Parts of one command: the last one answers it.
    Part {
        whole: u64,
    },
    Whole {
        left: usize,
        fault: Option<Status>,
    },
    /// The data must be this.
    Compare(Buffer),
    /// The data is not sent.
    Verify,
}

impl Targets {
    pub(super) fn host_named(&self, volume: VolumeId, nqn: &str) -> Option<HostId> {
        let hosts = &self.homes.get(&volume)?.hosts;
        hosts.get(nqn).or_else(|| hosts.get(names::ANY)).copied()
    }

    /// Whether only hosts that are named are let in.
    pub(super) fn names_hosts(&self, volume: VolumeId) -> bool {
        self.homes.get(&volume).is_some_and(|home| !home.hosts.contains_key(names::ANY))
    }
}

impl Home {
    fn admitted(&self) -> Hosts {
        if self.hosts.contains_key(names::ANY) {
            return Hosts::Any;
        }
        Hosts::Only(self.hosts.keys().cloned().collect())
    }

    /// Told as a failure, or hosts would be sent here in vain.
    fn fail(&mut self, volume: VolumeId, why: &'static str) {
        if self.unreachable.replace(why).is_none() {
            error!(%volume, "the target cannot be exported: {why}");
        }
    }

    /// As the machine sees it, unless nobody can reach what it serves.
    pub(super) fn seen(&self) -> TargetSeen {
        let mut seen = self.machine.seen();
        if let Some(why) = self.unreachable
            && seen.health == TargetHealth::Serving
        {
            seen.health = TargetHealth::Failed { reason: why.into() };
        }
        seen
    }
}

impl Shard {
    pub(super) fn start_target(&mut self, volume: VolumeId, item: TargetItem) {
        let seat = mirror::Seat {
            volume,
            instance: self.identity.instance,
            node: self.identity.node,
            times: self.identity.times,
            geometry: mirror::Geometry::default(),
            throttle: self.identity.throttle,
        };
        let epoch = item.epoch;
        let mut out = Vec::new();
        let machine = Target::start(seat, item.clone(), self.now(), &mut out);
        let home = Home {
            machine,
            item,
            hosts: BTreeMap::new(),
            subsystem: None,
            unreachable: None,
            local: BTreeMap::new(),
            call: 0,
            composed: BTreeMap::new(),
            flow: Flow::default(),
            copied: 0,
        };
        info!(%volume, %epoch, "target starting");
        self.targets.homes.insert(volume, home);
        self.queue_target(volume, epoch, out);
        self.name_hosts(volume);
        self.changed();
    }

    pub(super) fn update_target(&mut self, volume: VolumeId, item: &TargetItem) {
        let Some(home) = self.targets.homes.get_mut(&volume) else { return };
        if home.item != *item {
            home.item = item.clone();
            self.tell_target(volume, Input::Config(item.clone()));
        }
        self.name_hosts(volume);
    }

    /// Ends it at once: hosts turn elsewhere, replicas are let go.
    pub(super) fn drop_target(&mut self, volume: VolumeId) {
        let Some(home) = self.targets.homes.remove(&volume) else { return };
        let epoch = home.machine.epoch();
        self.withdraw(volume, home.subsystem);
        for ((replica, _), number) in home.local {
            self.replica_session_closed(replica, number);
        }
        self.drop_children(volume, epoch);
        let ended = self.ended.entry(volume).or_default();
        *ended = (*ended).max(epoch);
        info!(%volume, %epoch, "target ended");
        self.changed();
    }

    /// Ends it for a drill: nothing is written down, as if it had died.
    pub(super) fn strike_target(&mut self, target: TargetKey) {
        let TargetKey { volume, epoch } = target;
        let home = self.targets.homes.get(&volume);
        if home.is_some_and(|home| home.machine.epoch() == epoch) {
            warn!(%volume, %epoch, "target struck, for a drill");
            self.drop_target(volume);
        }
    }

    fn withdraw(&mut self, volume: VolumeId, subsystem: Option<SubsystemId>) {
        let seats: Vec<u64> =
            self.front.sessions_of(Whom::Volume(volume)).map(|seat| seat.number).collect();
        for number in seats {
            self.front.end(number, Code::Inaccessible.into());
        }
        if let Some(subsystem) = subsystem {
            self.front.port.remove_subsystem(subsystem);
            self.front.exports.remove(&subsystem);
        }
    }

    pub(super) fn tell_target(&mut self, volume: VolumeId, input: Input<Buffer>) {
        let now = self.now();
        let Some(home) = self.targets.homes.get_mut(&volume) else { return };
        let mut out = Vec::new();
        home.machine.handle(now, input, &mut out);
        let epoch = home.machine.epoch();
        self.queue_target(volume, epoch, out);
    }

    fn queue_target(&mut self, volume: VolumeId, epoch: Epoch, out: Vec<Output<Buffer>>) {
        self.work.extend(out.into_iter().map(|output| Work::Target(volume, epoch, output)));
    }

    pub(super) fn tick_targets(&mut self) {
        let now = self.now();
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let due: Vec<VolumeId> = self
            .targets
            .homes
            .iter()
            .filter(|(_, home)| is_due(home.machine.next_deadline()))
            .map(|(volume, _)| *volume)
            .collect();
        for volume in due {
            self.tell_target(volume, Input::Tick);
        }
    }

    pub(super) fn next_target_deadline(&self) -> Option<Instant> {
        let deadlines = self.targets.homes.values().filter_map(|home| home.machine.next_deadline());
        deadlines.min().map(|at| self.began + std::time::Duration::from_millis(at.0))
    }

    /// A command of a host.
    pub(super) fn volume_asked(&mut self, volume: VolumeId, session: SessionId, tag: Tag, op: Op) {
        let Some((session, number)) = self.ask(session, tag, &op) else {
            self.front.port.complete(tag, Err(Code::Inaccessible.into()));
            return;
        };
        let Some(home) = self.targets.homes.get_mut(&volume) else {
            self.front.answer(number, Err(Code::Inaccessible.into()));
            return;
        };
        let command = match op {
            Op::Read { extent } => Command::Read { extent },
            Op::Write { extent, data, fua } => Command::Write { extent, data, fua },
            Op::Flush => Command::Flush,
            Op::Zero { extent, fua, .. } => Command::Zero { extent, fua },
            Op::Compare { extent, data } => {
                home.composed.insert(number, Composed::Compare(data));
                Command::Read { extent }
            }
            Op::Verify { extent } => {
                home.composed.insert(number, Composed::Verify);
                Command::Read { extent }
            }
            Op::Deallocate { extents } => {
                return self.deallocate(volume, session, number, &extents);
            }
            Op::Persist(reservations) => Command::Reserve(reserved::kept(&reservations)),
            Op::Reservation(_) | Op::Vendor(_) => {
                self.front.answer(number, Err(Code::InvalidOpcode.into()));
                return;
            }
        };
        self.tell_target(volume, Input::Command { session, tag: number, command });
    }

    fn deallocate(
        &mut self,
        volume: VolumeId,
        session: u64,
        number: u64,
        extents: &[block::Extent],
    ) {
        let extents: Vec<_> = extents.iter().flat_map(|extent| cut(*extent)).collect();
        let Some(home) = self.targets.homes.get_mut(&volume) else { return };
        if extents.is_empty() {
            self.front.answer(number, Ok(Reply::Done));
            return;
        }
        home.composed.insert(number, Composed::Whole { left: extents.len(), fault: None });
        for extent in extents {
            let part = self.front.next_number();
            if let Some(home) = self.targets.homes.get_mut(&volume) {
                home.composed.insert(part, Composed::Part { whole: number });
            }
            let command = Command::Zero { extent, fua: false };
            self.tell_target(volume, Input::Command { session, tag: part, command });
        }
    }

    pub(super) fn target_says(&mut self, volume: VolumeId, epoch: Epoch, output: Output<Buffer>) {
        let home = self.targets.homes.get_mut(&volume);
        let Some(home) = home.filter(|home| home.machine.epoch() == epoch) else { return };
        match output {
            Output::Open { child, node, session } => {
                self.open_child(volume, epoch, child, node, session);
            }
            Output::Close { child, session } => match home.local.remove(&(child, session)) {
                Some(number) => self.replica_session_closed(child, number),
                None => self.close_child(volume, epoch, child, session),
            },
            Output::Send { child, session, tag, request } => {
                if let mirror::Request::Fetch { extent, .. } = &request {
                    home.copied += extent.bytes();
                }
                match home.local.get(&(child, session)) {
                    Some(number) => {
                        let number = *number;
                        self.ask_replica(child, number, tag, request);
                    }
                    None => self.send_child(volume, epoch, child, session, tag, request),
                }
            }
            Output::Reply(reply) => {
                let result = match reply.result {
                    HostResult::Done => Ok(Reply::Done),
                    HostResult::Data(data) => Ok(Reply::Data(data)),
                    HostResult::Failed(fault) => Err(status(fault)),
                };
                self.reply(volume, reply.tag, result);
            }
            Output::CloseHost { session } => {
                self.front.end_all_but_kept(session, Code::Inaccessible.into());
            }
            Output::ReadRecord => self.ask_store(volume, RecordAsk::Read),
            Output::Commit { mut record, expected } => {
                record.revision = expected;
                self.ask_store(volume, RecordAsk::Swap(Box::new(record)));
            }
            Output::Seen => self.target_seen(volume),
            Output::Notice(notice) => tell(volume, epoch, &notice),
        }
    }

    fn open_child(
        &mut self,
        volume: VolumeId,
        epoch: Epoch,
        child: ReplicaId,
        node: model::NodeId,
        session: u64,
    ) {
        if node != self.identity.node {
            self.dial_child(volume, epoch, child, node, session);
            return;
        }
        let number = self.front.next_number();
        if self.open_local(child, volume, session, number, epoch) {
            if let Some(home) = self.targets.homes.get_mut(&volume) {
                home.local.insert((child, session), number);
            }
        } else {
            self.tell_target(volume, Input::ChildClosed { child, session });
        }
    }

    /// A replica of this engine ended a local session.
    pub(super) fn local_closed(
        &mut self,
        child: ReplicaId,
        volume: VolumeId,
        session: u64,
        number: u64,
    ) {
        if let Some(home) = self.targets.homes.get_mut(&volume) {
            home.local.remove(&(child, session));
        }
        self.replica_session_closed(child, number);
        self.tell_target(volume, Input::ChildClosed { child, session });
    }

    fn reply(&mut self, volume: VolumeId, tag: u64, result: Result<Reply, Status>) {
        let Some(home) = self.targets.homes.get_mut(&volume) else { return };
        let result = match home.composed.remove(&tag) {
            None => result,
            Some(Composed::Verify) => result.map(|_| Reply::Done),
            Some(Composed::Compare(expected)) => match result {
                Ok(Reply::Data(found)) if found == expected => Ok(Reply::Done),
                Ok(_) => Err(Code::CompareFailure.into()),
                Err(status) => Err(status),
            },
            Some(Composed::Part { whole }) => {
                let Some(Composed::Whole { left, fault }) = home.composed.get_mut(&whole) else {
                    return;
                };
                *left -= 1;
                *fault = fault.or(result.err());
                if *left > 0 {
                    return;
                }
                let result = fault.map_or(Ok(Reply::Done), Err);
                home.composed.remove(&whole);
                return self.answer_host(volume, whole, result);
            }
            Some(Composed::Whole { .. }) => return,
        };
        self.answer_host(volume, tag, result);
    }

    fn answer_host(&mut self, volume: VolumeId, tag: u64, result: Result<Reply, Status>) {
        let is_error = result.is_err();
        let Some(asked) = self.front.answer(tag, result) else { return };
        let Some(home) = self.targets.homes.get_mut(&volume) else { return };
        let traffic = match asked.kind {
            Kind::Read => &mut home.flow.read,
            Kind::Write => &mut home.flow.write,
            Kind::Flush => &mut home.flow.flush,
            Kind::Keep | Kind::Other => return,
        };
        traffic.latency.add(asked.at.elapsed());
        traffic.bytes += asked.bytes;
        traffic.errors += u64::from(is_error);
    }

    fn ask_store(&mut self, volume: VolumeId, ask: RecordAsk) {
        let Some(home) = self.targets.homes.get_mut(&volume) else { return };
        home.call += 1;
        let target = TargetKey { volume, epoch: home.machine.epoch() };
        // The control side ends only with the process.
        let _ = self.ties.notices.send(handle::Notice::Ask { target, call: home.call, ask });
    }

    pub(super) fn store_answered(&mut self, target: TargetKey, call: u64, answer: RecordAnswer) {
        let home = self.targets.homes.get(&target.volume);
        let is_late = |home: &Home| home.machine.epoch() != target.epoch || home.call != call;
        if home.is_none_or(is_late) {
            return;
        }
        let answer = match answer {
            RecordAnswer::Read(Ok(Some(record))) => StoreAnswer::Record(*record),
            RecordAnswer::Read(Ok(None)) => {
                warn!(volume = %target.volume, "the volume has no membership record");
                StoreAnswer::Unknown
            }
            RecordAnswer::Swapped(Ok(revision)) => StoreAnswer::Committed(revision),
            RecordAnswer::Swapped(Err(MembershipError::Conflict { .. })) => StoreAnswer::Conflict,
            RecordAnswer::Read(Err(error)) | RecordAnswer::Swapped(Err(error)) => {
                warn!(volume = %target.volume, %error, "the store did not answer");
                StoreAnswer::Unknown
            }
        };
        self.tell_target(target.volume, Input::Store(answer));
    }

    /// Exports it while it serves, and not a moment longer.
    fn target_seen(&mut self, volume: VolumeId) {
        self.changed();
        let Some(home) = self.targets.homes.get_mut(&volume) else { return };
        // On the way out it stays in the inventory: nobody is to bring it back here.
        if *home.machine.phase() == Phase::Stopped && self.stopping.is_none() {
            self.drop_target(volume);
            return;
        }
        match (home.machine.is_serving(), home.subsystem) {
            (true, None) => self.export(volume),
            (false, Some(subsystem)) => {
                home.subsystem = None;
                self.withdraw(volume, Some(subsystem));
            }
            _ => {}
        }
    }

    fn export(&mut self, volume: VolumeId) {
        let Some(home) = self.targets.homes.get_mut(&volume) else { return };
        let Some(reservations) = reserved::read(home.machine.record().reserved.as_ref()) else {
            home.fail(volume, "its reservations were written by another version");
            return;
        };
        let (first_cntlid, cntlids) = names::controller_range(home.machine.epoch().0);
        let subsystem = Subsystem {
            nqn: names::nqn(volume.0),
            serial: names::serial(volume.0),
            hosts: home.admitted(),
            namespace: Namespace {
                uuid: volume.0,
                nguid: *volume.0.as_bytes(),
                blocks: home.item.size.0 / block::BLOCK as u64,
                is_thin: true,
                ana: Ana::Optimized,
            },
            first_cntlid,
            cntlids,
            kind: nvme::target::Kind::Volume { reservations, can_last: true },
        };
        if !self.faults.not_exported.contains(&volume) {
            home.subsystem = self.front.port.add_subsystem(subsystem);
        }
        match home.subsystem {
            Some(id) => {
                home.unreachable = None;
                self.front.exports.insert(id, Export::Volume(volume));
            }
            None => home.fail(volume, "its name is taken on this engine's port"),
        }
    }

    /// Lets in the hosts of the config and tells them of a new size.
    fn name_hosts(&mut self, volume: VolumeId) {
        let Some(home) = self.targets.homes.get_mut(&volume) else { return };
        let desired = &self.desired;
        let named = |host: &HostId| Some((desired.nqn(*host)?.to_string(), *host));
        home.hosts = home.item.hosts.iter().filter_map(named).collect();
        if let Some(subsystem) = home.subsystem {
            self.front.port.set_hosts(subsystem, &home.admitted());
            self.front.port.resize(subsystem, home.item.size.0 / block::BLOCK as u64);
        }
    }
}

/// Parts of at most 16 MiB: none holds the lock for long, and each fits one command.
fn cut(extent: block::Extent) -> impl Iterator<Item = block::Extent> {
    const PART: u32 = 4096;
    (0..extent.blocks).step_by(PART as usize).map(move |at| {
        block::Extent::new(extent.start + u64::from(at), PART.min(extent.blocks - at))
    })
}

fn status(fault: HostFault) -> Status {
    match fault {
        HostFault::OutOfRange => Code::LbaOutOfRange.into(),
        HostFault::NoSpace => Status::new(Code::CapacityExceeded).never_again(),
        HostFault::WriteFault => Status::new(Code::WriteFault).never_again(),
        HostFault::Unreadable => Code::UnrecoveredRead.into(),
    }
}

fn tell(volume: VolumeId, epoch: Epoch, notice: &Notice) {
    match notice {
        Notice::Serving => info!(%volume, %epoch, "target serving"),
        Notice::Lost { replica, why } => warn!(%volume, %replica, ?why, "replica lost"),
        Notice::Excluded { replica } => warn!(%volume, %replica, "replica excluded"),
        Notice::Returned { replica, is_partial } => {
            info!(%volume, %replica, is_partial, "replica returned");
        }
        Notice::Admitted { replica } => info!(%volume, %replica, "replica healthy again"),
        Notice::SelfFenced => warn!(%volume, %epoch, "target fenced by a higher epoch"),
        Notice::UnflushedLost => {
            warn!(%volume, "no replica was intact: writes that were not flushed may be gone");
        }
        Notice::RecordOlder => warn!(%volume, "the store knows less than the replicas"),
        Notice::SnapshotBrought { replica, snapshot } => {
            info!(%volume, %replica, %snapshot, "snapshot brought to a replica");
        }
        Notice::SnapshotFailed { snapshot } => warn!(%volume, %snapshot, "snapshot failed"),
    }
}
