//! The transactions of a volume's steps.

use model::{
    AttemptId, Buried, Compare, Epoch, Extra, HostStage, Key, Membership, Publication, Record,
    Replica, ReplicaId, ReplicaStage, Switchover, SwitchoverStage, Target, TargetRef, TargetStage,
    Time, Txn, Volume, VolumeStage, limits::MOVE_QUIET,
};

use super::{bury, membership, release_name};
use crate::{Action, World, world::VolumeView};

/// What is being built up: the new records, and what is buried with them.
struct Draft<'a> {
    world: &'a World,
    volume: Volume,
    old: &'a Membership,
    membership: Option<Membership>,
    txn: Txn,
}

pub(super) fn apply(world: &World, view: &VolumeView, action: &Action) -> Option<Txn> {
    if *action == Action::DeleteVolume {
        return Some(delete(world, view));
    }
    let old = view.membership.as_ref()?;
    let mut draft =
        Draft { world, volume: view.record.clone(), old, membership: None, txn: Txn::default() };
    let known = draft.replicas(action)
        || draft.hosts(action)
        || draft.target(action)
        || draft.switchover(action)
        || draft.shape(action);
    if !known {
        return None;
    }
    let key = Key::Volume(view.record.meta.id);
    let read_at = view.record.meta.revision;
    let mut txn = draft.txn.put(key, Record::Volume(draft.volume.into()), read_at);
    if let Some(new) = draft.membership {
        let key = Key::Membership(old.volume);
        txn = txn.put(key, Record::Membership(new.into()), old.revision);
    }
    Some(txn)
}

impl Draft<'_> {
    fn replica(&mut self, id: ReplicaId) -> Option<&mut Replica> {
        self.volume.layout.replicas.iter_mut().find(|replica| replica.id == id)
    }

    /// Changes one replica's notes.
    fn change(&mut self, id: ReplicaId, change: impl FnOnce(&mut Replica)) -> bool {
        self.replica(id).map(change).is_some()
    }

    fn replicas(&mut self, action: &Action) -> bool {
        let now = self.world.now;
        match action {
            Action::ConfirmReplicas { replicas } => {
                let made = |replica: &&mut Replica| replicas.contains(&replica.id);
                for replica in self.volume.layout.replicas.iter_mut().filter(made) {
                    replica.stage = ReplicaStage::Ready;
                }
                true
            }
            Action::FinishCreation => {
                self.volume.layout.stage = VolumeStage::Created;
                true
            }
            Action::ReplaceBlank { old, new } => {
                self.drop_replica(*old);
                let mut membership = membership::without(self.old, *old);
                if let Some(new) = new {
                    self.volume.layout.placed += 1;
                    self.volume.layout.replicas.push(new.clone());
                    membership.children.insert(new.id, true);
                }
                self.membership = Some(membership);
                true
            }
            Action::PlaceReplica { replica } => {
                self.guard_drained();
                self.volume.layout.placed += 1;
                self.volume.layout.replicas.push(replica.clone());
                true
            }
            Action::MarkGone { replica, rebuild_after } => self.change(*replica, |replica| {
                replica.gone_since = Some(now);
                replica.rebuild_after = Some(*rebuild_after);
            }),
            Action::MarkReturned { replica } => self.change(*replica, |replica| {
                replica.gone_since = None;
                replica.rebuild_after = None;
            }),
            Action::GrantRebuild { replica } => self.change(*replica, |r| r.rebuilding = true),
            Action::EndRebuild { replica } => self.change(*replica, |r| r.rebuilding = false),
            Action::RetireReplica { replica } => {
                self.guard_membership();
                self.change(*replica, |replica| {
                    replica.stage = ReplicaStage::Retiring;
                    replica.rebuilding = false;
                })
            }
            Action::KeepReplica { replica } => {
                self.change(*replica, |replica| replica.stage = ReplicaStage::Ready)
            }
            Action::DropReplica { replica } => {
                self.drop_replica(*replica);
                if self.volume.layout.target.is_none() {
                    self.membership = Some(membership::without(self.old, *replica));
                } else {
                    self.guard_membership();
                }
                true
            }
            Action::Promote { replica, attempt } => {
                self.promote(*replica, *attempt);
                true
            }
            _ => false,
        }
    }

    /// One copy speaks for all, at an epoch that fences whoever served before.
    fn promote(&mut self, replica: ReplicaId, attempt: AttemptId) {
        let epoch = self.fresh_epoch();
        self.volume.layout.promotions.push(attempt);
        self.leave_target();
        self.bury_targets();
        self.volume.layout.switchover = None;
        self.volume.layout.epoch = epoch;
        self.membership = Some(membership::promoted(self.old, replica, epoch));
    }

    /// A copy on a drained node gave its place up: the node must still be drained.
    fn guard_drained(&mut self) {
        for replica in &self.volume.layout.replicas {
            let node = self.world.node(replica.node).map(|view| &view.record);
            if let Some(node) = node.filter(|node| node.spec.draining) {
                let guard = Compare::at(Key::Node(node.meta.id), node.meta.revision);
                self.txn = core::mem::take(&mut self.txn).guard(guard);
            }
        }
    }

    /// What the target says of the copies must still be what was judged.
    fn guard_membership(&mut self) {
        let guard = Compare::at(Key::Membership(self.old.volume), self.old.revision);
        self.txn = core::mem::take(&mut self.txn).guard(guard);
    }

    fn drop_replica(&mut self, id: ReplicaId) {
        let replicas = &mut self.volume.layout.replicas;
        let Some(index) = replicas.iter().position(|replica| replica.id == id) else { return };
        let replica = replicas.remove(index);
        let buried = Buried::Replica { replica: id, pool: replica.pool };
        let txn = core::mem::take(&mut self.txn);
        self.txn = bury(self.world, txn, replica.node, buried);
    }

    fn hosts(&mut self, action: &Action) -> bool {
        let layout = &mut self.volume.layout;
        match action {
            Action::AcceptPublish { attempt } => {
                layout.publication = Publication::Pending { attempt: *attempt };
            }
            Action::FinishPublish { attempt } => {
                layout.publication = Publication::Published { attempt: *attempt };
            }
            Action::WithdrawPublish { attempt, reason } => {
                let reason = reason.clone();
                layout.publication = Publication::Failed { attempt: *attempt, reason };
            }
            Action::EndPublication => layout.publication = Publication::None,
            Action::AdmitHost { host } => {
                layout.hosts.insert(*host, HostStage::Admitted);
            }
            Action::ExpelHost { host } => {
                layout.hosts.insert(*host, HostStage::Leaving);
            }
            Action::ReleaseHost { host } => {
                layout.hosts.remove(host);
            }
            _ => return false,
        }
        true
    }

    fn target(&mut self, action: &Action) -> bool {
        let now = self.world.now;
        let stage = |stage, target: &mut Option<Target>| {
            let target = target.as_mut().map(|target| {
                target.stage = stage;
                target.since = now;
            });
            target.is_some()
        };
        match action {
            Action::IssueTarget { node, instance, epoch } => {
                self.issue(*node, *instance, *epoch);
                true
            }
            Action::StartTarget => stage(TargetStage::Starting, &mut self.volume.layout.target),
            Action::ConfirmTarget => stage(TargetStage::Serving, &mut self.volume.layout.target),
            Action::StopTarget => stage(TargetStage::Stopping, &mut self.volume.layout.target),
            Action::RemoveTarget => {
                self.volume.layout.target = None;
                self.bury_targets();
                self.volume.layout.switchover = None;
                true
            }
            Action::AbandonTarget { epoch } => {
                self.leave_target();
                self.bury_targets();
                self.volume.layout.epoch = *epoch;
                self.volume.layout.switchover = None;
                self.membership = Some(membership::raise(self.old, &self.volume, *epoch));
                true
            }
            _ => false,
        }
    }

    fn issue(&mut self, node: model::NodeId, instance: model::InstanceId, epoch: Epoch) {
        self.leave_target();
        self.volume.layout.epoch = epoch;
        self.volume.layout.target = Some(Target {
            node,
            instance,
            epoch,
            stage: TargetStage::Fencing,
            since: self.world.now,
            extra: Extra::new(),
        });
        self.membership = Some(membership::raise(self.old, &self.volume, epoch));
    }

    /// The target, if there is one, becomes an old one.
    fn leave_target(&mut self) {
        let layout = &mut self.volume.layout;
        if let Some(target) = layout.target.take() {
            layout.old_targets.push(target.reference());
        }
    }

    fn bury_targets(&mut self) {
        let volume = self.volume.meta.id;
        for TargetRef { node, epoch } in core::mem::take(&mut self.volume.layout.old_targets) {
            let txn = core::mem::take(&mut self.txn);
            self.txn = bury(self.world, txn, node, Buried::Target { volume, epoch });
        }
    }

    fn fresh_epoch(&self) -> Epoch {
        self.volume.layout.epoch.max(self.old.epoch).next()
    }

    fn switchover(&mut self, action: &Action) -> bool {
        let now = self.world.now;
        match action {
            Action::BeginSwitchover { cause } => {
                let Some(target) = &self.volume.layout.target else { return false };
                self.volume.layout.switchover = Some(Switchover {
                    stage: SwitchoverStage::Init,
                    cause: *cause,
                    from: target.reference(),
                    started: now,
                    tried: [].into(),
                    extra: Extra::new(),
                });
                true
            }
            Action::Republish { node, instance, epoch } => {
                self.issue(*node, *instance, *epoch);
                let layout = &mut self.volume.layout;
                let quiet = |moved: Time| now.since(moved) >= MOVE_QUIET;
                layout.moves = if layout.moved_at.is_none_or(quiet) { 1 } else { layout.moves + 1 };
                layout.moved_at = Some(now);
                self.set_stage(SwitchoverStage::RepublishVolume { epoch: *epoch })
            }
            Action::AdvanceSwitchover { stage } => {
                let lost = self.volume.layout.target.as_ref().map(|target| target.node);
                if *stage == SwitchoverStage::Init
                    && let (Some(switchover), Some(node)) =
                        (&mut self.volume.layout.switchover, lost)
                {
                    switchover.tried.insert(node);
                }
                self.set_stage(stage.clone())
            }
            Action::BuryTargets => {
                self.bury_targets();
                true
            }
            Action::FinishSwitchover => {
                self.volume.layout.switchover = None;
                true
            }
            _ => false,
        }
    }

    fn set_stage(&mut self, stage: SwitchoverStage) -> bool {
        let switchover = self.volume.layout.switchover.as_mut();
        switchover.map(|switchover| switchover.stage = stage).is_some()
    }

    fn shape(&mut self, action: &Action) -> bool {
        let layout = &mut self.volume.layout;
        match action {
            Action::Grow { size } => layout.size = *size,
            Action::Expose { size } => layout.exposed = *size,
            Action::PlaceShare { share } | Action::AdvanceShare { share } => {
                layout.share = Some(share.clone());
            }
            Action::EndShare => layout.share = None,
            _ => return false,
        }
        true
    }
}

fn delete(world: &World, view: &VolumeView) -> Txn {
    let volume = &view.record;
    let id = volume.meta.id;
    let mut txn = Txn::default();
    let current = volume.layout.target.iter().map(Target::reference);
    for target in current.chain(volume.layout.old_targets.iter().copied()) {
        let buried = Buried::Target { volume: id, epoch: target.epoch };
        txn = bury(world, txn, target.node, buried);
    }
    for replica in &volume.layout.replicas {
        let buried = Buried::Replica { replica: replica.id, pool: replica.pool };
        txn = bury(world, txn, replica.node, buried);
    }
    txn = txn.delete(Key::Volume(id), volume.meta.revision);
    if let Some(membership) = &view.membership {
        txn = txn.delete(Key::Membership(id), membership.revision);
    }
    release_name(world, txn, "volume", &volume.meta.name, &id)
}
