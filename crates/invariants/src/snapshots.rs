//! RC-4, K8-6: a snapshot that is ready can be read, and no dropped replica takes its last copy.

use alloc::{collections::BTreeSet, format};

use model::{Key, ReplicaId, Snapshot, SnapshotStage};

use crate::{Committed, Promise, Records, Seen, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("snapshots", "a ready snapshot has a copy in its volume's layout")
        .of_records(check)
        .of_commits_beside_machines(check_machines);

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

/// A copy that is called one holds it, if it can be looked at.
fn check_machines(committed: Committed<'_>, seen: &Seen<'_>, report: &mut Report) {
    for change in committed.snapshots() {
        let Some(after) = change.after else { continue };
        let copies = |snapshot: &Snapshot| match snapshot.layout.stage {
            SnapshotStage::Ready => snapshot.layout.copies.clone(),
            _ => BTreeSet::new(),
        };
        let before = change.before.map(copies).unwrap_or_default();
        let Some(volume) = committed.records.volumes.get(&after.spec.volume) else { continue };
        let is_new = |copy: &ReplicaId| !before.contains(copy);
        for replica in copies(after).iter().filter(|copy| is_new(copy)) {
            let Some(place) = volume.replica(*replica) else { continue };
            let found = seen.replica(place.node, place.pool, *replica);
            if found.is_some_and(|found| !found.snapshots.contains_key(&change.id)) {
                let words = format!("replica {replica} is called a copy of it and holds nothing");
                report.broken(Key::Snapshot(change.id), words);
            }
        }
    }
}

#[cfg(test)]
mod tests;
