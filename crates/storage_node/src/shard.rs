//! A shard: everything mutable of the data path that lives on one thread.
//!
//! ```text
//!  connections ─▶ port ─▶ targets ─▶ messages ─▶ replicas ─▶ pools ─▶ disks
//!                   └────▶ replicas  └─▶ links ─▶ connections
//! ```
//! A turn takes what happened, then runs the parts until none has anything more to say, and then
//! settles: makes the node what its config says. Nothing here waits.

use alloc::collections::BTreeSet;
use core::time::Duration;

use model::{HostId, VolumeId};

use crate::{
    NodeParams, TargetKey,
    config::ConfigProgress,
    context::{ConnOwner, ShardContext},
    effect::Effect,
    inventory::{Parts, Reports},
    message::Message,
    nvme_port::PortEvent,
    storage::Storage,
    targets::Targets,
};

/// While anything goes on, machines are told the time at least this often. No deadline of theirs is
/// shorter than some hundred milliseconds, so none is late by more than a fraction.
const TICK: Duration = Duration::from_millis(20);
/// A pool that is away is looked for now and then.
const LOOK: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) cx: ShardContext,
    pub(crate) storage: Storage,
    pub(crate) targets: Targets,
    pub(crate) config: ConfigProgress,
    reports: Reports,
}

impl Shard {
    pub(crate) fn new(params: NodeParams, now: Duration) -> Self {
        Self {
            cx: ShardContext::new(params, now),
            storage: Storage::default(),
            targets: Targets::default(),
            config: ConfigProgress::default(),
            reports: Reports::default(),
        }
    }

    /// Something comes in.
    pub(crate) fn wake(&mut self, now: Duration) {
        self.cx.now = self.cx.now.max(now);
        self.cx.wake_by(self.cx.now + TICK);
    }

    pub(crate) fn received(&mut self, conn: u32, bytes: &[u8]) {
        match self.cx.conns.get(conn).copied() {
            Some(ConnOwner::Port(id)) => self.cx.port.receive(self.cx.now, id, bytes),
            Some(ConnOwner::Link(link)) => self.targets.links.received(&mut self.cx, link, bytes),
            None => {}
        }
    }

    pub(crate) fn connected(&mut self, conn: u32) {
        if let Some(ConnOwner::Link(link)) = self.cx.conns.get(conn).copied() {
            self.targets.links.connected(&mut self.cx, link);
        }
    }

    pub(crate) fn conn_closed(&mut self, conn: u32) {
        match self.cx.conns.remove(conn) {
            Some(ConnOwner::Port(id)) => self.cx.port.closed(id),
            Some(ConnOwner::Link(link)) => self.targets.links.closed(link),
            None => {}
        }
    }

    /// Runs the parts until none has anything more to say.
    pub(crate) fn run(&mut self) {
        let is_tick = self.cx.now >= self.cx.next_tick;
        if is_tick {
            self.tick();
        }
        loop {
            let mut is_quiet = true;
            while self.cx.port.is_ready()
                && let Some(event) = self.cx.port.poll(self.cx.now, &mut self.cx.effects)
            {
                is_quiet = false;
                self.port_says(event);
            }
            while let Some(message) = self.cx.messages.pop_front() {
                is_quiet = false;
                self.deliver(message);
            }
            is_quiet &= !self.targets.poll_links(&mut self.cx);
            if is_quiet && core::mem::take(&mut self.cx.needs_settling) {
                self.config.settle(&mut self.cx, &mut self.storage, &mut self.targets);
                self.cx.needs_report = true;
                is_quiet = false;
            }
            if is_quiet {
                break;
            }
        }
        if core::mem::take(&mut self.cx.needs_report) || is_tick {
            self.compare_reports();
        }
        self.answer_inventories();
    }

    fn deliver(&mut self, message: Message) {
        let cx = &mut self.cx;
        match message {
            Message::OpenReplica { replica, session, from } => {
                self.storage.open_replica(cx, replica, session, from);
            }
            Message::ReplicaRequest { replica, session, tag, request } => {
                let replica = self.storage.replicas.handle(replica);
                self.storage.ask_replica(cx, replica, session, tag, request);
            }
            Message::CloseReplica { replica, session } => {
                self.storage.replica_session_closed(cx, replica, session);
            }
            Message::ChildAnswer(answer) => self.targets.child_answered(cx, answer),
            Message::TargetInput { target, input } => self.targets.input_to(cx, target, *input),
            Message::ReplicaDiskDone { replica, id, result } => {
                self.storage.replica_disk_done(cx, replica, id, result);
            }
            Message::PollPool(pool) => self.storage.poll_pool(cx, pool),
            Message::ConfigWorkDone { pool, work, result } => {
                self.config.work_done(cx, &mut self.storage, pool, work, result);
            }
        }
    }

    fn port_says(&mut self, event: PortEvent) {
        let cx = &mut self.cx;
        match event {
            PortEvent::ReplicaCommand { replica, session, number, op } => {
                self.storage.replica_command(cx, replica, session, number, op);
            }
            PortEvent::VolumeCommand { volume, session, number, op } => {
                self.targets.host_command(cx, volume, session, number, op);
            }
            PortEvent::DeviceIo { tag, disk, io } => {
                self.storage.start_device_io(cx, tag, disk, io);
            }
            PortEvent::SessionOpened { session } => {
                let replica = session.replica();
                if replica.is_some_and(|replica| cx.faults.hidden.contains(&replica)) {
                    cx.port.end_session(session.number, nvme::Code::Inaccessible.into());
                }
                cx.needs_report = true;
                self.targets.host_session(cx, &session, true);
            }
            PortEvent::SessionClosed { session } => {
                if let Some(replica) = session.replica() {
                    self.storage.replica_session_closed(cx, replica, session.number);
                }
                cx.needs_report = true;
                self.targets.host_session(cx, &session, false);
            }
        }
    }

    fn tick(&mut self) {
        let cx = &mut self.cx;
        let now = cx.now;
        // Whoever wants to be woken says so below, or while it acts.
        cx.next_tick = now + LOOK;
        cx.port.tick(now);
        self.targets.tick(cx);
        self.targets.links.tick(now);
        cx.needs_settling |= self.config.is_due(cx, &self.storage);
        if let Some(at) = self.storage.retry_busy_disks(cx) {
            cx.wake_by(at);
        }
        let deadlines = [
            cx.port.next_deadline(),
            self.targets.next_deadline(),
            self.targets.links.next_deadline(),
        ];
        if let Some(at) = deadlines.into_iter().flatten().min() {
            // Never at once again: a deadline that does not move must not make a loop.
            cx.wake_by(at.max(now + Duration::from_millis(1)));
        }
    }

    fn compare_reports(&mut self) {
        let Self { cx, storage, targets, config, reports } = self;
        if let Some(sequence) = reports.compare(cx, storage, targets, config) {
            cx.put(Effect::Outdated { sequence });
        }
    }

    /// Answers who asked for an inventory, unless what was found at start is still being opened.
    fn answer_inventories(&mut self) {
        if self.config.pending_inventories.is_empty() {
            return;
        }
        if self.config.is_looking(&self.cx, &self.storage) {
            self.cx.wake_by(self.cx.now + TICK);
            return;
        }
        // Others may have the last one and wait to hear that it is out of date: this one tells them
        // nothing.
        self.compare_reports();
        for (ticket, _) in core::mem::take(&mut self.config.pending_inventories) {
            let Self { cx, storage, targets, config, reports } = self;
            let inventory = reports.inventory(cx, Parts { storage, targets, config }).into();
            cx.put(Effect::Inventory { ticket, inventory });
        }
    }

    pub(crate) fn look(&self) -> model::Inventory {
        let Self { cx, storage, targets, config, reports } = self;
        reports.look(cx, Parts { storage, targets, config })
    }

    pub(crate) fn hosts_of(&self, volume: VolumeId) -> BTreeSet<HostId> {
        let target = self.targets.entries.get(&volume);
        let attached = target.map(|entry| entry.machine.attached()).unwrap_or_default();
        let sessions = crate::inventory::hosts_of(&self.cx, volume);
        attached.into_iter().chain(sessions).collect()
    }

    pub(crate) fn fail_target(&mut self, target: TargetKey) {
        self.targets.fail_on_purpose(&mut self.cx, target);
    }
}
