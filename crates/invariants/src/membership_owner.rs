//! ST-5, HA-9: while a target owns the membership record, nobody else says which copies are good.
//!
//! The owner decides from writes in flight that nobody else can see. A controller that wants a say
//! raises the epoch first, which shuts the owner out; and an engine writes only the record of the
//! epoch that was issued to its own process.

use alloc::{format, string::String};

use model::{InstanceId, Membership, ReplicaId, Target};

use crate::{Author, Committed, Promise, VolumeChange, broken::Report};

pub(crate) const PROMISE: Promise = Promise::new(
    "membership_owner",
    "only the process that an epoch was issued to changes the membership of that epoch",
)
.of_commits(check);

fn check(committed: Committed<'_>, report: &mut Report) {
    for change in committed.volumes() {
        let Some((before, after)) = change.membership.both() else { continue };
        if before.roster > after.roster {
            let words = format!("its roster went from {} to {}", before.roster, after.roster);
            report.broken(change.key(), words);
        }
        // Before the first target nobody knows a roster that could be taken for another one.
        let may_stay = change.is_blank() || before.is_unclaimed();
        if !may_stay && before.roster == after.roster && !same_health(before, after) {
            let words =
                format!("copies changed their health under the same roster {}", after.roster);
            report.broken(change.key(), words);
        }
        let words = match committed.commit.author {
            Author::Engine { instance } => wrong_as_engine(change, instance, before, after),
            _ => wrong_as_controller(change, before, after),
        };
        if let Some(words) = words {
            report.broken(change.key(), words);
        }
    }
}

fn wrong_as_engine(
    change: VolumeChange<'_>,
    instance: InstanceId,
    before: &Membership,
    after: &Membership,
) -> Option<String> {
    if before.epoch != after.epoch {
        return Some(format!("an engine moved its epoch from {} to {}", before.epoch, after.epoch));
    }
    if !issued(change)
        .is_some_and(|target| target.epoch == after.epoch && target.instance == instance)
    {
        return Some(format!("engine {instance} wrote it, and epoch {} is not its", after.epoch));
    }
    let owner = after.owner.filter(|owner| *owner != instance)?;
    Some(format!("engine {instance} wrote it in the name of {owner}"))
}

fn wrong_as_controller(
    change: VolumeChange<'_>,
    before: &Membership,
    after: &Membership,
) -> Option<String> {
    if change.is_promotion() {
        return None;
    }
    if !before.clean && after.clean {
        return Some("a controller called it clean; only its target can know".into());
    }
    let source_kept = before.resync_source.is_none_or(|source| {
        // A source that is gone for good leaves with its copy; `last_copy` judges what is left.
        after.resync_source == Some(source) || !after.children.contains_key(&source)
    });
    if !source_kept {
        return Some("a controller ended a resync; only its target can know".into());
    }
    let owned = issued(change).is_some_and(|target| {
        target.epoch == before.epoch && before.owner == Some(target.instance)
    });
    let untouched = before.children == after.children
        && before.roster == after.roster
        && before.clean == after.clean
        && before.owner == after.owner
        && before.resync_source == after.resync_source;
    (owned && !change.raises_epoch() && !untouched).then(|| {
        format!("a controller changed it while the target of epoch {} owns it", before.epoch)
    })
}

/// The target that the membership's epoch belonged to when it was written.
fn issued(change: VolumeChange<'_>) -> Option<&Target> {
    change.volume.before.and_then(|volume| volume.layout.target.as_ref())
}

fn same_health(before: &Membership, after: &Membership) -> bool {
    let healthy = |membership: &Membership, id: ReplicaId| membership.is_recorded_healthy(id);
    let mut ids = before.children.keys().chain(after.children.keys());
    ids.all(|id| healthy(before, *id) == healthy(after, *id))
}

#[cfg(test)]
mod tests;
