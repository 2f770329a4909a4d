//! LC-5, RC-6, HA-5, M-07: what leaves the layout is handed to its node to destroy, and nothing
//! else.
//!
//! Absence is not deletion: an engine destroys only what a tombstone names. So whatever goes
//! without one stays on a disk for ever, and whatever has one while it is wanted is lost.

use alloc::format;

use model::{Buried, Key, NodeId, SnapshotStage, Target, TargetRef};

use crate::{Committed, Promise, Records, Seen, VolumeChange, broken::Report};

pub(crate) const PROMISE: Promise = Promise::new(
    "tombstones",
    "what leaves a layout is buried in the same commit, and nothing wanted is",
)
.of_records(check_record)
.of_commits(check_commit)
.of_commits_beside_machines(check_cleared);

fn check_record(records: &Records, key: &Key, report: &mut Report) {
    match key {
        Key::Tombstone(node, buried) if records.tombstones.contains_key(&(*node, *buried)) => {
            if !records.nodes.contains_key(node) {
                report.broken(key.clone(), "its node is not there");
            }
            if is_wanted(records, *node, buried) {
                report.broken(key.clone(), "what it destroys is wanted");
            }
        }
        Key::Volume(id) => {
            let Some(volume) = records.volumes.get(id) else { return };
            let replicas = volume.layout.replicas.iter().map(|replica| {
                (replica.node, Buried::Replica { replica: replica.id, pool: replica.pool })
            });
            let targets =
                volume.layout.target.iter().map(|target| {
                    (target.node, Buried::Target { volume: *id, epoch: target.epoch })
                });
            for grave in replicas.chain(targets) {
                if records.tombstones.contains_key(&grave) {
                    let words = format!("{} is wanted, and node {} buries it", grave.1, grave.0);
                    report.broken(key.clone(), words);
                }
            }
        }
        _ => {}
    }
}

fn is_wanted(records: &Records, node: NodeId, buried: &Buried) -> bool {
    match buried {
        Buried::Replica { replica, .. } => {
            let birth = records.births.get(replica);
            let volume = birth.and_then(|birth| records.volumes.get(&birth.volume));
            volume.is_some_and(|volume| volume.replica(*replica).is_some())
        }
        Buried::Target { volume, epoch } => {
            let target = records.volumes.get(volume).and_then(|v| v.layout.target.as_ref());
            target.is_some_and(|t| t.reference() == TargetRef { node, epoch: *epoch })
        }
        Buried::Snapshot { snapshot, replica, .. } => {
            records.snapshots.get(snapshot).is_some_and(|snapshot| {
                snapshot.layout.stage == SnapshotStage::Ready
                    && !snapshot.spec.deleting
                    && snapshot.layout.copies.contains(replica)
            })
        }
        Buried::Pool { pool } => {
            let pool = records.pools.get(pool);
            pool.is_some_and(|pool| !(pool.spec.deleting || pool.spec.forgotten))
        }
    }
}

fn check_commit(committed: Committed<'_>, report: &mut Report) {
    let is_buried =
        |node: NodeId, buried: Buried| committed.records.tombstones.contains_key(&(node, buried));
    for change in committed.volumes() {
        for replica in change.dropped() {
            let buried = Buried::Replica { replica: replica.id, pool: replica.pool };
            let written_off = committed.is_written_off(replica.pool, replica.node);
            if !written_off && !is_buried(replica.node, buried) {
                let words = format!("{buried} was dropped, and node {} is not told", replica.node);
                report.broken(change.key(), words);
            }
        }
        check_targets(committed, change, report);
    }
    for change in committed.pools() {
        let (Some(gone), None) = (change.before, change.after) else { continue };
        let node = gone.spec.node;
        let written_off = gone.spec.forgotten || committed.is_node_written_off(node);
        if !written_off && !is_buried(node, Buried::Pool { pool: change.id }) {
            let words = format!("it was removed, and node {node} is not told");
            report.broken(Key::Pool(change.id), words);
        }
    }
    check_snapshots(committed, report);
}

/// Every target that the layout named before and does not name now, as current or as old.
fn check_targets(committed: Committed<'_>, change: VolumeChange<'_>, report: &mut Report) {
    let Some(before) = change.volume.before else { return };
    let left = before.layout.target.iter().filter(|target| {
        // A process that is gone took its targets along.
        let node = committed.records.nodes.get(&target.node);
        node.is_some_and(|node| node.layout.instance == Some(target.instance))
            && !was_let_go(change, target)
    });
    let targets = left.map(Target::reference).chain(before.layout.old_targets.iter().copied());
    for target in targets {
        let is_named = change.volume.after.is_some_and(|after| {
            let now = after.layout.target.as_ref().map(Target::reference);
            // One target per volume and node: a newer one there takes the place of the older.
            now.is_some_and(|now| now.node == target.node && now.epoch >= target.epoch)
                || after.layout.old_targets.contains(&target)
        });
        let buried = Buried::Target { volume: change.volume.id, epoch: target.epoch };
        let is_buried = committed.records.tombstones.contains_key(&(target.node, buried));
        if !is_named && !is_buried && !committed.is_node_written_off(target.node) {
            let words = format!("{buried} was dropped, and node {} is not told", target.node);
            report.broken(change.key(), words);
        }
    }
}

/// It gave up the membership record by itself: nothing of it is left to destroy.
fn was_let_go(change: VolumeChange<'_>, target: &Target) -> bool {
    let Some((_, after)) = change.volume.both() else { return false };
    let membership = change.membership.after;
    after.layout.target.is_none()
        && after.layout.epoch == target.epoch
        && membership.is_some_and(|m| m.owner != Some(target.instance) || m.clean)
}

fn check_snapshots(committed: Committed<'_>, report: &mut Report) {
    for change in committed.snapshots() {
        let (Some(gone), None) = (change.before, change.after) else { continue };
        let Some(volume) = committed.records.volumes.get(&gone.spec.volume) else { continue };
        for replica in gone.layout.copies.iter().filter_map(|copy| volume.replica(*copy)) {
            let buried =
                Buried::Snapshot { snapshot: change.id, replica: replica.id, pool: replica.pool };
            let is_buried = committed.records.tombstones.contains_key(&(replica.node, buried));
            if !is_buried && !committed.is_written_off(replica.pool, replica.node) {
                let words = format!("{buried} was dropped, and node {} is not told", replica.node);
                report.broken(Key::Snapshot(change.id), words);
            }
        }
    }
}

/// A tombstone goes when what it names is gone, or when nobody will ever look again.
fn check_cleared(committed: Committed<'_>, seen: &Seen<'_>, report: &mut Report) {
    for (node, buried) in committed.commit.tombstones.keys() {
        let (node, buried) = (*node, *buried);
        let written_off = match buried.pool() {
            // A pool that was buried has no record any more, and still must be gone.
            Some(pool) if !matches!(buried, Buried::Pool { .. }) => {
                committed.is_written_off(pool, node)
            }
            _ => committed.is_node_written_off(node),
        };
        if written_off || committed.records.tombstones.contains_key(&(node, buried)) {
            continue;
        }
        let is_there = match buried {
            Buried::Replica { replica, pool } => seen.replica(node, pool, replica).is_some(),
            // A rebuild that is under way may bring it along once more; it is found again as an
            // orphan.
            Buried::Snapshot { .. } => false,
            Buried::Target { volume, epoch } => seen.has_target(node, volume, epoch),
            Buried::Pool { pool } => seen.pool(node, pool).is_some(),
        };
        if is_there {
            let words = "it was cleared, and what it names is still there";
            report.broken(Key::Tombstone(node, buried), words);
        }
    }
}

#[cfg(test)]
mod tests;
