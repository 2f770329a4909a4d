//! Starting and stopping the target.
//!
//! A target is issued with a new epoch, the copies are told to admit it and nothing older, and only
//! when every copy recorded healthy does (or is out of everyone's reach) may it start.

use alloc::{collections::BTreeSet, format, string::String, vec::Vec};

use model::{
    Buried, Epoch, HostStage, InstanceId, Key, Liveness, NodeId, Observed, PathHealth,
    SwitchoverCause, Target, TargetHealth, TargetStage, Wait,
    limits::{PATH_FAILED_GRACE, TARGET_START_MAX, TARGET_STOP_MAX},
};

use super::{Look, look::Copy, publish};
use crate::{
    Action, Need, Why,
    world::{Loss, NodeView, Standing},
};

pub(super) fn rule(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let need = is_needed(look);
    match (look.target(), need) {
        (None, Some(_)) if look.volume.layout.switchover.is_none() => issue(look, waits),
        // A switchover without a target waits for a place; if nothing needs it any more, it ends.
        (None, None) if look.volume.layout.switchover.is_some() => Some(abandon(look)),
        (None, _) => None,
        (Some(target), None) => stop(look, target, waits),
        (Some(target), Some(_)) if target.stage == TargetStage::Stopping => {
            stop(look, target, waits)
        }
        (Some(target), Some(_)) => advance(look, target, waits),
    }
}

/// What the target is needed for, if for anything.
pub(crate) fn is_needed(look: &Look<'_>) -> Option<Need> {
    let layout = &look.volume.layout;
    if !layout.hosts.is_empty() || !publish::wanted(look.volume).is_empty() {
        return Some(Need::Hosts);
    }
    upkeep(look)
}

/// What a target is needed for even without hosts.
fn upkeep(look: &Look<'_>) -> Option<Need> {
    let repaired = |copy: &Copy<'_>| {
        // A copy that is gone for good and still recorded healthy is taken out by a target alone.
        let gone = copy.loss().is_some_and(|loss| !loss.may_return());
        let misrecorded = gone && look.membership.is_recorded_healthy(copy.replica.id);
        copy.replica.rebuilding
            || copy.is_retiring()
            || misrecorded && !look.is_blank() && look.good().next().is_some()
    };
    // Until a resync is over, a copy that is not its source counts for nothing, whatever it holds.
    let waits =
        |copy: &Copy<'_>| !copy.healthy && look.membership.is_recorded_healthy(copy.replica.id);
    let resync = look.copies.iter().any(waits) && look.good().next().is_some();
    if resync || look.copies.iter().any(repaired) {
        return Some(Need::Repair);
    }
    look.world.snapshots_wanted(look.volume.meta.id).next().map(|_| Need::Snapshot)
}

/// What a lost target is worth a successor for: not for hosts that are only leaving. One of them
/// may be silent for ever, and the copies must not wait for it.
fn succeeds_for(look: &Look<'_>) -> Option<Need> {
    let staying = |stage: &HostStage| *stage == HostStage::Admitted;
    let hosts = look.volume.layout.hosts.values().any(staying);
    if hosts || !publish::wanted(look.volume).is_empty() {
        return Some(Need::Hosts);
    }
    upkeep(look)
}

pub(super) fn wants_successor(look: &Look<'_>) -> bool {
    succeeds_for(look).is_some()
}

/// Why the target must be given up, if it must.
pub(super) fn loss(look: &Look<'_>, target: &Target) -> Option<SwitchoverCause> {
    let Some(node) = look.world.node(target.node).filter(|n| !n.record.spec.forgotten) else {
        // A node whose record does not decode may be alive and serve.
        let is_gone = look.world.unreadable(&Key::Node(target.node)).is_none();
        return is_gone.then_some(SwitchoverCause::NodeDead);
    };
    if node.record.layout.instance != Some(target.instance) {
        return Some(SwitchoverCause::ProcessGone);
    }
    match node.liveness {
        Liveness::Dead => return Some(SwitchoverCause::NodeDead),
        Liveness::Unknown => return None,
        Liveness::Alive => {}
    }
    if matches!(target.stage, TargetStage::Starting | TargetStage::Serving) {
        match look.world.target_seen(look.volume, target) {
            Observed::Absent => return Some(SwitchoverCause::NotServing),
            Observed::Present(seen) => match seen.health {
                TargetHealth::Fenced | TargetHealth::Failed { .. } => {
                    return Some(SwitchoverCause::NotServing);
                }
                TargetHealth::Starting | TargetHealth::Serving => {}
            },
            Observed::Unknown => {}
        }
    }
    let late = look.world.now.since(target.since) >= TARGET_START_MAX;
    (target.stage == TargetStage::Starting && late).then_some(SwitchoverCause::NotServing)
}

/// The target's own words about its failure.
pub(super) fn failure(look: &Look<'_>, target: &Target) -> Option<String> {
    match &look.world.target_seen(look.volume, target).present()?.health {
        TargetHealth::Failed { reason } => Some(format!("the target failed: {reason}")),
        _ => None,
    }
}

/// Why a target that serves should still move.
pub(super) fn unease(
    look: &Look<'_>,
    target: &Target,
    waits: &mut Vec<Wait>,
) -> Option<SwitchoverCause> {
    let elsewhere = |node: NodeId| node != target.node && may_serve(look, node);
    let better = || look.good().any(|copy| !copy.draining && elsewhere(copy.replica.node));
    let node = look.world.node(target.node)?;
    // Only to a node that is not drained itself, or two of them would pass the target to and fro.
    let is_spared = |node: NodeId| {
        node != target.node && look.world.node(node).is_some_and(|view| !view.record.spec.draining)
    };
    let away = || choose(look, &avoiding(target)).is_ok_and(|(node, _)| is_spared(node));
    if node.record.spec.draining && (better() || away()) {
        return Some(SwitchoverCause::Drain);
    }
    if target.stage != TargetStage::Serving {
        return None;
    }
    for (host, stage) in &look.volume.layout.hosts {
        if *stage != HostStage::Admitted {
            continue;
        }
        let Some(paths) = publish::host_paths(look, *host) else { continue };
        let mut failed_since = None;
        let mut live = false;
        for path in paths.filter(|path| path.epoch == target.epoch) {
            match path.health {
                PathHealth::Live => live = true,
                PathHealth::Failed { since, .. } => failed_since = Some(since),
                PathHealth::Connecting => {}
            }
        }
        let Some(since) = failed_since.filter(|_| !live) else { continue };
        let until = since + PATH_FAILED_GRACE;
        if look.world.now < until {
            waits.push(Wait::PathRetried { host: *host, until });
        } else if better() {
            return Some(SwitchoverCause::PathFailed);
        }
    }
    None
}

fn avoiding(target: &Target) -> BTreeSet<NodeId> {
    BTreeSet::from([target.node])
}

fn issue(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let need = succeeds_for(look)?;
    match choose(look, &BTreeSet::new()) {
        Ok((node, instance)) => {
            let epoch = next_epoch(look);
            Some((Action::IssueTarget { node, instance, epoch }, Why::NeededFor(need)))
        }
        Err(wait) => {
            waits.push(wait);
            None
        }
    }
}

/// Above every epoch that was issued or seen: a store set back in time must not issue one twice.
pub(super) fn next_epoch(look: &Look<'_>) -> Epoch {
    let seen = look.copies.iter().filter_map(Copy::seen).map(|seen| seen.epoch).max();
    look.volume.layout.epoch.max(look.membership.epoch).max(seen.unwrap_or(Epoch::ZERO)).next()
}

/// The node for a new target: one with a good copy, not on its way out, with few targets. Being
/// able to serve at all comes before cordons.
pub(super) fn choose(
    look: &Look<'_>,
    avoid: &BTreeSet<NodeId>,
) -> Result<(NodeId, InstanceId), Wait> {
    sources(look)?;
    let world = look.world;
    let rank = |node: NodeId| {
        let spec = world.node(node).map(|view| &view.record.spec);
        let (cordoned, draining) = spec.map_or((true, true), |spec| (spec.cordoned, spec.draining));
        let targets = world.index.targets_on.get(&node).copied().unwrap_or(0);
        (avoid.contains(&node), draining, cordoned, targets, node)
    };
    let near = look.good().map(|copy| copy.replica.node).filter(|node| may_serve(look, *node));
    let near = near.min_by_key(|node| rank(*node));
    let settled = near.filter(|node| !(rank(*node).0 || rank(*node).1 || rank(*node).2));
    let chosen = settled.or_else(|| {
        let all = world.nodes.keys().copied().filter(|node| may_serve(look, *node));
        let far = all.min_by_key(|node| rank(*node));
        // Away from its copies only if that spares a drained, cordoned or tried node.
        match (near, far) {
            (Some(near), Some(far)) if rank(far) < rank(near) => Some(far),
            (near, far) => near.or(far),
        }
    });
    let node = chosen.ok_or(Wait::NowhereToServe)?;
    let instance = world.node(node).and_then(|view| view.record.layout.instance);
    Ok((node, instance.ok_or(Wait::NodeHeard { node })?))
}

fn may_serve(look: &Look<'_>, node: NodeId) -> bool {
    look.world.node(node).is_some_and(|view| {
        view.liveness == Liveness::Alive && view.inventory.is_some() && !view.record.spec.forgotten
    })
}

/// At least one copy with all data can be reached, and of none it is unknown whether it can.
pub(super) fn sources(look: &Look<'_>) -> Result<(), Wait> {
    for copy in look.copies.iter().filter(|copy| copy.healthy) {
        if matches!(copy.standing, Standing::Unknown | Standing::Unmade) {
            return Err(Wait::NodeHeard { node: copy.replica.node });
        }
    }
    if look.good().next().is_some() {
        return Ok(());
    }
    let missing = look.copies.iter().filter(|copy| copy.healthy);
    Err(Wait::NoHealthyCopy { missing: missing.map(|copy| copy.replica.pool).collect() })
}

fn advance(look: &Look<'_>, target: &Target, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    if loss(look, target).is_some() {
        // With a successor wanted this is a switchover, which is another rule's.
        return (!wants_successor(look)).then(|| abandon(look));
    }
    match target.stage {
        TargetStage::Fencing => match unfenced(look, target) {
            None => Some((Action::StartTarget, Why::Observed)),
            Some(wait) => {
                waits.push(wait);
                None
            }
        },
        TargetStage::Starting => {
            let serving = look
                .world
                .target_seen(look.volume, target)
                .is_present_and(|seen| seen.health == TargetHealth::Serving);
            if serving {
                return Some((Action::ConfirmTarget, Why::Observed));
            }
            waits.push(Wait::TargetStarts {
                node: target.node,
                epoch: target.epoch,
                until: target.since + TARGET_START_MAX,
            });
            None
        }
        TargetStage::Serving | TargetStage::Stopping => None,
    }
}

/// A copy recorded healthy that may still obey an older target.
fn unfenced(look: &Look<'_>, target: &Target) -> Option<Wait> {
    for copy in &look.copies {
        if !look.membership.is_recorded_healthy(copy.replica.id) {
            continue;
        }
        let fenced = match copy.standing {
            Standing::Usable(seen) => look.world.admits(seen, target.epoch),
            Standing::Lost(Loss::NodeDead | Loss::Forgotten) => true,
            // A pool may be back the next moment: its engine must know the epoch by then.
            Standing::Lost(_) => {
                look.world.generation(copy.replica.node) >= look.volume.meta.revision
            }
            Standing::Unknown | Standing::Unmade => false,
        };
        if !fenced {
            let (replica, node) = (copy.replica.id, copy.replica.node);
            return Some(Wait::Fence { replica, node, epoch: target.epoch });
        }
    }
    unburied(look).or_else(|| sources(look).err())
}

/// After a promotion the copies that an older target waits for do not count, and one of them may be
/// back the next moment: the target itself must be gone wherever its node can be told.
fn unburied(look: &Look<'_>) -> Option<Wait> {
    if look.volume.layout.promotions.is_empty() {
        return None;
    }
    let of = |epoch| Buried::Target { volume: look.volume.meta.id, epoch };
    let is_told = |view: &NodeView| view.liveness != Liveness::Dead && !view.record.spec.forgotten;
    look.world.nodes.iter().filter(|(_, view)| is_told(view)).find_map(|(node, view)| {
        let mut older = view.tombstones.range(of(Epoch::ZERO)..of(look.volume.layout.epoch));
        older.next().map(|(buried, _)| Wait::TombstoneDone { node: *node, buried: *buried })
    })
}

fn stop(look: &Look<'_>, target: &Target, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    match target.stage {
        // It was in no config: nobody can have started it.
        TargetStage::Fencing => return Some((Action::RemoveTarget, Why::Unneeded)),
        TargetStage::Starting | TargetStage::Serving => {
            if loss(look, target).is_some() {
                return Some(abandon(look));
            }
            return Some((Action::StopTarget, Why::Unneeded));
        }
        TargetStage::Stopping => {}
    }
    if loss(look, target).is_some() {
        return Some(abandon(look));
    }
    match look.world.target_seen(look.volume, target) {
        // It gave the record back, or it left in some other way and must not come back.
        Observed::Absent if look.membership.owner.is_none() => {
            Some((Action::RemoveTarget, Why::Observed))
        }
        Observed::Absent => Some(abandon(look)),
        Observed::Present(seen) if seen.health == TargetHealth::Fenced => Some(abandon(look)),
        Observed::Present(_) | Observed::Unknown => {
            let until = target.since + TARGET_STOP_MAX;
            if look.world.now >= until {
                return Some(abandon(look));
            }
            waits.push(Wait::TargetStops { node: target.node, epoch: target.epoch, until });
            None
        }
    }
}

fn abandon(look: &Look<'_>) -> (Action, Why) {
    (Action::AbandonTarget { epoch: next_epoch(look) }, Why::Unneeded)
}
