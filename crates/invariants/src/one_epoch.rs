//! HA-3, HA-9, ST-5: an epoch names one target in one process, and newer ones shut out older ones.
//!
//! ```text
//! Fencing ─▶ Starting ─▶ Serving ─▶ Stopping ─▶ (gone)     within one epoch, never back
//! ```
//! Layout and membership carry the same epoch because one transaction raises both: that is the
//! moment of a switchover, and a target that reads a higher epoch than its own stops by itself.

use alloc::{collections::BTreeMap, format, string::String};

use model::{Epoch, Key, NodeId, Target, TargetStage, VolumeId};

use crate::{Committed, Promise, Records, Seen, VolumeChange, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("one_epoch", "an epoch names one target in one process, and only ever rises")
        .of_records(check_record)
        .of_commits(check_commit)
        .of_machines(check_machines);

fn check_record(records: &Records, key: &Key, report: &mut Report) {
    let Key::Volume(id) = key else { return };
    let Some((volume, membership)) = records.volume(*id) else { return };
    let epoch = volume.layout.epoch;
    if membership.epoch != epoch {
        let words = format!("layout has epoch {epoch}, membership {}", membership.epoch);
        report.broken(key.clone(), words);
    }
    if let Some(target) = volume.layout.target.as_ref().filter(|target| target.epoch > epoch) {
        let words = format!("its target has epoch {}, only {epoch} was issued", target.epoch);
        report.broken(key.clone(), words);
    }
}

fn check_commit(committed: Committed<'_>, report: &mut Report) {
    for change in committed.volumes() {
        if let Some((before, after)) = change.membership.both()
            && before.epoch > after.epoch
        {
            let words = format!("membership went from epoch {} to {}", before.epoch, after.epoch);
            report.broken(change.key(), words);
        }
        let Some((before, after)) = change.volume.both() else { continue };
        let (was, is) = (&before.layout, &after.layout);
        if was.epoch > is.epoch {
            let words = format!("layout went from epoch {} to {}", was.epoch, is.epoch);
            report.broken(change.key(), words);
        }
        let words = match (&was.target, &is.target) {
            (Some(was), Some(is)) if same_target(was, is) => moved_back(was.stage, is.stage),
            (_, Some(target)) => issued_wrongly(was.epoch, target),
            (Some(target), None) => let_go(change, target),
            (None, None) => None,
        };
        if let Some(words) = words {
            report.broken(change.key(), words);
        }
    }
}

fn same_target(was: &Target, is: &Target) -> bool {
    (was.epoch, was.node, was.instance) == (is.epoch, is.node, is.instance)
}

fn moved_back(was: TargetStage, is: TargetStage) -> Option<String> {
    let skipped = was == TargetStage::Fencing && is == TargetStage::Serving;
    (is < was || skipped).then(|| format!("its target went from {was} to {is}"))
}

/// Another target, and so another epoch than any before; and it begins with the fence.
fn issued_wrongly(highest: Epoch, target: &Target) -> Option<String> {
    if target.epoch <= highest {
        let (epoch, node) = (target.epoch, target.node);
        return Some(format!("epoch {epoch} was issued to node {node}, {highest} was in use"));
    }
    (target.stage != TargetStage::Fencing)
        .then(|| format!("the target of epoch {} was born {}", target.epoch, target.stage))
}

/// A target leaves without a fence only if it gave the record up: else it would still serve.
fn let_go(change: VolumeChange<'_>, target: &Target) -> Option<String> {
    let given_up = change.membership.after.is_none_or(|membership| {
        membership.epoch > target.epoch
            || membership.owner != Some(target.instance)
            || membership.clean
    });
    (!given_up).then(|| {
        format!("its target of epoch {} was let go while it owns the membership", target.epoch)
    })
}

/// Two nodes never have a target of the same epoch. (Two of different epochs may both believe to
/// serve for a while: the replicas refuse the older one.)
fn check_machines(_: &Records, seen: &Seen<'_>, report: &mut Report) {
    let mut homes: BTreeMap<(VolumeId, Epoch), NodeId> = BTreeMap::new();
    for (node, inventory) in seen.inventories {
        for (volume, target) in &inventory.targets {
            if let Some(other) = homes.insert((*volume, target.epoch), *node) {
                let words = format!("epoch {} runs on node {other} and {node}", target.epoch);
                report.broken(Key::Volume(*volume), words);
            }
        }
    }
}

#[cfg(test)]
mod tests;
