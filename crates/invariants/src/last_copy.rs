//! RC-4, ST-5, OP-1: there is always a copy to serve from, and only who saw its data calls it good.
//!
//! A copy becomes good in three ways: it is born blank with its volume, the target that copied to
//! it says so, or a person accepts what is lost. A fourth one would be a guess.

use alloc::format;

use model::{Key, Membership, ReplicaId};

use crate::{
    Author, Committed, Promise, Records, VolumeChange,
    broken::Report,
    change::{healthy_copies, is_blank},
};

pub(crate) const PROMISE: Promise = Promise::new(
    "last_copy",
    "every volume has a healthy copy in its layout, and none becomes healthy by a guess",
)
.of_records(check_record)
.of_commits(check_commit);

fn check_record(records: &Records, key: &Key, report: &mut Report) {
    let Key::Volume(id) = key else { return };
    let Some((volume, membership)) = records.volume(*id) else { return };
    if healthy_copies(volume, membership).next().is_none() {
        report.broken(key.clone(), "no copy in the layout counts as healthy");
    }
    if let Some(source) = membership.resync_source
        && !(membership.is_healthy(source) && volume.replica(source).is_some())
    {
        let words = format!("the source of its resync, {source}, is no healthy copy of the layout");
        report.broken(key.clone(), words);
    }
}

fn check_commit(committed: Committed<'_>, report: &mut Report) {
    for change in committed.volumes() {
        let Some(after) = change.membership.after else { continue };
        if change.is_promotion() {
            if !committed.tells_of_loss() {
                report.broken(change.key(), "a copy was promoted and no event tells of the loss");
            }
            continue;
        }
        promotions_were_asked_for(change, report);
        let before = change.membership.before;
        let was_healthy = |id: ReplicaId| before.is_some_and(|m| m.is_recorded_healthy(id));
        let became = |id: &ReplicaId| after.is_recorded_healthy(*id) && !was_healthy(*id);
        for replica in after.children.keys().copied().filter(became) {
            if !may_become_healthy(committed, before, after) {
                let author = committed.commit.author;
                let words = format!("replica {replica} was recorded healthy by {author:?}");
                report.broken(change.key(), words);
            }
        }
    }
}

fn may_become_healthy(
    committed: Committed<'_>,
    before: Option<&Membership>,
    after: &Membership,
) -> bool {
    let Some(before) = before else { return is_blank(after) };
    let born_blank = is_blank(before) && is_blank(after);
    let said_by_owner = matches!(committed.commit.author, Author::Engine { instance }
        if after.owner == Some(instance)
            && before.epoch == after.epoch
            && before.roster <= after.roster);
    born_blank || said_by_owner
}

/// Nothing ever promotes a copy by itself.
fn promotions_were_asked_for(change: VolumeChange<'_>, report: &mut Report) {
    let Some((before, after)) = change.volume.both() else { return };
    let is_new = |attempt: &&_| !before.layout.promotions.contains(attempt);
    if let Some(attempt) = after.layout.promotions.iter().find(is_new) {
        let words = format!("promotion {attempt} is recorded, and nobody asked for it");
        report.broken(change.key(), words);
    }
}

#[cfg(test)]
mod tests;
