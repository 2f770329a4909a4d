//! The process behind a node: the model of an engine, or the real storage node. What judges need to
//! know of it, both tell alike.

use std::collections::BTreeSet;

use model::{Epoch, HostId, InstanceId, Inventory, NodeId, ReplicaId, VolumeId};

use crate::{
    Ctx, Message, Oracle, Party, Timer,
    fakes::{disk::Disks, engine::Engine},
    real_node::{Hardware, RealNode},
};

#[derive(Debug)]
pub enum EngineProcess {
    Modelled(Box<Engine>),
    Real(Box<RealNode>),
}

/// A target as it is, whatever the records say.
#[derive(Clone, Debug)]
pub struct TargetFacts {
    pub volume: VolumeId,
    pub epoch: Epoch,
    pub hosts: BTreeSet<HostId>,
    pub is_serving: bool,
    /// It serves, and nothing holds its acknowledgements back.
    pub may_acknowledge: bool,
    /// The replicas whose answers an acknowledgement waits for.
    pub acknowledging: BTreeSet<ReplicaId>,
}

impl EngineProcess {
    pub fn start(
        node: NodeId,
        instance: InstanceId,
        controllers: u8,
        hardware: Option<&mut Hardware>,
        ctx: &mut Ctx<'_>,
    ) -> Self {
        match hardware {
            None => Self::Modelled(Box::new(Engine::start(node, instance, controllers, ctx))),
            Some(hardware) => {
                let real = RealNode::start(node, instance, controllers, hardware, ctx);
                Self::Real(Box::new(real))
            }
        }
    }

    /// Which process it is.
    pub fn instance(&self) -> InstanceId {
        match self {
            Self::Modelled(engine) => engine.instance,
            Self::Real(node) => node.instance,
        }
    }

    pub fn handle(
        &mut self,
        (disks, hardware): (&mut Disks, Option<&mut Hardware>),
        ctx: &mut Ctx<'_>,
        from: Party,
        message: Message,
    ) {
        match (self, hardware) {
            (Self::Modelled(engine), _) => engine.handle(disks, ctx, from, message),
            (Self::Real(node), Some(hardware)) => node.handle(disks, hardware, ctx, from, message),
            (Self::Real(_), None) => {}
        }
    }

    pub fn wake(
        &mut self,
        (disks, hardware): (&mut Disks, Option<&mut Hardware>),
        ctx: &mut Ctx<'_>,
        timer: Timer,
    ) {
        match (self, hardware) {
            (Self::Modelled(engine), _) => engine.wake(disks, ctx, timer),
            (Self::Real(node), Some(hardware)) => node.wake(disks, hardware, ctx, timer),
            (Self::Real(_), None) => {}
        }
    }

    pub fn disks_changed(
        &mut self,
        (disks, hardware): (&mut Disks, Option<&mut Hardware>),
        ctx: &mut Ctx<'_>,
    ) {
        match (self, hardware) {
            (Self::Modelled(engine), _) => engine.disks_changed(disks, ctx),
            (Self::Real(node), Some(hardware)) => node.disks_changed(disks, hardware, ctx),
            (Self::Real(_), None) => {}
        }
    }

    pub fn greet(&mut self, disks: &Disks, ctx: &mut Ctx<'_>, controller: u8) {
        match self {
            Self::Modelled(engine) => engine.greet(disks, ctx, controller),
            Self::Real(node) => node.greet(ctx, controller),
        }
    }

    /// What it would tell now.
    pub fn inventory(&mut self, disks: &Disks) -> Inventory {
        match self {
            Self::Modelled(engine) => engine.inventory(disks),
            Self::Real(node) => node.inventory(),
        }
    }

    pub fn targets(&self) -> Vec<TargetFacts> {
        match self {
            Self::Modelled(engine) => {
                let targets = engine.targets.iter();
                let facts = targets.map(|(volume, target)| TargetFacts {
                    volume: *volume,
                    epoch: target.epoch,
                    hosts: target.hosts(),
                    is_serving: target.is_serving(),
                    may_acknowledge: target.may_acknowledge(),
                    acknowledging: target.acknowledging().collect(),
                });
                facts.collect()
            }
            Self::Real(node) => node.targets(),
        }
    }

    #[cfg(test)]
    pub(crate) fn modelled(&self) -> Option<&Engine> {
        match self {
            Self::Modelled(engine) => Some(engine),
            Self::Real(_) => None,
        }
    }

    pub fn target(&self, volume: VolumeId) -> Option<TargetFacts> {
        match self {
            Self::Modelled(_) => self.targets().into_iter().find(|target| target.volume == volume),
            Self::Real(node) => node.target(volume),
        }
    }

    /// Everything about a target, for who looks for a fault.
    pub fn tell_target(&self, volume: VolumeId) -> Option<String> {
        match self {
            Self::Modelled(engine) => engine.targets.get(&volume).map(|it| format!("{it:?}")),
            Self::Real(node) => node.tell_target(volume),
        }
    }

    /// Brings what judges see of the disks up to date, with the data of these volumes.
    pub fn refresh(
        &self,
        (disks, hardware): (&mut Disks, Option<&mut Hardware>),
        volumes: &BTreeSet<VolumeId>,
        oracle: &mut Oracle,
    ) {
        if let (Self::Real(node), Some(hardware)) = (self, hardware) {
            node.refresh(disks, hardware, volumes, oracle);
        }
    }
}
