//! One life of an engine's process: it starts empty, does what its config says, and reports.
//!
//! What survives it lies on `Disks`. Nothing is destroyed but for a tombstone.

mod apply;
mod child;
mod inventory;
mod settle;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use model::{
    ConfigHead, Epoch, InstanceId, Inventory, Key, Millis, NodeId, NodePart, PoolId, ReplicaId,
    Revision, VolumeId,
};

pub use child::Session;

use super::{disk::Disks, target::Target};
use crate::{Caller, Ctx, Message, Party, Timer, fakes::target::Phase};

#[derive(Debug)]
pub struct Engine {
    pub node: NodeId,
    pub instance: InstanceId,
    pub generation: Revision,
    head: Option<ConfigHead>,
    parts: Parts,
    pools: BTreeMap<PoolId, PoolState>,
    refused: BTreeMap<ReplicaId, String>,
    missing: BTreeSet<ReplicaId>,
    pub targets: BTreeMap<VolumeId, Target>,
    /// Targets that are over: their epochs never start again here.
    ended: BTreeMap<VolumeId, Epoch>,
    sessions: BTreeMap<ReplicaId, Session>,
    sequence: u64,
    announcing: bool,
    beats: u32,
    controllers: u8,
}

type Parts = BTreeMap<Key, NodePart>;

/// A pool that the config names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PoolState {
    Importing,
    Online,
    Faulted,
    Missing,
    Refused(String),
}

/// A hint waits this long at most for more news to go with it.
const ANNOUNCE_WITHIN: u64 = 60;
/// Importing takes a moment, during which replicas are unknown, not absent.
const IMPORT_MIN: u64 = 20;
const IMPORT_MAX: u64 = 400;
/// Heartbeats between two inventories that nothing asked for: a lost one is made good.
const INVENTORY_BEATS: u32 = 20;
/// The same for registrations of an engine that nobody configured yet.
const REGISTER_BEATS: u32 = 4;

impl Engine {
    pub fn start(node: NodeId, instance: InstanceId, controllers: u8, ctx: &mut Ctx<'_>) -> Self {
        let mut engine = Self {
            node,
            instance,
            generation: Revision::ZERO,
            head: None,
            parts: BTreeMap::new(),
            pools: BTreeMap::new(),
            refused: BTreeMap::new(),
            missing: BTreeSet::new(),
            targets: BTreeMap::new(),
            ended: BTreeMap::new(),
            sessions: BTreeMap::new(),
            sequence: 0,
            announcing: false,
            beats: 0,
            controllers,
        };
        ctx.out.changed = true;
        engine.greet_all(ctx);
        let phase = ctx.random.below(500);
        ctx.wake_in(Millis(phase), Timer::Beat);
        engine.after(ctx);
        engine
    }

    pub fn handle(&mut self, disks: &mut Disks, ctx: &mut Ctx<'_>, from: Party, message: Message) {
        match message {
            Message::Apply(config) => {
                let answer = self.apply(disks, ctx, &config);
                ctx.send(from, Message::Applied(answer));
            }
            Message::Child(request) => {
                let reply = self.serve_child(disks, ctx, from, &request);
                ctx.send(from, Message::ChildReply(reply));
            }
            Message::ChildReply(reply) => {
                if let Some(target) = self.target(reply.volume, reply.epoch) {
                    target.on_child(ctx, reply);
                }
            }
            Message::FromStore { call, answer } => {
                if let Caller::Target { volume, epoch } = call.caller
                    && let Some(target) = self.target(volume, epoch)
                {
                    target.on_store(ctx, call.number, answer);
                }
            }
            Message::Path(request) => {
                if let Party::Host(host) = from {
                    self.serve_path(ctx, host, request);
                }
            }
            Message::Reset(_) => match from {
                Party::Node(node) => {
                    self.targets.values_mut().for_each(|target| target.on_node_reset(ctx, node));
                }
                Party::Host(host) => {
                    self.targets.values_mut().for_each(|target| target.on_host_reset(ctx, host));
                }
                _ => {}
            },
            _ => {}
        }
        self.after(ctx);
    }

    pub fn wake(&mut self, disks: &mut Disks, ctx: &mut Ctx<'_>, timer: Timer) {
        match timer {
            Timer::Beat => self.beat(ctx),
            Timer::Imported(pool) => self.imported(disks, ctx, pool),
            Timer::TargetServes(volume, epoch) => {
                if let Some(target) = self.target(volume, epoch) {
                    target.settle_claim(ctx);
                }
            }
            Timer::Inventory => self.announce(disks, ctx),
            Timer::Work(_)
            | Timer::Commit(_)
            | Timer::Tick(_)
            | Timer::Deadline
            | Timer::Disk(_) => {}
        }
        self.after(ctx);
    }

    /// The disks changed under it: plugged, pulled, faulted, healed.
    pub fn disks_changed(&mut self, disks: &mut Disks, ctx: &mut Ctx<'_>) {
        self.settle(disks, ctx);
        ctx.out.changed = true;
        self.after(ctx);
    }

    /// A connection to this controller is up (again).
    pub fn greet(&mut self, disks: &Disks, ctx: &mut Ctx<'_>, controller: u8) {
        ctx.send(Party::Controller(controller), Message::Registered(self.instance));
        let inventory = Rc::new(self.inventory(disks));
        ctx.send(Party::Controller(controller), Message::Inventory(inventory));
    }

    fn greet_all(&mut self, ctx: &mut Ctx<'_>) {
        for controller in 0..self.controllers {
            ctx.send(Party::Controller(controller), Message::Registered(self.instance));
        }
    }

    fn announce(&mut self, disks: &Disks, ctx: &mut Ctx<'_>) {
        self.announcing = false;
        let inventory: Rc<Inventory> = Rc::new(self.inventory(disks));
        for controller in 0..self.controllers {
            ctx.send(Party::Controller(controller), Message::Inventory(inventory.clone()));
        }
    }

    fn beat(&mut self, ctx: &mut Ctx<'_>) {
        self.beats += 1;
        if self.generation == Revision::ZERO && self.beats.is_multiple_of(REGISTER_BEATS) {
            self.greet_all(ctx);
            ctx.out.changed = true;
        }
        if self.beats.is_multiple_of(INVENTORY_BEATS) {
            ctx.out.changed = true;
        }
        self.targets.values_mut().for_each(|target| target.beat(ctx));
        ctx.wake_in(model::limits::HEARTBEAT_EVERY, Timer::Beat);
    }

    /// What follows every event: targets that are over go, and news is told.
    fn after(&mut self, ctx: &mut Ctx<'_>) {
        let ended = &mut self.ended;
        self.targets.retain(|volume, target| {
            let stays = target.phase != Phase::Stopped;
            if !stays {
                ended.insert(*volume, target.epoch);
            }
            stays
        });
        if core::mem::take(&mut ctx.out.changed) && !self.announcing {
            self.announcing = true;
            let span = Millis(ctx.random.below(ANNOUNCE_WITHIN));
            ctx.wake_in(span, Timer::Inventory);
        }
    }

    fn target(&mut self, volume: VolumeId, epoch: Epoch) -> Option<&mut Target> {
        self.targets.get_mut(&volume).filter(|target| target.epoch == epoch)
    }
}
