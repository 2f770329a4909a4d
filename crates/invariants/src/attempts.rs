//! LC-4: an attempt that failed is over: nothing tries it again behind the user's back.
//!
//! A user who was told of a failure may have acted on it. Only a new attempt, with a new id, tries
//! again; and what was reported as done is not taken back to pending. Nor is it reported before a
//! host was let in to a target that serves.

use alloc::format;

use model::{HostStage, Key, Publication, SnapshotStage, Target, TargetStage, Volume};

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
        let done = |publication: &Publication| matches!(publication, Publication::Published { .. });
        if done(is) && was != is && !is_reachable(after) {
            report.broken(change.key(), "it was called published, and no host can reach it");
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

/// As far as the record goes: a target serves, and somebody is admitted.
fn is_reachable(volume: &Volume) -> bool {
    if volume.spec.publish.as_ref().is_none_or(|publish| publish.hosts.is_empty()) {
        return true;
    }
    let layout = &volume.layout;
    let serving = |target: &Target| target.stage == TargetStage::Serving;
    layout.target.as_ref().is_some_and(serving)
        && layout.hosts.values().any(|stage| *stage == HostStage::Admitted)
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
