//! Targets: the machines, the hosts in front of them and the replicas behind.
//!
//! A replica of this node is reached by messages, one of another node by an NVMe session
//! (`child_links`). The machine decides everything about replication; here is decided when it is
//! exported, and to whom its answers go.

mod child_links;
mod host_commands;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString},
    vec::Vec,
};
use core::time::Duration;

use block::Buffer;
use mirror::{Input, Output, Phase, StoreAnswer, StoreRequest, Target};
use model::{
    Epoch, HostId, NodeId, ReplicaId, TargetHealth, TargetItem, TargetSeen, Time, VolumeId,
};
use nvme::Code;

pub(crate) use self::child_links::LinkConn;
use self::{
    child_links::{ChildLinks, LinkKey},
    host_commands::HostCommands,
};
use crate::{
    LogEvent, TargetKey,
    context::{ShardContext, Subject},
    effect::Effect,
    message::{ChildAnswer, LocalTarget, Message},
    nvme_port::{Export, PortSession},
    registry::{Handle, Registry},
    reservations,
};

#[derive(Debug, Default)]
pub(crate) struct Targets {
    pub(crate) entries: Registry<VolumeId, TargetEntry>,
    pub(crate) links: ChildLinks,
    /// Targets that are over: their epochs never start again here.
    ended: BTreeMap<VolumeId, Epoch>,
}

#[derive(Debug)]
pub(crate) struct TargetEntry {
    pub(crate) machine: Target<Buffer>,
    pub(crate) item: TargetItem,
    is_exported: bool,
    /// Why nobody can reach it although it is ready.
    unreachable: Option<&'static str>,
    /// A few: one for each replica, and old ones that are being closed.
    sessions: Vec<ChildSession>,
    /// The question that the store was asked last.
    call: u64,
    commands: HostCommands,
    /// Bytes that were copied from replica to replica.
    pub(crate) copied: u64,
    /// It may differ from its last report.
    pub(crate) is_touched: bool,
}

/// A session with a replica.
#[derive(Debug)]
struct ChildSession {
    child: ReplicaId,
    /// The target's number of it.
    session: u64,
    path: ChildPath,
}

#[derive(Clone, Copy, Debug)]
enum ChildPath {
    /// To a replica of this node, which knows the session by this number.
    Messages {
        session: u64,
    },
    Link(Handle<LinkKey>),
}

impl TargetEntry {
    fn path(&self, child: ReplicaId, session: u64) -> Option<ChildPath> {
        let is_it = |open: &&ChildSession| open.session == session && open.child == child;
        self.sessions.iter().find(is_it).map(|open| open.path)
    }

    fn remove_session(&mut self, child: ReplicaId, session: u64) -> Option<ChildPath> {
        let path = self.path(child, session)?;
        self.sessions.retain(|open| open.session != session || open.child != child);
        Some(path)
    }

    fn key(&self, volume: VolumeId) -> TargetKey {
        TargetKey { volume, epoch: self.machine.epoch() }
    }

    /// As the machine sees it, unless nobody can reach what it serves.
    pub(crate) fn seen(&self) -> TargetSeen {
        let mut seen = self.machine.seen();
        if let Some(why) = self.unreachable
            && seen.health == TargetHealth::Serving
        {
            seen.health = TargetHealth::Failed { reason: why.into() };
        }
        seen
    }

    /// The hosts of the config, by the names they connect with.
    fn named_hosts(&self, cx: &ShardContext) -> BTreeMap<String, HostId> {
        let named = |host: &HostId| Some((cx.desired.nqn(*host)?.to_string(), *host));
        self.item.hosts.iter().filter_map(named).collect()
    }
}

impl Targets {
    /// Makes the volume's target what the config says, if that is for this process.
    pub(crate) fn settle(
        &mut self,
        cx: &mut ShardContext,
        volume: VolumeId,
        item: TargetItem,
        may_start: bool,
    ) {
        match self.entries.get(&volume).map(|entry| entry.machine.epoch()) {
            Some(epoch) if epoch == item.epoch => return self.update(cx, volume, &item),
            Some(epoch) if epoch > item.epoch => return,
            Some(_) => self.remove(cx, volume),
            None => {}
        }
        let ended = self.ended.get(&volume).copied().unwrap_or(Epoch::ZERO);
        let is_ours = item.instance == cx.params.instance;
        if item.serve && is_ours && ended < item.epoch && may_start {
            self.start(cx, volume, item);
        }
    }

    fn start(&mut self, cx: &mut ShardContext, volume: VolumeId, item: TargetItem) {
        let seat = mirror::Seat {
            volume,
            instance: cx.params.instance,
            node: cx.params.node,
            times: cx.params.times,
            geometry: cx.params.geometry,
            throttle: cx.params.throttle,
        };
        let epoch = item.epoch;
        let mut out = core::mem::take(&mut cx.target_outputs);
        let machine = Target::start(seat, item.clone(), cx.time(), &mut out);
        #[cfg(feature = "flaws")]
        let machine = match cx.params.mutations.mirror {
            Some(flaw) => machine.flawed(flaw),
            None => machine,
        };
        let mut entry = TargetEntry {
            machine,
            item,
            is_exported: false,
            unreachable: None,
            sessions: Vec::new(),
            call: 0,
            commands: HostCommands::default(),
            copied: 0,
            is_touched: false,
        };
        let target = TargetKey { volume, epoch };
        cx.log(LogEvent::TargetStarting { target });
        cx.touch(&mut entry.is_touched, Subject::Target(volume));
        let handle = self.entries.insert(volume, entry);
        self.say_all(cx, handle, epoch, out);
    }

    /// Does what a machine said, in order. Nothing comes back to a machine within it: answers are
    /// messages.
    fn say_all(
        &mut self,
        cx: &mut ShardContext,
        volume: Handle<VolumeId>,
        epoch: Epoch,
        mut outputs: Vec<Output<Buffer>>,
    ) {
        for output in outputs.drain(..) {
            self.says(cx, volume, epoch, output);
        }
        cx.target_outputs = outputs;
    }

    fn update(&mut self, cx: &mut ShardContext, volume: VolumeId, item: &TargetItem) {
        let Some(entry) = self.entries.get_mut(&volume) else { return };
        if entry.item != *item {
            entry.item = item.clone();
            cx.tell_target(entry.key(volume), Input::Config(item.clone()));
        }
        if entry.is_exported {
            cx.port.set_volume_hosts(volume, entry.named_hosts(cx));
            cx.port.resize(Export::Volume(volume), blocks(&entry.item));
        }
    }

    /// Has every target end cleanly.
    pub(crate) fn stop_all(&mut self, cx: &mut ShardContext) {
        let items = self.entries.iter().map(|(volume, entry)| (*volume, entry.item.clone()));
        for (volume, item) in items.collect::<Vec<_>>() {
            self.update(cx, volume, &TargetItem { serve: false, ..item });
        }
    }

    pub(crate) fn are_over(&self) -> bool {
        self.entries.values().all(|entry| entry.machine.is_over())
    }

    pub(crate) fn remove_all(&mut self, cx: &mut ShardContext) {
        let volumes: BTreeSet<VolumeId> = self.entries.keys().copied().collect();
        for volume in volumes {
            self.remove(cx, volume);
        }
    }

    /// A tombstone names it: no epoch up to this one serves here again.
    pub(crate) fn end(&mut self, cx: &mut ShardContext, volume: VolumeId, epoch: Epoch) {
        let ended = self.ended.entry(volume).or_default();
        *ended = (*ended).max(epoch);
        let entry = self.entries.get(&volume);
        if entry.is_some_and(|entry| entry.machine.epoch() <= epoch) {
            self.remove(cx, volume);
        }
    }

    /// Ends it at once: hosts turn elsewhere, replicas are let go.
    fn remove(&mut self, cx: &mut ShardContext, volume: VolumeId) {
        let Some(entry) = self.entries.remove(&volume) else { return };
        let target = entry.key(volume);
        cx.port.withdraw(Export::Volume(volume));
        for ChildSession { child: replica, path, .. } in entry.sessions {
            if let ChildPath::Messages { session } = path {
                cx.send(Message::CloseReplica { replica, session });
            }
        }
        self.links.drop_target(cx, target);
        let ended = self.ended.entry(volume).or_default();
        *ended = (*ended).max(target.epoch);
        cx.touched.push(Subject::Target(volume));
        cx.log(LogEvent::TargetEnded { target });
    }

    /// Ends it for a drill: nothing is written down, as if it had died.
    pub(crate) fn fail_on_purpose(&mut self, cx: &mut ShardContext, target: TargetKey) {
        let entry = self.entries.get(&target.volume);
        if entry.is_some_and(|entry| entry.machine.epoch() == target.epoch) {
            cx.log(LogEvent::TargetFailedOnPurpose { target });
            self.remove(cx, target.volume);
        }
    }

    /// For the target of this epoch; what is for an earlier one comes too late.
    pub(crate) fn input_to(
        &mut self,
        cx: &mut ShardContext,
        target: TargetKey,
        input: Input<Buffer>,
    ) {
        let entry = self.entries.get(&target.volume);
        if entry.is_some_and(|entry| entry.machine.epoch() == target.epoch) {
            self.input(cx, target.volume, input);
        }
    }

    fn input(&mut self, cx: &mut ShardContext, volume: VolumeId, input: Input<Buffer>) {
        let handle = self.entries.handle(volume);
        if let Input::ChildClosed { child, session } = input
            && let Some(entry) = self.entries.at_mut(handle)
        {
            entry.remove_session(child, session);
        }
        self.with_target(cx, handle, |machine, now, out| machine.handle(now, input, out));
    }

    /// What a replica answered to the target of this epoch, if that is still there.
    pub(crate) fn child_answered(&mut self, cx: &mut ShardContext, answer: ChildAnswer) {
        let ChildAnswer { to, child, tag, answer } = answer;
        let LocalTarget { volume, epoch, session } = to;
        self.with_target(cx, volume, |machine, now, out| {
            if machine.epoch() == epoch {
                machine.take_answer(now, child, session, tag, answer, out);
            }
        });
    }

    /// Takes what came over the links to other nodes. True if there was something to do.
    pub(crate) fn poll_links(&mut self, cx: &mut ShardContext) -> bool {
        if self.links.is_idle() {
            return false;
        }
        while let Some(answer) = self.links.next_answer(cx) {
            self.child_answered(cx, answer);
        }
        true
    }

    /// Lets a machine act, and does what it says.
    fn with_target(
        &mut self,
        cx: &mut ShardContext,
        volume: Handle<VolumeId>,
        act: impl FnOnce(&mut Target<Buffer>, Time, &mut Vec<Output<Buffer>>),
    ) {
        let Some(entry) = self.entries.at_mut(volume) else { return };
        cx.touch(&mut entry.is_touched, Subject::Target(volume.id));
        let mut out = core::mem::take(&mut cx.target_outputs);
        act(&mut entry.machine, cx.time(), &mut out);
        let epoch = entry.machine.epoch();
        self.say_all(cx, volume, epoch, out);
    }

    pub(crate) fn tick(&mut self, cx: &mut ShardContext) {
        let now = cx.time();
        let is_due =
            |entry: &TargetEntry| entry.machine.next_deadline().is_some_and(|at| at <= now);
        let due = self.entries.iter().filter(|(_, entry)| is_due(entry));
        let due: Vec<VolumeId> = due.map(|(volume, _)| *volume).collect();
        for volume in due {
            self.input(cx, volume, Input::Tick);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let deadlines = self.entries.values().filter_map(|entry| entry.machine.next_deadline());
        deadlines.min().map(|at| Duration::from_millis(at.0))
    }

    fn says(
        &mut self,
        cx: &mut ShardContext,
        volume: Handle<VolumeId>,
        epoch: Epoch,
        output: Output<Buffer>,
    ) {
        let entry = self.entries.at_mut(volume);
        let Some(entry) = entry.filter(|entry| entry.machine.epoch() == epoch) else { return };
        match output {
            Output::Open { child, node, session } => {
                self.open_child(cx, LocalTarget { volume, epoch, session }, child, node);
            }
            Output::Close { child, session } => match entry.remove_session(child, session) {
                Some(ChildPath::Messages { session }) => {
                    cx.send(Message::CloseReplica { replica: child, session });
                }
                Some(ChildPath::Link(link)) => self.links.close(cx, link),
                None => {}
            },
            Output::Send { child, session, tag, request } => {
                if let mirror::Request::Fetch { extent, .. } = &request {
                    entry.copied += extent.bytes();
                }
                match entry.path(child, session) {
                    Some(ChildPath::Messages { session }) => {
                        cx.send(Message::ReplicaRequest { replica: child, session, tag, request });
                    }
                    Some(ChildPath::Link(link)) => self.links.send(cx, link, tag, request),
                    None => {}
                }
            }
            Output::Reply(reply) => {
                if let Some((number, result)) = entry.commands.finish(reply) {
                    cx.port.answer(cx.now, number, result);
                }
            }
            Output::CloseHost { session } => {
                cx.port.end_all_but_reserving(session, Code::Inaccessible.into());
            }
            Output::AskStore(request) => entry.ask_store(cx, volume.id, request),
            Output::Seen => {
                cx.needs_report = true;
                self.export_while_serving(cx, volume);
            }
            Output::Notice(notice) => {
                let target = TargetKey { volume: volume.id, epoch };
                cx.log(LogEvent::Target { target, notice });
            }
        }
    }

    fn open_child(
        &mut self,
        cx: &mut ShardContext,
        from: LocalTarget,
        child: ReplicaId,
        node: NodeId,
    ) {
        let path = if node == cx.params.node {
            let session = cx.port.next_number();
            cx.send(Message::OpenReplica { replica: child, session, from });
            ChildPath::Messages { session }
        } else {
            let Some(link) = self.links.dial(cx, from, child, node) else { return };
            ChildPath::Link(link)
        };
        if let Some(entry) = self.entries.at_mut(from.volume) {
            entry.sessions.push(ChildSession { child, session: from.session, path });
        }
    }

    pub(crate) fn store_answered(
        &mut self,
        cx: &mut ShardContext,
        target: TargetKey,
        call: u64,
        answer: StoreAnswer,
    ) {
        let entry = self.entries.get(&target.volume);
        let is_asked =
            |entry: &TargetEntry| entry.machine.epoch() == target.epoch && entry.call == call;
        if entry.is_some_and(is_asked) {
            self.input(cx, target.volume, Input::Store(answer));
        }
    }

    /// Exports it while it serves, and not a moment longer.
    fn export_while_serving(&mut self, cx: &mut ShardContext, volume: Handle<VolumeId>) {
        let Some(entry) = self.entries.at_mut(volume) else { return };
        // On the way out it stays in the inventory: nobody is to bring it back here.
        if *entry.machine.phase() == Phase::Stopped && !cx.is_stopping {
            return self.remove(cx, volume.id);
        }
        match (entry.machine.is_serving(), entry.is_exported) {
            (true, false) => entry.export(cx, volume),
            (false, true) => {
                entry.is_exported = false;
                cx.port.withdraw(Export::Volume(volume.id));
            }
            _ => {}
        }
    }

    pub(crate) fn host_session(
        &mut self,
        cx: &mut ShardContext,
        session: &PortSession,
        is_open: bool,
    ) {
        let (Some(volume), number) = (session.volume(), session.number) else { return };
        match (is_open, session.host) {
            (true, Some(host)) => {
                self.input(cx, volume, Input::HostOpened { session: number, host });
            }
            (true, None) => {}
            (false, _) => self.input(cx, volume, Input::HostClosed { session: number }),
        }
    }
}

impl TargetEntry {
    fn ask_store(&mut self, cx: &mut ShardContext, volume: VolumeId, request: StoreRequest) {
        self.call += 1;
        let (target, call) = (self.key(volume), self.call);
        cx.put(Effect::AskStore { target, call, request });
    }

    fn export(&mut self, cx: &mut ShardContext, volume: Handle<VolumeId>) {
        let Some(kept) = reservations::read(self.machine.record().reserved.as_ref()) else {
            return self.fail(cx, volume.id, "its reservations were written by another version");
        };
        let (epoch, size) = (self.machine.epoch(), blocks(&self.item));
        let hosts = self.named_hosts(cx);
        self.is_exported = !cx.faults.not_exported.contains(&volume.id)
            && cx.port.export_volume(volume, epoch, size, hosts, kept);
        if self.is_exported {
            self.unreachable = None;
        } else {
            self.fail(cx, volume.id, "its name is taken on this engine's port");
        }
    }

    /// Told as a failure, or hosts would be sent here in vain.
    fn fail(&mut self, cx: &mut ShardContext, volume: VolumeId, reason: &'static str) {
        if self.unreachable.replace(reason).is_none() {
            cx.log(LogEvent::TargetUnreachable { volume, reason });
        }
    }
}

fn blocks(item: &TargetItem) -> u64 {
    item.size.0 / block::BLOCK as u64
}
