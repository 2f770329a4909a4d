//! Moving to a new target (HA-2…HA-5): the stages are in the layout, and each ends by what is
//! observed.

use alloc::{collections::BTreeSet, string::ToString, vec::Vec};

use model::{
    HostStage, Inventory, Liveness, Millis, Next, NodeId, PathHealth, Seen, Switchover,
    SwitchoverCause, SwitchoverStage, TargetHealth, TargetRef, TargetStage, Wait,
    limits::{MOVE_BACKOFF_MAX, MOVE_BACKOFF_MIN, MOVE_QUIET, SUCCESSOR_BACKOFF_MAX},
};

use super::{Look, publish, target};
use crate::{Action, Why};

pub(super) fn rule(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    match &look.volume.layout.switchover {
        None if target::wants_successor(look) => begin(look, waits),
        Some(switchover) if target::wants_successor(look) || has_successor(look, switchover) => {
            go_on(look, switchover, waits)
        }
        _ => None,
    }
}

/// The successor is there, though only hosts that leave still need it: the rest is to clear away,
/// which must not wait for a host that may be silent for ever.
fn has_successor(look: &Look<'_>, switchover: &Switchover) -> bool {
    let issued =
        !matches!(switchover.stage, SwitchoverStage::Init | SwitchoverStage::Errored { .. });
    let target = look.target().filter(|target| target.stage != TargetStage::Stopping);
    issued
        && target::is_needed(look).is_some()
        && target.is_some_and(|target| target::loss(look, target).is_none())
}

fn begin(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let target = look.target().filter(|target| target.stage != TargetStage::Stopping)?;
    let cause = target::loss(look, target).or_else(|| {
        let cause = target::unease(look, target, waits)?;
        match backoff(look, MOVE_BACKOFF_MAX) {
            None => Some(cause),
            Some(wait) => {
                waits.push(wait);
                None
            }
        }
    })?;
    Some((Action::BeginSwitchover { cause }, Why::Switchover(cause)))
}

fn go_on(look: &Look<'_>, switchover: &Switchover, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let why = Why::Switchover(switchover.cause);
    if let Some(action) = clear_dead_end(look) {
        return Some((action, why));
    }
    let seen = match &switchover.stage {
        SwitchoverStage::Init | SwitchoverStage::Errored { .. } => {
            return republish(look, switchover, waits);
        }
        SwitchoverStage::RepublishVolume { epoch }
        | SwitchoverStage::ReplacePath { epoch }
        | SwitchoverStage::DeleteTarget { epoch } => {
            let target = look.target()?;
            if target::loss(look, target).is_some() {
                Seen::SuccessorLost(*epoch)
            } else {
                match &switchover.stage {
                    SwitchoverStage::RepublishVolume { .. } => {
                        if target.stage != TargetStage::Serving {
                            return None;
                        }
                        Seen::Serving(target.epoch)
                    }
                    SwitchoverStage::ReplacePath { .. } => {
                        if let Some(wait) = unreplaced(look, *epoch) {
                            waits.push(wait);
                            return None;
                        }
                        Seen::PathsReplaced(*epoch)
                    }
                    _ if look.volume.layout.old_targets.is_empty() => Seen::Buried(*epoch),
                    _ => return Some((Action::BuryTargets, why)),
                }
            }
        }
    };
    match switchover.stage.next(seen)? {
        Next::Stage(stage) => Some((Action::AdvanceSwitchover { stage }, why)),
        Next::Successful => Some((Action::FinishSwitchover, why)),
    }
}

/// No copy can be reached, and perhaps none ever will: nothing of the switchover stays behind for
/// as long, neither old targets nor the hold on a node that was forgotten.
fn clear_dead_end(look: &Look<'_>) -> Option<Action> {
    if !matches!(target::sources(look), Err(Wait::NoHealthyCopy { .. })) {
        return None;
    }
    let node = look.target().and_then(|target| look.world.node(target.node));
    if node.is_some_and(|view| view.record.spec.forgotten) {
        return Some(Action::AbandonTarget { epoch: target::next_epoch(look) });
    }
    let old = &look.volume.layout.old_targets;
    let over = !old.is_empty() && old.iter().all(|old| is_over(look, *old));
    over.then_some(Action::BuryTargets)
}

/// Nobody is served by it any more. One that still serves keeps its hosts: to it the copies may be
/// within reach.
fn is_over(look: &Look<'_>, old: TargetRef) -> bool {
    // While a record somewhere does not decode, a missing one proves nothing.
    let Some(view) = look.world.node(old.node) else { return look.world.quarantined.is_empty() };
    let seen = |inventory: &Inventory| {
        let seen = inventory.targets.get(&look.volume.meta.id);
        seen.filter(|seen| seen.epoch == old.epoch).is_none_or(|seen| {
            let ended = matches!(seen.health, TargetHealth::Fenced | TargetHealth::Failed { .. });
            ended || seen.hosts.is_empty()
        })
    };
    match view.liveness {
        _ if view.record.spec.forgotten => true,
        Liveness::Dead => true,
        Liveness::Unknown => false,
        Liveness::Alive => view.inventory.as_ref().is_some_and(seen),
    }
}

/// A host that is still wanted and alive, and not yet on the new path alone. A dead consumer never
/// blocks a switchover.
fn unreplaced(look: &Look<'_>, epoch: model::Epoch) -> Option<Wait> {
    for (host, stage) in &look.volume.layout.hosts {
        let liveness = look.world.host_liveness(*host);
        if *stage != HostStage::Admitted || liveness == Liveness::Dead {
            continue;
        }
        let replaced = publish::host_paths(look, *host).is_some_and(|paths| {
            let mut live = false;
            let mut old = false;
            for path in paths {
                live |= path.epoch == epoch && path.health == PathHealth::Live;
                old |= path.epoch != epoch;
            }
            live && !old
        });
        if !replaced {
            return Some(Wait::PathLive { host: *host, epoch });
        }
    }
    None
}

fn republish(
    look: &Look<'_>,
    switchover: &Switchover,
    waits: &mut Vec<Wait>,
) -> Option<(Action, Why)> {
    // Nobody serves meanwhile. After a successor that died the next one is tried at once: nothing
    // can go round in circles by that. One that lives and failed is a reason to slow down.
    let mut tried = switchover.tried.iter();
    if tried.any(|node| look.world.liveness(*node) == Liveness::Alive)
        && let Some(wait) = backoff(look, SUCCESSOR_BACKOFF_MAX)
    {
        waits.push(wait);
        return None;
    }
    let why = Why::Switchover(switchover.cause);
    match choose(look, switchover) {
        Ok((node, instance)) => {
            let epoch = target::next_epoch(look);
            Some((Action::Republish { node, instance, epoch }, why))
        }
        Err(wait) => {
            let errored = matches!(switchover.stage, SwitchoverStage::Errored { .. });
            let reason = wait.to_string();
            let unknown = matches!(wait, Wait::NodeHeard { .. });
            waits.push(wait);
            let stage = SwitchoverStage::Errored { reason };
            (!errored && !unknown).then_some((Action::AdvanceSwitchover { stage }, why))
        }
    }
}

/// The same node if its process still runs and that is the quicker cure, else another one.
fn choose(look: &Look<'_>, switchover: &Switchover) -> Result<(NodeId, model::InstanceId), Wait> {
    let from = switchover.from.node;
    let mut avoid: BTreeSet<NodeId> = switchover.tried.clone();
    let quick = match switchover.cause {
        SwitchoverCause::NotServing | SwitchoverCause::ProcessGone => {
            !avoid.contains(&from) && look.has_copy_on(from)
        }
        SwitchoverCause::NodeDead | SwitchoverCause::PathFailed | SwitchoverCause::Drain => false,
    };
    let choice = target::choose(look, &avoid);
    if quick
        && choice.is_ok()
        && let Some(node) = look.world.node(from)
        && node.liveness == Liveness::Alive
        && node.inventory.is_some()
        && !node.record.spec.draining
        && let Some(instance) = node.record.layout.instance
    {
        return Ok((from, instance));
    }
    if quick {
        return choice;
    }
    avoid.insert(from);
    target::choose(look, &avoid)
}

/// Moves in short order wait longer each time.
fn backoff(look: &Look<'_>, most: Millis) -> Option<Wait> {
    let layout = &look.volume.layout;
    let moved_at = layout.moved_at?;
    if layout.moves == 0 || look.world.now.since(moved_at) >= MOVE_QUIET {
        return None;
    }
    let doubled = MOVE_BACKOFF_MIN.0 << layout.moves.min(16);
    let until = moved_at + Millis(doubled).min(most);
    (look.world.now < until).then_some(Wait::Backoff { until })
}
