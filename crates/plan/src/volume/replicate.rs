//! Keeping the number of healthy copies: note who is gone, wait as long as the redundancy left
//! allows, then copy to a spare.

use alloc::vec::Vec;

use model::{
    Millis, Replica, ReplicaStage, Wait,
    limits::{
        REBUILD_WAIT_MORE_LEFT, REBUILD_WAIT_ONE_LEFT, REBUILD_WAIT_TWO_LEFT, REBUILDS_MAX,
        REBUILDS_PER_NODE_MAX, REBUILDS_PER_NODE_RESERVED_FOR_LAST_COPY,
        REBUILDS_RESERVED_FOR_LAST_COPY, REPLICAS_IN_LAYOUT_MAX,
    },
};

use super::{Look, look::Copy};
use crate::{
    Action, Why, mint,
    placement::{self, Ask},
    world::{Loss, Standing},
};

pub(super) fn rule(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    note(look).or_else(|| grant(look, waits)).or_else(|| spare(look, waits))
}

/// Brings the layout's notes up to date with what is observed.
fn note(look: &Look<'_>) -> Option<(Action, Why)> {
    for copy in &look.copies {
        let replica = copy.replica.id;
        let lost = copy.loss();
        if copy.replica.rebuilding {
            if let Some(loss) = lost {
                return Some((Action::EndRebuild { replica }, Why::Lost(loss)));
            }
            if copy.healthy && look.membership.resync_source.is_none() {
                return Some((Action::EndRebuild { replica }, Why::Observed));
            }
        }
        if copy.replica.gone_since.is_some() && copy.is_usable() {
            return Some((Action::MarkReturned { replica }, Why::Observed));
        }
        if let Some(loss) = lost.filter(|_| copy.replica.gone_since.is_none()) {
            let wait = if loss.may_return() { patience(look) } else { Millis::ZERO };
            let rebuild_after = look.world.now + wait;
            return Some((Action::MarkGone { replica, rebuild_after }, Why::Lost(loss)));
        }
    }
    None
}

/// How long a lost copy may stay away: the fewer copies are left, the shorter.
fn patience(look: &Look<'_>) -> Millis {
    look.volume.spec.policy.rebuild_wait.unwrap_or_else(|| match look.good().count() {
        0 | 1 => REBUILD_WAIT_ONE_LEFT,
        2 => REBUILD_WAIT_TWO_LEFT,
        _ => REBUILD_WAIT_MORE_LEFT,
    })
}

/// Lets the target copy to a replica that is there and not healthy, if there is a slot.
fn grant(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let good = look.good().filter(|copy| !copy.is_retiring() && !copy.draining).count();
    let busy = look.copies.iter().filter(|c| c.replica.rebuilding && !is_stalled(look, c)).count();
    for copy in &look.copies {
        let unhealthy = !look.membership.is_recorded_healthy(copy.replica.id);
        if copy.replica.rebuilding && unhealthy {
            waits.push(progress(look, copy));
        }
        let eligible = unhealthy
            && !copy.replica.rebuilding
            && copy.is_usable()
            && copy.replica.stage == ReplicaStage::Ready;
        // A copy beyond the wanted number is not worth rebuilding, unless it is to take the place
        // of one on a drained node.
        if !eligible || good + busy >= look.wanted() || look.good().next().is_none() {
            continue;
        }
        if has_slot(look, copy) {
            let wanted = look.wanted();
            let why = Why::Degraded { healthy: good, wanted };
            return Some((Action::GrantRebuild { replica: copy.replica.id }, why));
        }
        waits.push(Wait::RebuildSlot { copies_left: good });
    }
    None
}

fn progress(look: &Look<'_>, copy: &Copy<'_>) -> Wait {
    let percent = child_seen(look, copy).and_then(|child| child.copied);
    Wait::CopyRuns { replica: copy.replica.id, percent }
}

fn has_slot(look: &Look<'_>, copy: &Copy<'_>) -> bool {
    let index = &look.world.index;
    let kept = |reserve: usize| if look.good().count() <= 1 { 0 } else { reserve };
    index.rebuilds_taken() < REBUILDS_MAX - kept(REBUILDS_RESERVED_FOR_LAST_COPY)
        && index.rebuilds_taken_into(copy.replica.node)
            < REBUILDS_PER_NODE_MAX - kept(REBUILDS_PER_NODE_RESERVED_FOR_LAST_COPY)
}

/// A copy that is being rebuilt into a pool without space for it: it is built elsewhere as well,
/// and whichever is whole first stays.
fn is_stalled(look: &Look<'_>, copy: &Copy<'_>) -> bool {
    !copy.healthy && child_seen(look, copy).is_some_and(|child| child.is_full)
}

fn child_seen(look: &Look<'_>, copy: &Copy<'_>) -> Option<model::ChildSeen> {
    let target = look.target()?;
    let seen = look.world.target_seen(look.volume, target).present()?;
    seen.children.get(&copy.replica.id).copied()
}

/// Whether a copy counts towards the number wanted: it is there, may be, or may come back in time.
fn counts(look: &Look<'_>, copy: &Copy<'_>) -> bool {
    if copy.is_retiring() || copy.draining {
        return false;
    }
    match copy.standing {
        Standing::Usable(_) => !is_stalled(look, copy),
        Standing::Unknown | Standing::Unmade => true,
        Standing::Lost(_) => copy.replica.rebuild_after.is_none_or(|after| look.world.now < after),
    }
}

/// A copy that is replaced because its node is drained or dead does not hold its zone: the next one
/// may be the only other node there.
fn leaves_its_place(look: &Look<'_>, copy: &Copy<'_>) -> bool {
    let is_dead = matches!(copy.loss(), Some(Loss::NodeDead | Loss::Forgotten));
    copy.draining || (is_dead && !copy.is_retiring() && !counts(look, copy))
}

fn spare(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    for copy in &look.copies {
        if let (Some(_), Some(until)) = (copy.loss(), copy.replica.rebuild_after)
            && look.world.now < until
        {
            waits.push(Wait::ReplicaReturns { replica: copy.replica.id, until });
        }
    }
    let counted = look.copies.iter().filter(|copy| counts(look, copy)).count();
    let healthy = look.good().count();
    if counted >= look.wanted() || healthy == 0 {
        return None;
    }
    if look.copies.len() >= REPLICAS_IN_LAYOUT_MAX {
        return None;
    }
    let mut ask = Ask::new(look.world, look.volume);
    let leaves = |place: &(_, _)| {
        look.copies.iter().any(|copy| copy.replica.pool == place.0 && leaves_its_place(look, copy))
    };
    ask.beside.retain(|place| !leaves(place));
    match placement::place(look.world, &ask, 1) {
        Ok(places) => {
            let (pool, node) = *places.first()?;
            let id = mint::replica_id(look.world, look.volume, 0);
            let replica = Replica::placed(id, pool, node);
            let why = Why::Degraded { healthy, wanted: look.wanted() };
            Some((Action::PlaceReplica { replica }, why))
        }
        Err(wait) => {
            waits.push(wait);
            None
        }
    }
}
