//! LC-1, HA-4: hosts are sent to a target only once it serves.
//!
//! The record that calls a target serving is what gives hosts their path. A target may have failed
//! since it was observed, but one that is still starting, or not there at all, never served.

use alloc::format;

use model::{Target, TargetHealth, TargetStage};

use crate::{Committed, Promise, Seen, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("serving_first", "a target is called serving only once it serves")
        .of_commits_beside_machines(check);

fn check(committed: Committed<'_>, seen: &Seen<'_>, report: &mut Report) {
    for change in committed.volumes() {
        let Some((before, after)) = change.volume.both() else { continue };
        let serving = |target: &&Target| target.stage == TargetStage::Serving;
        let Some(target) = after.layout.target.as_ref().filter(serving) else { continue };
        let was_serving = before
            .layout
            .target
            .as_ref()
            .is_some_and(|was| was.epoch == target.epoch && was.stage == TargetStage::Serving);
        // A process that is gone cannot be asked any more.
        let engine = seen.inventories.get(&target.node);
        let Some(engine) = engine.filter(|engine| engine.instance == target.instance) else {
            continue;
        };
        let found = engine.targets.get(&change.volume.id);
        let found = found.filter(|found| found.epoch >= target.epoch);
        let never_served = found.is_none_or(|found| found.health == TargetHealth::Starting);
        if !was_serving && never_served {
            let words = format!(
                "the target of epoch {} is called serving, on node {} it is {:?}",
                target.epoch,
                target.node,
                found.map(|found| &found.health)
            );
            report.broken(change.key(), words);
        }
    }
}

#[cfg(test)]
mod tests;
