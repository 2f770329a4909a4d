//! LC-5, LC-7: a name leads to one resource, and every living resource is found by its name.
//!
//! The name key makes names unique by compare-and-swap. A resource that is being deleted gives its
//! name up at once, so that it can be used again.

use alloc::{
    format,
    string::{String, ToString},
};
use core::fmt::Display;

use model::{Key, Meta};

use crate::{Committed, Promise, Records, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("names", "a name leads to one resource, and a living one is found by its name")
        .of_records(check_record)
        .of_commits(check_commit);

const VOLUME: &str = "volume";
const POOL: &str = "pool";
const SNAPSHOT: &str = "snapshot";
const NODE: &str = "node";
const HOST: &str = "host";

fn check_record(records: &Records, key: &Key, report: &mut Report) {
    let found = match key {
        Key::Volume(id) => records
            .volumes
            .get(id)
            .filter(|volume| !volume.spec.deleting)
            .is_none_or(|volume| is_found(records, VOLUME, &volume.meta)),
        Key::Pool(id) => records
            .pools
            .get(id)
            .filter(|pool| !(pool.spec.deleting || pool.spec.forgotten))
            .is_none_or(|pool| is_found(records, POOL, &pool.meta)),
        Key::Snapshot(id) => records
            .snapshots
            .get(id)
            .filter(|snapshot| !snapshot.spec.deleting)
            .is_none_or(|snapshot| is_found(records, SNAPSHOT, &snapshot.meta)),
        Key::Name(kind, name) => leads_somewhere(records, kind, name),
        _ => true,
    };
    if !found {
        let words = match key {
            Key::Name(..) => "it leads to nothing of that name",
            _ => "its name does not lead to it",
        };
        report.broken(key.clone(), words);
    }
}

/// A name that goes leaves no living resource behind, and a resource that goes takes its name
/// along.
fn check_commit(committed: Committed<'_>, report: &mut Report) {
    for ((kind, _), holder) in &committed.commit.names {
        if let Some(key) = holder.as_ref().and_then(|id| resource(kind, id)) {
            check_record(committed.records, &key, report);
        }
    }
    let mut judge = |kind: &str, name: &str, id: String| {
        if holder(committed.records, kind, name) == Some(&id) {
            report.broken(Key::name(kind, name), format!("it leads to {id}, which was removed"));
        }
    };
    for change in committed.volumes().map(|change| change.volume) {
        if let (Some(gone), None) = (change.before, change.after) {
            judge(VOLUME, &gone.meta.name, change.id.to_string());
        }
    }
    for change in committed.pools() {
        if let (Some(gone), None) = (change.before, change.after) {
            judge(POOL, &gone.meta.name, change.id.to_string());
        }
    }
    for change in committed.snapshots() {
        if let (Some(gone), None) = (change.before, change.after) {
            judge(SNAPSHOT, &gone.meta.name, change.id.to_string());
        }
    }
    for change in committed.nodes() {
        if let (Some(gone), None) = (change.before, change.after) {
            judge(NODE, &gone.meta.name, change.id.to_string());
        }
    }
}

fn resource(kind: &str, id: &str) -> Option<Key> {
    match kind {
        VOLUME => id.parse().ok().map(Key::Volume),
        POOL => id.parse().ok().map(Key::Pool),
        SNAPSHOT => id.parse().ok().map(Key::Snapshot),
        _ => None,
    }
}

fn is_found<Id: Display>(records: &Records, kind: &str, meta: &Meta<Id>) -> bool {
    holder(records, kind, &meta.name).is_some_and(|id| *id == meta.id.to_string())
}

fn holder<'a>(records: &'a Records, kind: &str, name: &str) -> Option<&'a String> {
    records.names.get(&(kind.to_string(), name.to_string()))
}

fn leads_somewhere(records: &Records, kind: &str, name: &str) -> bool {
    // A name that was removed by the same commit is none any more.
    let Some(id) = holder(records, kind, name) else { return true };
    macro_rules! named {
        ($table:ident) => {
            id.parse().ok().and_then(|id| records.$table.get(&id)).map(|found| &found.meta.name)
        };
    }
    let found = match kind {
        VOLUME => named!(volumes),
        POOL => named!(pools),
        SNAPSHOT => named!(snapshots),
        NODE => named!(nodes),
        HOST => named!(hosts),
        // A kind of a later version: nothing is known of what it names.
        _ => return true,
    };
    found.is_some_and(|found| found == name)
}

#[cfg(test)]
mod tests;
