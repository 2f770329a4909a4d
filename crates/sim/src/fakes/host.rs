//! A machine that consumes volumes: keeps paths as it is told, writes, reads, and checks what it
//! reads.

mod initiator;
mod io;
mod paths;
mod share;

use std::{collections::BTreeMap, rc::Rc};

use model::{
    ConfigHead, EngineError, HostConfig, HostId, HostInventory, HostPart, InstanceId, Key, Millis,
    NodeId, PathSeen, Revision, Scope, VolumeId,
};

pub(crate) use self::initiator::host_nqn;
use self::{
    initiator::{Initiators, PathOp},
    io::Work,
    paths::Path,
    share::Share,
};
use crate::{Ctx, HostMachine, Message, Party, Timer};

#[derive(Debug)]
pub struct Host {
    pub host: HostId,
    pub instance: InstanceId,
    pub generation: Revision,
    head: Option<ConfigHead>,
    pub attached: BTreeMap<VolumeId, Attachment>,
    /// Nodes through which something was done since the last beat.
    heard: std::collections::BTreeSet<NodeId>,
    /// The storage node on the same machine.
    node: Option<NodeId>,
    /// Among hosts: which block it writes where several write at once.
    index: usize,
    numbers: u64,
    sequence: u64,
    announcing: bool,
    beats: u32,
    controllers: u8,
    initiators: Initiators,
}

/// A volume on this host.
#[derive(Debug)]
pub struct Attachment {
    part: HostPart,
    paths: Vec<Path>,
    work: Work,
    share: Option<Share>,
    is_working: bool,
}

const ANNOUNCE_WITHIN: u64 = 60;
const INVENTORY_BEATS: u32 = 20;
const REGISTER_BEATS: u32 = 4;

impl Host {
    pub fn start(
        host: HostId,
        instance: InstanceId,
        machine: &HostMachine,
        controllers: u8,
        ctx: &mut Ctx<'_>,
    ) -> Self {
        let mut started = Self {
            host,
            instance,
            generation: Revision::ZERO,
            head: None,
            attached: BTreeMap::new(),
            heard: std::collections::BTreeSet::new(),
            node: machine.node,
            index: machine.index,
            // Sessions of a later life are higher than those of an earlier one.
            numbers: u64::from(machine.lives) << 32,
            sequence: 0,
            announcing: false,
            beats: 0,
            controllers,
            initiators: Initiators::new(host, instance),
        };
        started.greet_all(ctx);
        ctx.out.changed = true;
        let phase = ctx.random.below(500);
        ctx.wake_in(Millis(phase), Timer::Beat);
        started.after(ctx);
        started
    }

    pub fn handle(&mut self, ctx: &mut Ctx<'_>, from: Party, message: Message) {
        match (from, message) {
            (_, Message::ApplyHost(config)) => {
                let answer = self.apply(ctx, &config);
                ctx.send(from, Message::HostApplied(answer));
            }
            (_, Message::Stream(piece)) => self.initiators.stream(ctx, from, piece),
            (Party::Node(_), Message::Reset(instance)) => {
                self.initiators.reset(ctx, from, instance);
            }
            _ => {}
        }
        self.after(ctx);
    }

    pub fn wake(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        match timer {
            Timer::Beat => self.beat(ctx),
            Timer::Inventory => self.announce(ctx),
            Timer::Work(volume) => self.work(ctx, volume),
            Timer::Deadline => self.initiators.wake(ctx),
            _ => {}
        }
        self.after(ctx);
    }

    /// A connection to this controller is up (again).
    pub fn greet(&mut self, ctx: &mut Ctx<'_>, controller: u8) {
        ctx.send(
            Party::Controller(controller),
            Message::HostRegistered { instance: self.instance, node: self.node },
        );
        let inventory = Rc::new(self.inventory());
        ctx.send(Party::Controller(controller), Message::HostInventory(inventory));
    }

    /// Nodes that a controller may take for alive on this host's word.
    pub fn take_heard(&mut self) -> std::collections::BTreeSet<NodeId> {
        core::mem::take(&mut self.heard)
    }

    pub fn apply(
        &mut self,
        ctx: &mut Ctx<'_>,
        config: &HostConfig,
    ) -> Result<Revision, EngineError> {
        let head = &config.head;
        if head.instance != self.instance {
            return Err(EngineError::OtherInstance { instance: self.instance });
        }
        let same_era = match &self.head {
            Some(applied) if applied.era != head.era && !head.former.contains(&applied.era) => {
                return Err(EngineError::OtherEra);
            }
            applied => applied.as_ref().is_none_or(|applied| applied.era == head.era),
        };
        if same_era && head.generation < self.generation {
            return Err(EngineError::Older { at: self.generation });
        }
        match head.scope {
            Scope::Difference { base } if base != self.generation => {
                return Err(EngineError::NeedsWhole { at: self.generation });
            }
            Scope::Difference { .. } => {}
            Scope::Whole => {
                let kept = |volume: &VolumeId| config.parts.contains_key(&Key::Volume(*volume));
                let gone: Vec<_> = self.attached.keys().copied().filter(|v| !kept(v)).collect();
                for volume in gone {
                    self.detach(ctx, volume);
                }
            }
        }
        for (key, part) in &config.parts {
            match (key, part) {
                (_, Some(part)) => self.attach(ctx, part.clone()),
                (Key::Volume(volume), None) => self.detach(ctx, *volume),
                _ => {}
            }
        }
        self.generation = head.generation;
        self.head = Some(head.clone());
        ctx.out.changed = true;
        Ok(self.generation)
    }

    fn attach(&mut self, ctx: &mut Ctx<'_>, part: HostPart) {
        let volume = part.volume;
        let attachment = self.attached.entry(volume).or_insert_with(|| Attachment {
            part: part.clone(),
            paths: Vec::new(),
            work: Work::default(),
            share: None,
            is_working: false,
        });
        attachment.part = part;
        if !core::mem::replace(&mut attachment.is_working, true) {
            let span = Millis(ctx.random.below(200));
            ctx.wake_in(span, Timer::Work(volume));
        }
        self.follow_share(ctx, volume);
        self.follow_paths(ctx, volume);
    }

    fn detach(&mut self, ctx: &mut Ctx<'_>, volume: VolumeId) {
        if let Some(mut attachment) = self.attached.remove(&volume) {
            for path in attachment.paths.drain(..) {
                paths::send(&mut self.initiators, volume, &path, PathOp::Disconnect);
            }
            ctx.out.changed = true;
        }
    }

    fn beat(&mut self, ctx: &mut Ctx<'_>) {
        self.beats += 1;
        if self.generation == Revision::ZERO && self.beats.is_multiple_of(REGISTER_BEATS) {
            self.greet_all(ctx);
        }
        if self.beats.is_multiple_of(INVENTORY_BEATS) {
            ctx.out.changed = true;
        }
        let volumes: Vec<_> = self.attached.keys().copied().collect();
        for volume in volumes {
            self.beat_work(ctx, volume);
            self.beat_paths(ctx, volume);
            self.follow_share(ctx, volume);
        }
        ctx.wake_in(model::limits::HEARTBEAT_EVERY, Timer::Beat);
    }

    fn greet_all(&mut self, ctx: &mut Ctx<'_>) {
        for controller in 0..self.controllers {
            ctx.send(
                Party::Controller(controller),
                Message::HostRegistered { instance: self.instance, node: self.node },
            );
        }
    }

    fn announce(&mut self, ctx: &mut Ctx<'_>) {
        self.announcing = false;
        let inventory = Rc::new(self.inventory());
        for controller in 0..self.controllers {
            ctx.send(Party::Controller(controller), Message::HostInventory(inventory.clone()));
        }
    }

    pub fn inventory(&mut self) -> HostInventory {
        self.sequence += 1;
        let paths = self.attached.iter().map(|(id, attachment)| (*id, attachment.paths_seen()));
        let shares = self.attached.iter().filter_map(|(id, attachment)| {
            attachment.share.as_ref().map(|share| (*id, share.seen(self.host)))
        });
        HostInventory {
            host: self.host,
            instance: self.instance,
            generation: self.generation,
            sequence: self.sequence,
            paths: paths.filter(|(_, paths)| !paths.is_empty()).collect(),
            shares: shares.collect(),
        }
    }

    /// What was said to targets goes by their sessions, and their answers come back by them.
    fn speak(&mut self, ctx: &mut Ctx<'_>) {
        loop {
            self.initiators.take_requests(ctx);
            match self.initiators.take_reply() {
                Some((node, reply)) => self.on_reply(ctx, node, reply),
                None => return self.initiators.sleep(ctx),
            }
        }
    }

    fn after(&mut self, ctx: &mut Ctx<'_>) {
        self.speak(ctx);
        if core::mem::take(&mut ctx.out.changed) && !self.announcing {
            self.announcing = true;
            let span = Millis(ctx.random.below(ANNOUNCE_WITHIN));
            ctx.wake_in(span, Timer::Inventory);
        }
    }
}

impl Attachment {
    fn paths_seen(&self) -> Vec<PathSeen> {
        self.paths.iter().map(Path::seen).collect()
    }

    pub fn has_live_path(&self) -> bool {
        self.paths.iter().any(Path::is_live)
    }

    /// The share's server has the volume mounted.
    pub fn is_mounted(&self) -> bool {
        self.share.as_ref().is_some_and(Share::is_mounted)
    }
}
