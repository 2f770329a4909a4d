//! M-24, OP-1, LC-9: what was made once is never made again, and what was shown is never taken
//! back.
//!
//! A pool or replica that was observed must be found from then on: made again, it would be a blank
//! copy that passes for a good one. A device never shrinks under its user. Accepted losses stay on
//! record.

use alloc::format;

use model::{Key, PoolStage, ReplicaStage, Severity, VolumeStage};

use crate::{Committed, Promise, Records, Seen, VolumeChange, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("create_once", "what was made once is never made again, and nothing shrinks")
        .of_records(check_record)
        .of_commits(check_commit)
        .of_commits_beside_machines(check_exposed);

fn check_record(records: &Records, key: &Key, report: &mut Report) {
    let Key::Volume(id) = key else { return };
    let Some(volume) = records.volumes.get(id) else { return };
    if volume.layout.exposed > volume.layout.size {
        let (exposed, size) = (volume.layout.exposed, volume.layout.size);
        report.broken(key.clone(), format!("its target shows {exposed}, its copies hold {size}"));
    }
}

fn check_commit(committed: Committed<'_>, report: &mut Report) {
    for change in committed.volumes() {
        check_volume(change, report);
    }
    for change in committed.pools() {
        let Some((before, after)) = change.both() else { continue };
        if before.layout.stage == PoolStage::Ready && after.layout.stage == PoolStage::Creating {
            report.broken(Key::Pool(change.id), "it was made, and may be made again");
        }
    }
    for (number, before) in &committed.commit.events {
        let after = committed.records.events.get(number).copied();
        if *before == Some(Severity::Loss) && after != Some(Severity::Loss) {
            report.broken(Key::Event(*number), "it told of a loss, and is gone");
        }
    }
}

/// What hosts are shown has room on every copy that can be looked at.
fn check_exposed(committed: Committed<'_>, seen: &Seen<'_>, report: &mut Report) {
    for change in committed.volumes() {
        let (Some((before, after)), Some(membership)) =
            (change.volume.both(), change.membership.after)
        else {
            continue;
        };
        let exposed = after.layout.exposed;
        if before.layout.exposed >= exposed {
            continue;
        }
        let healthy = after.layout.replicas.iter().filter(|r| membership.is_healthy(r.id));
        for replica in healthy.filter(|replica| seen.steady.contains(&replica.node)) {
            let found = seen.replica(replica.node, replica.pool, replica.id);
            if let Some(found) = found.filter(|found| found.size < exposed) {
                let (id, size) = (replica.id, found.size);
                let words = format!("hosts are shown {exposed}, and replica {id} has {size}");
                report.broken(change.key(), words);
            }
        }
    }
}

fn check_volume(change: VolumeChange<'_>, report: &mut Report) {
    let Some((before, after)) = change.volume.both() else { return };
    let (was, is) = (&before.layout, &after.layout);
    if was.stage == VolumeStage::Created && is.stage == VolumeStage::Creating {
        report.broken(change.key(), "it was created, and is being created again");
    }
    for replica in &was.replicas {
        let now = after.replica(replica.id).map(|replica| replica.stage);
        if replica.stage != ReplicaStage::Creating && now == Some(ReplicaStage::Creating) {
            let words = format!("replica {} was made, and may be made again", replica.id);
            report.broken(change.key(), words);
        }
    }
    for (what, was, is) in [("size", was.size, is.size), ("exposed size", was.exposed, is.exposed)]
    {
        if was > is {
            report.broken(change.key(), format!("its {what} shrank from {was} to {is}"));
        }
    }
    if !is.promotions.starts_with(&was.promotions) {
        report.broken(change.key(), "a promotion that accepted data loss is no longer on record");
    }
}

#[cfg(test)]
mod tests;
