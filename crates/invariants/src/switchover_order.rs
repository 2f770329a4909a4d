//! HA-2, HA-4, HA-5, HA-6: a switchover goes its way step by step and leaves no old target behind.
//!
//! The way itself is `model::SwitchoverStage::next`: a stage follows another only if some
//! observation leads there. Hosts are sent to a successor only once it serves.

use alloc::{format, string::String};

use model::{
    Epoch, HostStage, Next, Publication, Seen as Observation, Switchover, SwitchoverStage,
    TargetHealth, TargetSeen, TargetStage, Volume,
};

use crate::{Committed, Promise, Seen, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("switchover_order", "a switchover moves only along its drawing")
        .of_commits(check)
        .of_commits_beside_machines(check_paths);

fn check(committed: Committed<'_>, report: &mut Report) {
    for change in committed.volumes() {
        let Some((before, after)) = change.volume.both() else { continue };
        let words = match (&before.layout.switchover, &after.layout.switchover) {
            (None, Some(new)) => begun_wrongly(before, after, &new.stage),
            (Some(was), Some(is)) if was.stage != is.stage => {
                moved_wrongly(after, &was.stage, &is.stage)
            }
            (Some(was), None) => ended_wrongly(after, was),
            _ => None,
        };
        if let Some(words) = words {
            report.broken(change.key(), words);
        }
    }
}

/// HA-4: old targets go once every host that can be asked is at the new one.
fn check_paths(committed: Committed<'_>, seen: &Seen<'_>, report: &mut Report) {
    for change in committed.volumes() {
        let Some((before, after)) = change.volume.both() else { continue };
        let stage = |volume: &Volume| volume.layout.switchover.as_ref().map(|s| s.stage.clone());
        let was_moving = matches!(stage(before), Some(SwitchoverStage::ReplacePath { .. }));
        let is_moved = matches!(stage(after), Some(SwitchoverStage::DeleteTarget { .. }));
        if !(was_moving && is_moved) {
            continue;
        }
        let Some(target) = &after.layout.target else { continue };
        let engine = seen.inventories.get(&target.node);
        let engine = engine.filter(|_| seen.steady.contains(&target.node));
        let found = engine.and_then(|engine| engine.targets.get(&change.volume.id));
        // One that failed meanwhile has closed its sessions.
        let serves = |found: &&TargetSeen| {
            found.epoch == target.epoch && found.health == TargetHealth::Serving
        };
        let Some(found) = found.filter(serves) else { continue };
        for (host, stage) in &after.layout.hosts {
            let is_asked = *stage == HostStage::Admitted && seen.steady_hosts.contains(host);
            if is_asked && !found.hosts.contains(host) {
                let words = format!("its old targets go, and host {host} is not at the new one");
                report.broken(change.key(), words);
            }
        }
    }
}

fn begun_wrongly(before: &Volume, after: &Volume, stage: &SwitchoverStage) -> Option<String> {
    let is_fine = match stage {
        SwitchoverStage::Init | SwitchoverStage::Errored { .. } => true,
        // Begun and republished at once.
        SwitchoverStage::RepublishVolume { epoch } => {
            before.layout.epoch < *epoch && *epoch == after.layout.epoch
        }
        SwitchoverStage::ReplacePath { .. } | SwitchoverStage::DeleteTarget { .. } => false,
    };
    (!is_fine).then(|| format!("a switchover began as {stage}"))
}

fn moved_wrongly(after: &Volume, was: &SwitchoverStage, is: &SwitchoverStage) -> Option<String> {
    let begins_again =
        matches!(was, SwitchoverStage::Errored { .. }) && *is == SwitchoverStage::Init;
    let errs = matches!(is, SwitchoverStage::Errored { .. });
    if !(errs || begins_again || follows(was, is)) {
        return Some(format!("its switchover went from {was} to {is}"));
    }
    let SwitchoverStage::ReplacePath { epoch } = is else { return None };
    let serves = after
        .layout
        .target
        .as_ref()
        .is_some_and(|target| target.epoch == *epoch && target.stage == TargetStage::Serving);
    (!serves).then(|| format!("hosts are sent to epoch {epoch}, which is not recorded serving"))
}

/// Whether any observation leads from one stage to the other.
fn follows(was: &SwitchoverStage, is: &SwitchoverStage) -> bool {
    let observations = |epoch: Epoch| {
        [
            Observation::Republished(epoch),
            Observation::Serving(epoch),
            Observation::PathsReplaced(epoch),
            Observation::Buried(epoch),
            Observation::SuccessorLost(epoch),
        ]
    };
    let epochs = [was.epoch(), is.epoch()].into_iter().flatten();
    let mut followers = epochs.flat_map(observations).filter_map(|seen| was.next(seen));
    followers.any(|next| next == Next::Stage(is.clone()))
}

fn ended_wrongly(after: &Volume, was: &Switchover) -> Option<String> {
    let target = after.layout.target.as_ref();
    let unneeded = after.spec.deleting
        || (after.spec.publish.is_none() && after.spec.share.is_none())
        || matches!(after.layout.publication, Publication::Failed { .. })
        || target.is_none_or(|target| target.stage == TargetStage::Stopping);
    let is_done = match &was.stage {
        SwitchoverStage::DeleteTarget { .. } => after.layout.old_targets.is_empty(),
        // What was to be left is still there and serves: the cause went away by itself.
        SwitchoverStage::Init | SwitchoverStage::Errored { .. } => {
            target.is_some_and(|target| target.reference() == was.from)
        }
        SwitchoverStage::RepublishVolume { .. } | SwitchoverStage::ReplacePath { .. } => false,
    };
    let left = after.layout.old_targets.len();
    (!(is_done || unneeded))
        .then(|| format!("its switchover ended at {} with {left} old targets", was.stage))
}

#[cfg(test)]
mod tests;
