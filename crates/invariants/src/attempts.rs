//! LC-4: an attempt that failed is over: nothing tries it again behind the user's back.
//!
//! A user who was told of a failure may have acted on it. Only a new attempt, with a new id, tries
//! again; and what was reported as done is not taken back to pending.

use alloc::format;

use model::{Key, Publication, SnapshotStage};

use crate::{Committed, Promise, broken::Report};

pub(crate) const PROMISE: Promise =
    Promise::new("attempts", "an attempt that ended is not tried again").of_commits(check);

fn check(committed: Committed<'_>, report: &mut Report) {
    for change in committed.volumes() {
        let Some((before, after)) = change.volume.both() else { continue };
        let (was, is) = (&before.layout.publication, &after.layout.publication);
        if was.attempt() == is.attempt() && is_taken_back(was, is) {
            report.broken(change.key(), format!("its publication went from {was:?} to {is:?}"));
        }
    }
    for change in committed.snapshots() {
        let Some((before, after)) = change.both() else { continue };
        let (was, is) = (&before.layout.stage, &after.layout.stage);
        let same_attempt = before.spec.attempt == after.spec.attempt;
        let ended = !matches!(was, SnapshotStage::Taking);
        let revived = matches!(was, SnapshotStage::Failed { .. }) && *is == SnapshotStage::Ready;
        if same_attempt && ended && (*is == SnapshotStage::Taking || revived) {
            let words = format!("its stage went from {was:?} to {is:?}");
            report.broken(Key::Snapshot(change.id), words);
        }
    }
}

const fn is_taken_back(was: &Publication, is: &Publication) -> bool {
    matches!(
        (was, is),
        (Publication::Failed { .. }, Publication::Pending { .. } | Publication::Published { .. })
            | (Publication::Published { .. }, Publication::Pending { .. })
    )
}

#[cfg(test)]
mod tests;
