//! LC-5, LC-6, OP-2: a resource goes only when a person asked for it.
//!
//! Deletion is a wish, and wishes are in the spec. A controller that removes what it holds for
//! unused, orphaned or broken has destroyed what somebody paid for.

use alloc::format;

use model::Key;

use crate::{Committed, Promise, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("asked_for", "no resource is removed that nobody asked to remove")
        .of_commits(check);

fn check(committed: Committed<'_>, report: &mut Report) {
    for change in committed.volumes().map(|change| change.volume) {
        if let (Some(gone), None) = (change.before, change.after) {
            judge(Key::Volume(change.id), gone.spec.deleting, report);
        }
    }
    for change in committed.pools() {
        if let (Some(gone), None) = (change.before, change.after) {
            let written_off = gone.spec.forgotten || committed.is_node_written_off(gone.spec.node);
            judge(Key::Pool(change.id), gone.spec.deleting || written_off, report);
        }
    }
    for change in committed.snapshots() {
        if let (Some(gone), None) = (change.before, change.after) {
            let volume = committed.volume(gone.spec.volume).volume.before;
            let with_volume = volume.is_none_or(|volume| volume.spec.deleting);
            judge(Key::Snapshot(change.id), gone.spec.deleting || with_volume, report);
        }
    }
    for change in committed.nodes() {
        if let (Some(gone), None) = (change.before, change.after) {
            judge(Key::Node(change.id), gone.spec.forgotten, report);
        }
    }
}

fn judge(key: Key, is_asked_for: bool, report: &mut Report) {
    if !is_asked_for {
        let words = format!("{key} was removed, and nobody asked for it");
        report.broken(key, words);
    }
}

#[cfg(test)]
mod tests;
