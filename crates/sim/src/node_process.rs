//! The process behind a node: what an engine is around the storage node that ships, on simulated
//! disks and connections.
//!
//! It does what the engine's driver and its links to controllers do, and nothing is decided here:
//! configs and questions go in, disks and connections are served, inventories are told when the
//! node says that the last one is out of date.

mod connections;
mod control;
mod facts;
mod hardware;
mod judge;
mod scale;
mod streams;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use model::{InstanceId, Millis, NodeId, PoolId, Time};
use storage_node::{ConnId, DiskId, Effect, LogEvent, Mutations, NodeParams, StorageNode};

pub(crate) use self::streams::Streams;
use self::{control::Control, judge::Watch};
pub use self::{facts::TargetFacts, hardware::Hardware};
pub(crate) use self::{
    facts::{filled, place, refresh_at_rest, value},
    scale::scaled,
    streams::{Heard, address},
};
use crate::{Ctx, Message, Party, Timer, fakes::disk::Disks, names};

#[derive(Debug)]
pub struct NodeProcess {
    node: NodeId,
    pub instance: InstanceId,
    machine: StorageNode,
    streams: Streams<ConnId>,
    /// By the number that the machine knows them by.
    open_disks: BTreeMap<DiskId, OpenedDisk>,
    last_disk: u32,
    /// The disk that each pool was opened on last.
    opened: BTreeMap<PoolId, OpenedDisk>,
    control: Control,
    watch: Watch,
    /// When it wakes next.
    wakes_at: Option<Time>,
}

/// A disk that the machine has open: one that was pulled meanwhile is another one.
#[derive(Clone, Debug)]
struct OpenedDisk {
    path: String,
    plugged: u32,
}

/// Enough for the records that some dozens of volumes carry.
const SIZES: pool::Sizes = pool::Sizes { journal: 192, catalog: 128, room_for: 0 };

impl NodeProcess {
    pub fn start(
        node: NodeId,
        instance: InstanceId,
        controllers: u8,
        hardware: &mut Hardware,
        ctx: &mut Ctx<'_>,
    ) -> Self {
        let mutations = Mutations { node: hardware.mutation, ..Mutations::default() };
        let params = NodeParams {
            node,
            instance,
            boot: hardware.boot(),
            advertised: vec![address(node)],
            times: mirror::Times::default(),
            throttle: mirror::Throttle::default(),
            geometry: mirror::Geometry::default(),
            pool_sizes: Some(SIZES),
            takes_faults: false,
            checks_loopback: false,
            mutations,
        };
        let mut started = Self {
            node,
            instance,
            machine: StorageNode::new(params, now(ctx)),
            streams: Streams::new(instance),
            open_disks: BTreeMap::new(),
            last_disk: 0,
            opened: BTreeMap::new(),
            control: Control::new(controllers),
            watch: Watch::default(),
            wakes_at: None,
        };
        hardware.disarm();
        for (pool, path) in hardware.pools_found() {
            started.machine.look_at(pool, path);
        }
        started.register_everywhere(ctx);
        started.announce(ctx);
        let phase = ctx.random.below(500);
        ctx.wake_in(Millis(phase), Timer::Beat);
        started
    }

    pub fn handle(
        &mut self,
        disks: &mut Disks,
        hardware: &mut Hardware,
        ctx: &mut Ctx<'_>,
        from: Party,
        message: Message,
    ) {
        match message {
            Message::Apply(config) => self.apply(ctx, from, &config),
            Message::FromStore { call, answer } => self.store_answered(ctx, call.number, &answer),
            Message::Stream(piece) => self.stream(ctx, from, piece),
            Message::Reset(instance) => {
                for conn in self.streams.reset(from, instance) {
                    self.machine.closed(now(ctx), conn);
                }
            }
            _ => {}
        }
        self.run(disks, hardware, ctx);
    }

    pub fn wake(
        &mut self,
        disks: &mut Disks,
        hardware: &mut Hardware,
        ctx: &mut Ctx<'_>,
        timer: Timer,
    ) {
        match timer {
            Timer::Beat => self.beat(ctx),
            Timer::Inventory => self.take_inventory(ctx),
            Timer::Deadline => {
                self.wakes_at = self.wakes_at.filter(|at| *at > ctx.now);
                if self.machine.next_deadline() > now(ctx) {
                    return self.sleep(ctx);
                }
            }
            Timer::Disk(index) => {
                for (io, result) in hardware.complete(ctx, index) {
                    self.machine.disk_done(now(ctx), io, result);
                }
            }
            _ => {}
        }
        self.run(disks, hardware, ctx);
    }

    /// The disks changed under it: what was under way on those that are gone fails.
    pub fn disks_changed(&mut self, disks: &mut Disks, hardware: &mut Hardware, ctx: &mut Ctx<'_>) {
        for io in hardware.failed_at_once(ctx) {
            self.machine.disk_done(now(ctx), io, Err(hardware::EIO));
        }
        self.run(disks, hardware, ctx);
    }

    /// Lets the node act until it wants nothing more that can be had at once.
    fn run(&mut self, disks: &mut Disks, hardware: &mut Hardware, ctx: &mut Ctx<'_>) {
        loop {
            self.machine.run(now(ctx));
            let mut has_news = false;
            while let Some(effect) = self.machine.next_effect() {
                has_news |= self.carry_out(disks, hardware, ctx, effect);
            }
            if !has_news {
                break;
            }
        }
        self.judge_audit(ctx);
        self.streams.flush(ctx);
        self.sleep(ctx);
    }

    fn sleep(&mut self, ctx: &mut Ctx<'_>) {
        let due = self.machine.next_deadline();
        let at = Time(u64::try_from(due.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX));
        if self.wakes_at.is_none_or(|set| set > at) {
            self.wakes_at = Some(at.max(ctx.now + Millis(1)));
            ctx.wake_in(at.since(ctx.now).max(Millis(1)), Timer::Deadline);
        }
    }

    /// True if the node has heard something of it already.
    fn carry_out(
        &mut self,
        disks: &mut Disks,
        hardware: &mut Hardware,
        ctx: &mut Ctx<'_>,
        effect: Effect,
    ) -> bool {
        match effect {
            Effect::OpenDisk(open) => {
                let result = hardware.open(&open.paths).map(|(path, plugged, blocks)| {
                    self.last_disk += 1;
                    let (disk, opened) = (DiskId(self.last_disk), OpenedDisk { path, plugged });
                    self.opened.insert(open.pool, opened.clone());
                    self.open_disks.insert(disk, opened);
                    (disk, blocks)
                });
                self.machine.disk_opened(now(ctx), &open, result);
                return true;
            }
            Effect::CloseDisk(disk) => {
                self.open_disks.remove(&disk);
            }
            Effect::Disk { io, disk, op, .. } => {
                let opened = self.open_disks.get(&disk);
                let is_begun = opened.is_some_and(|opened| {
                    hardware.begin(ctx, &opened.path, opened.plugged, io, op)
                });
                if !is_begun {
                    self.machine.disk_done(now(ctx), io, Err(hardware::EIO));
                    return true;
                }
            }
            Effect::Dial { .. } | Effect::Send { .. } | Effect::Close(_) => {
                return self.connection(ctx, effect);
            }
            Effect::AskStore { target, call, request } => {
                self.ask_store(ctx, target, call, &request);
            }
            Effect::Applied { ticket, result } => self.applied(ctx, ticket, result),
            Effect::Inventory { ticket, inventory } => self.tell(ctx, ticket, *inventory),
            Effect::Outdated { sequence } => self.outdated(ctx, sequence),
            Effect::Stopped => {}
            Effect::Log(event) => self.log(disks, ctx, event),
        }
        false
    }

    /// What the log tells is what the judges hear of.
    fn log(&mut self, disks: &mut Disks, ctx: &mut Ctx<'_>, event: LogEvent) {
        let node = self.node;
        ctx.note(|| format!("{}: {event:?}", names::label(node.0)));
        match event {
            LogEvent::ReplicaCreated { pool, replica } => {
                let state = self.machine.pool(pool).and_then(|pool| pool.replica(replica));
                if let Some(state) = state {
                    ctx.oracle.made(replica, pool, state.volume);
                }
            }
            LogEvent::ReplicaDestroyed { pool, replica } => {
                if let Some(held) = disks.replica(replica) {
                    ctx.oracle.destroyed(node, replica, pool, held);
                }
            }
            LogEvent::PoolErased { pool } => {
                if let Some(disk) = disks.disk_of_mut(pool) {
                    disk.pool = None;
                }
            }
            LogEvent::Target { target, notice } => match notice {
                mirror::Notice::Serving => ctx.oracle.serves(target.volume),
                _ => {
                    ctx.oracle.touched.insert(target.volume);
                }
            },
            _ => {}
        }
    }
}

/// The time as machines without I/O count it.
pub(crate) fn now(ctx: &Ctx<'_>) -> Duration {
    Duration::from_millis(ctx.now.0)
}
