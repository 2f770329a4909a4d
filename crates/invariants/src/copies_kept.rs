//! RC-4, OP-1, OP-2: no commit leaves a volume with fewer good copies than it had.
//!
//! ```text
//! recorded healthy, in the layout ─▶ recorded unhealthy   the owner alone, with a new roster
//!                                 ─▶ retiring             enough others are healthy and stay
//!                                 ─▶ out of the layout    the same, and no target runs
//! ```
//! The controller cannot see what a copy holds, so it takes none away that the record calls good,
//! unless as many as were asked for remain. Hardware that a person wrote off leaves with one
//! remaining: it will never be good again. Copies of a volume that nobody wrote to are all equal,
//! and may be swapped. A volume that is deleted as a whole is the business of `tombstones`.

use alloc::{format, string::String};

use model::{Membership, Replica, ReplicaStage, Volume};

use crate::{Author, Committed, Promise, VolumeChange, broken::Report, change::healthy_copies};

pub(crate) const PROMISE: Promise =
    Promise::new("copies_kept", "no commit leaves a volume with fewer good copies than it had")
        .of_commits(check);

fn check(committed: Committed<'_>, report: &mut Report) {
    for change in committed.volumes().filter(|change| !change.is_promotion()) {
        let (Some(volumes), Some(memberships)) = (change.volume.both(), change.membership.both())
        else {
            continue;
        };
        let (before, after) = volumes;
        let was_good = |replica: &&Replica| memberships.0.is_recorded_healthy(replica.id);
        for replica in before.layout.replicas.iter().filter(was_good) {
            let words = match after.replica(replica.id) {
                None => dropped(committed, change, replica, after, memberships),
                Some(_) if !memberships.1.is_recorded_healthy(replica.id) => {
                    excluded(committed, replica, memberships)
                }
                Some(now) => retired(committed, change, (replica, now), after, memberships.1),
            };
            if let Some(words) = words {
                report.broken(change.key(), words);
            }
        }
    }
}

/// A copy that was recorded healthy left the layout.
fn dropped(
    committed: Committed<'_>,
    change: VolumeChange<'_>,
    replica: &Replica,
    after: &Volume,
    (was, is): (&Membership, &Membership),
) -> Option<String> {
    let left = healthy_copies(after, is).count();
    let wanted = usize::from(after.spec.replicas);
    let is_fine = if committed.is_written_off(replica.pool, replica.node) {
        left >= 1
    } else if change.is_blank() {
        // A copy of a snapshot starts only where the snapshot is, so it may find no other place;
        // elsewhere another blank copy takes its place in the same commit.
        let had = change.volume.before.map_or(0, |volume| healthy_copies(volume, was).count());
        left >= 1 && (after.spec.origin.is_some() || left >= had.min(wanted))
    } else {
        // After an unclean stop nobody knows yet which of the copies is intact: it may be this one.
        was.clean && left >= wanted
    };
    (!is_fine).then(|| {
        format!(
            "replica {} is recorded healthy and was dropped; {left} healthy copies of {wanted} \
             are left, the record was {}",
            replica.id,
            if was.clean { "clean" } else { "not clean" }
        )
    })
}

/// A copy in the layout is no longer recorded healthy.
fn excluded(
    committed: Committed<'_>,
    replica: &Replica,
    (was, is): (&Membership, &Membership),
) -> Option<String> {
    let by_engine = matches!(committed.commit.author, Author::Engine { .. });
    (!by_engine || is.roster <= was.roster).then(|| {
        format!(
            "replica {} was recorded unhealthy by {:?}, roster {} after {}",
            replica.id, committed.commit.author, is.roster, was.roster
        )
    })
}

/// A copy that is still recorded healthy is on its way out: the target will exclude it.
fn retired(
    committed: Committed<'_>,
    change: VolumeChange<'_>,
    (was, now): (&Replica, &Replica),
    after: &Volume,
    membership: &Membership,
) -> Option<String> {
    let retires = was.stage != ReplicaStage::Retiring && now.stage == ReplicaStage::Retiring;
    if !retires || change.is_blank() {
        return None;
    }
    let stays = |replica: &&Replica| replica.stage != ReplicaStage::Retiring;
    let left = healthy_copies(after, membership).filter(stays).count();
    let wanted = if committed.is_written_off(now.pool, now.node) {
        1
    } else {
        usize::from(after.spec.replicas)
    };
    (left < wanted).then(|| {
        format!(
            "replica {} is recorded healthy and was retired; {left} healthy copies stay, {wanted} \
             are needed",
            now.id
        )
    })
}

#[cfg(test)]
mod tests;
