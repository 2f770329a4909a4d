//! LC-4, OP-3, SV-5: an exclusive volume lets one host in, and the next only after it is out.
//!
//! Two hosts that mount the same file system destroy it, however good the copies are.

use alloc::format;

use model::{Access, HostId, HostStage, Key};

use crate::{Committed, Promise, Records, Seen, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("exclusive_host", "an exclusive volume has one host at a time")
        .of_records(check_record)
        .of_machines(check_machines)
        .of_commits_beside_machines(check_released);

fn check_record(records: &Records, key: &Key, report: &mut Report) {
    let Key::Volume(id) = key else { return };
    let Some(volume) = records.volumes.get(id) else { return };
    if volume.spec.access != Access::Exclusive {
        return;
    }
    let stages = volume.layout.hosts.values();
    let admitted = stages.filter(|stage| **stage == HostStage::Admitted).count();
    let leaving = volume.layout.hosts.len() - admitted;
    if admitted > 1 || (admitted == 1 && leaving > 0) {
        let words = format!("{admitted} hosts are admitted while {leaving} are leaving");
        report.broken(key.clone(), words);
    }
}

/// Sessions of two hosts at the target of the current epoch; older targets can change nothing.
fn check_machines(records: &Records, seen: &Seen<'_>, report: &mut Report) {
    for (id, volume) in &records.volumes {
        let Some(target) = &volume.layout.target else { continue };
        let inventory = seen.inventories.get(&target.node);
        let Some(found) = inventory.and_then(|inventory| inventory.targets.get(id)) else {
            continue;
        };
        let is_exclusive = volume.spec.access == Access::Exclusive;
        if is_exclusive && found.epoch == target.epoch && found.hosts.len() > 1 {
            let words = format!("its target has sessions of {} hosts", found.hosts.len());
            report.broken(Key::Volume(*id), words);
        }
    }
}

/// A host is out when the target has closed its sessions: it is let in no more, so none can follow.
fn check_released(committed: Committed<'_>, seen: &Seen<'_>, report: &mut Report) {
    for change in committed.volumes() {
        let Some((before, after)) = change.volume.both() else { continue };
        let Some(target) = &after.layout.target else { continue };
        let engine = seen.inventories.get(&target.node);
        let engine = engine.filter(|engine| engine.instance == target.instance);
        let found = engine.and_then(|engine| engine.targets.get(&change.volume.id));
        let Some(found) = found.filter(|found| found.epoch == target.epoch) else { continue };
        let is_out = |host: &&HostId| !after.layout.hosts.contains_key(host);
        for host in before.layout.hosts.keys().filter(is_out) {
            if found.hosts.contains(host) {
                let words = format!("host {host} is called out, and has a session");
                report.broken(change.key(), words);
            }
        }
    }
}

#[cfg(test)]
mod tests;
