//! LC-4, OP-3, SV-5: an exclusive volume lets one host in, and the next only after it is out.
//!
//! Two hosts that mount the same file system destroy it, however good the copies are.

use alloc::format;

use model::{Access, HostStage, Key};

use crate::{Promise, Records, Seen, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("exclusive_host", "an exclusive volume has one host at a time")
        .of_records(check_record)
        .of_machines(check_machines);

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

#[cfg(test)]
mod tests;
