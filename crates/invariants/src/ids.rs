//! LC-5, RC-6, M-24: a replica id names one copy in one pool, for ever.
//!
//! A tombstone destroys by id, whenever its node comes back. An id used again would be destroyed
//! with it, or an old copy would pass for the new one.

use alloc::format;

use model::Key;

use crate::{Committed, Promise, Records, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("ids", "a replica id names one copy in one pool, for ever")
        .of_records(check_record)
        .of_commits(check_commit);

fn check_record(records: &Records, key: &Key, report: &mut Report) {
    let Key::Volume(id) = key else { return };
    let Some(volume) = records.volumes.get(id) else { return };
    for (index, replica) in volume.layout.replicas.iter().enumerate() {
        if volume.layout.replicas[..index].iter().any(|other| other.id == replica.id) {
            report.broken(key.clone(), format!("replica {} is twice in the layout", replica.id));
        }
        let Some(birth) = records.births.get(&replica.id) else { continue };
        if birth.volume != *id || birth.pool != replica.pool {
            let words = format!(
                "replica {} in pool {} was one of volume {} in pool {}",
                replica.id, replica.pool, birth.volume, birth.pool
            );
            report.broken(key.clone(), words);
        }
    }
}

fn check_commit(committed: Committed<'_>, report: &mut Report) {
    for change in committed.volumes() {
        for replica in change.placed() {
            let birth = committed.records.births.get(&replica.id);
            if birth.is_some_and(|birth| birth.revision < committed.commit.revision) {
                let words = format!("replica {} is placed although its id was used", replica.id);
                report.broken(change.key(), words);
            }
        }
        let Some((before, after)) = change.volume.both() else { continue };
        if before.layout.placed > after.layout.placed {
            let (was, is) = (before.layout.placed, after.layout.placed);
            let words = format!("its count of replicas ever placed went from {was} to {is}");
            report.broken(change.key(), words);
        }
    }
}

#[cfg(test)]
mod tests;
