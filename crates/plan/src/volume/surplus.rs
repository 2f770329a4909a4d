//! Copies that are no longer wanted: more than asked for, on a drained node, or lost for good.
//!
//! A copy recorded healthy is first taken out of the membership, by the target that owns the
//! record, and dropped after that. The last good copy of the volume, or of a snapshot, never goes.

use alloc::vec::Vec;

use model::{SnapshotId, SnapshotStage, Wait};

use super::{Look, look::Copy};
use crate::{Action, Why, world::Loss};

pub(super) fn rule(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let kept: Vec<&Copy<'_>> = kept(look);
    if let Some(step) = keep_after_all(look, &kept) {
        return Some(step);
    }
    let enough = kept.len() >= look.wanted();
    for copy in victims(look, &kept) {
        let lost_for_good = copy.loss().is_some_and(|loss| !loss.may_return());
        let others = staying(look).any(|other| other.replica.id != copy.replica.id);
        if !(enough || lost_for_good && others) {
            continue;
        }
        if let Some(step) = remove(look, copy, &kept, waits) {
            return Some(step);
        }
    }
    None
}

/// The good copies that are not on their way out. One that retires is no reason to let another go:
/// the target takes it out of the record as soon as it is told.
fn staying<'a, 'b>(look: &'b Look<'a>) -> impl Iterator<Item = &'b Copy<'a>> {
    look.good().filter(|copy| !copy.is_retiring())
}

/// The copies to keep: the good ones, as many as wanted. What only one of them holds of a snapshot
/// comes first, then the target's own, then those in the roomiest pools.
fn kept<'a, 'b>(look: &'b Look<'a>) -> Vec<&'b Copy<'a>> {
    let mut good: Vec<&Copy<'_>> = staying(look).filter(|copy| !copy.draining).collect();
    if good.len() > look.wanted() {
        let target = look.target().map(|target| target.node);
        good.sort_by_key(|copy| {
            let replaceable = last_snapshot(look, copy).is_none();
            let remote = Some(copy.replica.node) != target;
            let room = core::cmp::Reverse(look.world.room(copy.replica.pool));
            (replaceable, remote, room, copy.replica.id)
        });
        good.truncate(look.wanted());
    }
    good
}

/// A fault since the decision to retire may have made the copy needed again. Where no other stays,
/// one on a drained node is needed too: the drain goes on once its replacement is there.
fn keep_after_all(look: &Look<'_>, kept: &[&Copy<'_>]) -> Option<(Action, Why)> {
    if kept.len() >= look.wanted() {
        return None;
    }
    let is_last = staying(look).next().is_none();
    let mut retired = look.copies.iter().filter(|copy| {
        copy.is_retiring() && copy.healthy && copy.loss().is_none() && (is_last || !copy.draining)
    });
    let retired = retired.clone().find(|copy| !copy.draining).or_else(|| retired.next())?;
    let why = Why::Degraded { healthy: kept.len(), wanted: look.wanted() };
    Some((Action::KeepReplica { replica: retired.replica.id }, why))
}

/// Everything else that is not on its way in, the least useful first.
fn victims<'a, 'b>(look: &'b Look<'a>, kept: &[&Copy<'_>]) -> Vec<&'b Copy<'a>> {
    let staying = |copy: &Copy<'_>| kept.iter().any(|other| other.replica.id == copy.replica.id);
    let mut victims: Vec<&Copy<'_>> = look
        .copies
        .iter()
        .filter(|copy| !staying(copy))
        .filter(|copy| copy.is_usable() || copy.loss().is_some())
        .collect();
    victims.sort_by_key(|copy| (copy.healthy, copy.is_usable(), copy.replica.id));
    victims
}

fn remove(
    look: &Look<'_>,
    copy: &Copy<'_>,
    kept: &[&Copy<'_>],
    waits: &mut Vec<Wait>,
) -> Option<(Action, Why)> {
    let replica = copy.replica.id;
    let why = match copy.loss() {
        Some(loss) if !loss.may_return() => Why::Lost(loss),
        _ if copy.draining => Why::Draining { node: copy.replica.node },
        _ => Why::Surplus { wanted: look.wanted() },
    };
    if let Some(snapshot) = last_snapshot(look, copy) {
        waits.push(Wait::SnapshotKept { replica, snapshot });
        return None;
    }
    let recorded = look.membership.is_recorded_healthy(replica);
    let enough = kept.len() >= look.wanted();
    if recorded && !enough && copy.loss() != Some(Loss::Forgotten) {
        // Only the target may say that it is not good any more; see `target::is_needed`.
        waits.push(Wait::OthersHealthy { replica });
        return None;
    }
    if !look.is_unowned() || recorded && !look.membership.clean {
        // The target must know, or it could make it healthy again behind our back.
        if !copy.is_retiring() {
            return Some((Action::RetireReplica { replica }, why));
        }
        if recorded || !is_let_go(look, replica) {
            waits.push(Wait::OthersHealthy { replica });
            return None;
        }
    }
    if !others_settled(look, copy, kept) {
        waits.push(Wait::OthersHealthy { replica });
        return None;
    }
    Some((Action::DropReplica { replica }, why))
}

/// The target knows that the copy retires, and nothing under way can make it healthy again.
fn is_let_go(look: &Look<'_>, replica: model::ReplicaId) -> bool {
    let Some(target) = look.target() else { return false };
    let told = look.world.generation(target.node) >= look.volume.meta.revision;
    let seen = look.world.target_seen(look.volume, target).present();
    told && seen.is_some_and(|seen| !seen.children.contains_key(&replica))
}

/// The copies that stay are healthy at the current roster, as their own engines say.
fn others_settled(look: &Look<'_>, victim: &Copy<'_>, kept: &[&Copy<'_>]) -> bool {
    let owned = look.membership.owner.is_some();
    let settled = |copy: &&&Copy<'_>| {
        copy.seen().is_some_and(|seen| !owned || seen.roster == look.membership.roster)
    };
    let others = kept.iter().filter(|copy| copy.replica.id != victim.replica.id);
    let count = others.clone().filter(settled).count();
    count >= 1 && count == others.count()
}

/// A snapshot whose last copy is gone for good is failed by its own rule first.
fn last_snapshot(look: &Look<'_>, victim: &Copy<'_>) -> Option<SnapshotId> {
    let snapshots = look.world.index.snapshots_of.get(&look.volume.meta.id);
    let mut snapshots =
        snapshots.into_iter().flatten().filter_map(|id| look.world.snapshots.get(id));
    let kept = snapshots.find(|snapshot| {
        let copies = &snapshot.layout.copies;
        let other = |id| id != victim.replica.id && copies.contains(&id);
        let elsewhere = look.good().any(|copy| other(copy.replica.id));
        let ready = snapshot.layout.stage == SnapshotStage::Ready && !snapshot.spec.deleting;
        ready && copies.contains(&victim.replica.id) && !elsewhere
    })?;
    Some(kept.meta.id)
}
