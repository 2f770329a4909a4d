//! RC-4, K8-6: a snapshot that is ready can be read, and no dropped replica takes its last copy.

use alloc::format;

use model::{Key, SnapshotStage};

use crate::{Promise, Records, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("snapshots", "a ready snapshot has a copy in its volume's layout")
        .of_records(check);

fn check(records: &Records, key: &Key, report: &mut Report) {
    let Key::Snapshot(id) = key else { return };
    let Some(snapshot) = records.snapshots.get(id) else { return };
    let Some(volume) = records.volumes.get(&snapshot.spec.volume) else { return };
    if snapshot.layout.stage != SnapshotStage::Ready || snapshot.spec.deleting {
        return;
    }
    let copies = &snapshot.layout.copies;
    if !copies.iter().any(|copy| volume.replica(*copy).is_some()) {
        let words = format!("it is ready, and none of its {} copies is in a layout", copies.len());
        report.broken(key.clone(), words);
    }
}

#[cfg(test)]
mod tests;
