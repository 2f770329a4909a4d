//! The rules of a snapshot.

use alloc::{collections::BTreeSet, string::String, vec::Vec};

use model::{ReplicaId, Snapshot, SnapshotStage, Subject, TargetStage, Wait};

use crate::{Action, Step, Why, World, plan::Rule, volume::Look};

pub(crate) const RULES: &[Rule] = &[delete, take, keep_count];

fn get(world: &World, subject: Subject) -> Option<&Snapshot> {
    let Subject::Snapshot(id) = subject else { return None };
    world.snapshots.get(&id)
}

fn delete(world: &World, subject: Subject, _: &mut Vec<Wait>) -> Option<Step> {
    let snapshot = get(world, subject)?;
    // A volume whose record does not decode is not a deleted one: then nothing is planned at all.
    let volume = world.volume(snapshot.spec.volume);
    let orphaned = volume.is_none_or(|view| view.record.spec.deleting);
    (snapshot.spec.deleting || orphaned).then_some(Step {
        subject,
        action: Action::DeleteSnapshot,
        why: Why::Asked,
    })
}

fn take(world: &World, subject: Subject, waits: &mut Vec<Wait>) -> Option<Step> {
    let snapshot = get(world, subject)?;
    if snapshot.layout.stage != SnapshotStage::Taking {
        return None;
    }
    let failed =
        |reason: String, why| Some(Step { subject, action: Action::FailSnapshot { reason }, why });
    let look = look(world, snapshot)?;
    if world.now >= snapshot.spec.deadline {
        return failed("it was not taken by its deadline".into(), Why::Deadline);
    }
    let target = look.target().filter(|target| target.stage == TargetStage::Serving);
    let seen = target.and_then(|target| world.target_seen(look.volume, target).present());
    if seen.is_some_and(|seen| seen.failed_snapshots.contains(&snapshot.spec.attempt)) {
        return failed("a replica could not take it".into(), Why::Observed);
    }
    // Only its target knows that it is not taken back any more. What replicas were seen to hold may
    // be older than the membership record, and of an attempt that failed since.
    let taken = seen.and_then(|seen| seen.taken_snapshots.get(&snapshot.spec.attempt));
    let on_all = look.membership.resync_source.is_none()
        && look.copies.iter().filter(|copy| copy.healthy).all(|copy| holds(copy.seen(), snapshot));
    let held = holders(&look, snapshot);
    let copies: BTreeSet<_> = taken.into_iter().flatten().copied().collect();
    let copies: BTreeSet<_> = copies.intersection(&held).copied().collect();
    if on_all && !copies.is_empty() {
        let action = Action::FinishSnapshot { copies, size: look.volume.layout.exposed };
        return Some(Step { subject, action, why: Why::Observed });
    }
    let until = snapshot.spec.deadline;
    waits.push(Wait::SnapshotTaken { snapshot: snapshot.meta.id, until });
    None
}

/// Rebuilt replicas bring the snapshots along; dropped ones take theirs away.
fn keep_count(world: &World, subject: Subject, _: &mut Vec<Wait>) -> Option<Step> {
    let snapshot = get(world, subject)?;
    if snapshot.layout.stage != SnapshotStage::Ready {
        return None;
    }
    let look = look(world, snapshot)?;
    let known = &snapshot.layout.copies;
    let kept = known.iter().copied().filter(|replica| look.copy(*replica).is_some());
    let copies: BTreeSet<ReplicaId> = kept.chain(holders(&look, snapshot)).collect();
    // What is gone for good holds nothing any more.
    let gone = |id: &ReplicaId| {
        let copy = look.copy(*id);
        copy.is_some_and(|copy| copy.loss().is_some_and(|loss| !loss.may_return()))
    };
    if copies.iter().all(gone) {
        let reason = "its last copy is gone".into();
        let action = Action::FailSnapshot { reason };
        return Some(Step { subject, action, why: Why::Observed });
    }
    if copies == *known {
        return None;
    }
    Some(Step { subject, action: Action::UpdateCopies { copies }, why: Why::Observed })
}

fn look<'a>(world: &'a World, snapshot: &Snapshot) -> Option<Look<'a>> {
    let view = world.volume(snapshot.spec.volume)?;
    Some(Look::new(world, &view.record, view.membership.as_ref()?))
}

/// Healthy replicas that are seen to hold it.
fn holders(look: &Look<'_>, snapshot: &Snapshot) -> BTreeSet<ReplicaId> {
    let held = look.good().filter(|copy| holds(copy.seen(), snapshot));
    held.map(|copy| copy.replica.id).collect()
}

fn holds(seen: Option<&model::ReplicaSeen>, snapshot: &Snapshot) -> bool {
    seen.and_then(|seen| seen.snapshots.get(&snapshot.meta.id))
        .is_some_and(|held| held.attempt == snapshot.spec.attempt)
}
