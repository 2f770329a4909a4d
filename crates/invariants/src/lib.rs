//! The promises, one per file: what must hold whatever happens.
//!
//! ```text
//! let commit = records.apply(revision, author, &writes);  // the store committed this
//! check_commit(&records, &commit)                         // only what it touched
//! check_commit_seen(&records, &commit, &seen)             // the same, beside the true machines
//! check_seen(&records, &seen)                             // after any other event
//! check_all(&records)                                     // everything, at the end and by doctor
//! ```
//! The checker does not trust what it checks: it keeps its own records from the writes alone, and
//! shares no index, view or rule with the planner. It never repairs; it only tells.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod author;
mod broken;
mod change;
mod commit;
mod promise;
mod records;
mod seen;

mod copies_kept;
mod last_copy;
mod membership_owner;

mod fence_before_start;
mod no_false_alarm;
mod one_epoch;
mod serving_first;
mod switchover_order;

mod ids;
mod one_per_node;
mod space;
mod spread;

mod asked_for;
mod attempts;
mod create_once;
mod exclusive_host;
mod hands;
mod leader_guard;
mod names;
mod references;
mod snapshots;
mod tombstones;

#[cfg(test)]
mod scene;

use alloc::{collections::BTreeSet, vec::Vec};

use model::Key;

pub use author::Author;
pub use broken::Broken;
pub use change::{Change, Committed, VolumeChange};
pub use commit::Commit;
pub use promise::{PROMISES, Promise};
pub use records::{Birth, Leader, Records};
pub use seen::Seen;

use broken::Report;

/// What a commit broke, in the transition itself and in the records it touched. `records` are those
/// that `commit` led to.
///
/// A recovery writes everything anew from what pools carry, in as many transactions as it takes:
/// its commits are not judged one by one. Run [`check_all`] when it is done.
pub fn check_commit(records: &Records, commit: &Commit) -> Vec<Broken> {
    let mut report = Report::default();
    let committed = Committed { records, commit };
    if committed.is_recovery() {
        return report.done();
    }
    let keys = committed.keys_in_question();
    for promise in PROMISES {
        report.judging(promise);
        promise.judge_commit(committed, &mut report);
        for key in &keys {
            promise.judge_record(records, key, &mut report);
        }
    }
    report.done()
}

/// What a commit broke, judged beside what is really on the machines at that moment.
pub fn check_commit_seen(records: &Records, commit: &Commit, seen: &Seen<'_>) -> Vec<Broken> {
    let mut report = Report::default();
    let committed = Committed { records, commit };
    if committed.is_recovery() {
        return report.done();
    }
    for promise in PROMISES {
        report.judging(promise);
        promise.judge_commit_seen(committed, seen, &mut report);
    }
    report.done()
}

/// Everything that can be judged of the records alone.
pub fn check_all(records: &Records) -> Vec<Broken> {
    let mut report = Report::default();
    let keys: BTreeSet<Key> = records.keys().collect();
    for promise in PROMISES {
        report.judging(promise);
        for key in &keys {
            promise.judge_record(records, key, &mut report);
        }
    }
    report.done()
}

/// What the records and the true machines together break.
pub fn check_seen(records: &Records, seen: &Seen<'_>) -> Vec<Broken> {
    let mut report = Report::default();
    for promise in PROMISES {
        report.judging(promise);
        promise.judge_seen(records, seen, &mut report);
    }
    report.done()
}

#[cfg(test)]
mod tests;
