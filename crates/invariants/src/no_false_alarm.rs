//! HA-3, HA-7: nobody is given up who is there.
//!
//! A false alarm costs a pause of every host and a resync, so each cause of a switchover must be
//! true of the machines at the commit that names it. Silence is judged only of nodes that were in
//! touch with everybody for long enough; a controller that was late itself kills nobody.

use alloc::{format, string::String};

use model::{
    Key, SwitchoverCause, Target, TargetHealth, TargetStage, Time, Volume, limits::TARGET_START_MAX,
};

use crate::{Committed, Promise, Seen, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("no_false_alarm", "nobody is given up who is there and in touch")
        .of_commits_beside_machines(check);

fn check(committed: Committed<'_>, seen: &Seen<'_>, report: &mut Report) {
    for change in committed.nodes() {
        let Some((before, after)) = change.both() else { continue };
        let is_marked = before.layout.gone_since.is_none() && after.layout.gone_since.is_some();
        if is_marked && seen.steady.contains(&change.id) {
            report.broken(Key::Node(change.id), "it was marked gone, and is in touch");
        }
    }
    for change in committed.volumes() {
        let Some((before, after)) = change.volume.both() else { continue };
        let (None, Some(begun)) = (&before.layout.switchover, &after.layout.switchover) else {
            continue;
        };
        let Some(target) = &before.layout.target else { continue };
        let wrong = match begun.cause {
            SwitchoverCause::NodeDead => is_in_touch(committed, seen, target),
            SwitchoverCause::NotServing => is_well(seen, before, target, begun.started),
            SwitchoverCause::ProcessGone => is_on_record(committed, target),
            // Whether a host reaches it is not known here.
            SwitchoverCause::PathFailed | SwitchoverCause::Drain => None,
        };
        if let Some(words) = wrong {
            let words = format!("it is moved because {}: {words}", begun.cause);
            report.broken(change.key(), words);
        }
    }
}

fn is_in_touch(committed: Committed<'_>, seen: &Seen<'_>, target: &Target) -> Option<String> {
    let steady = seen.steady.contains(&target.node) && !committed.is_node_written_off(target.node);
    steady.then(|| format!("node {} is in touch", target.node))
}

fn is_on_record(committed: Committed<'_>, target: &Target) -> Option<String> {
    let node = committed.records.nodes.get(&target.node);
    let same = node.is_some_and(|node| node.layout.instance == Some(target.instance));
    same.then(|| format!("process {} is on record", target.instance))
}

/// Its engine runs it, or was not even told to.
fn is_well(seen: &Seen<'_>, before: &Volume, target: &Target, now: Time) -> Option<String> {
    let engine = seen.inventories.get(&target.node);
    let engine = engine.filter(|engine| engine.instance == target.instance)?;
    if target.stage == TargetStage::Starting && now.since(target.since) >= TARGET_START_MAX {
        return None;
    }
    let found = engine.targets.get(&before.meta.id).filter(|found| found.epoch == target.epoch);
    match found.map(|found| &found.health) {
        Some(TargetHealth::Fenced | TargetHealth::Failed { .. }) => None,
        Some(health) => Some(format!("on node {} it is {health:?}", target.node)),
        None if engine.generation < before.meta.revision => {
            Some(format!("node {} has not heard of it", target.node))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests;
