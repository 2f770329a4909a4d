//! From promised replicas to made ones.

use alloc::vec::Vec;

use model::{Replica, ReplicaStage, VolumeStage, Wait};

use super::{Look, look::Copy};
use crate::{
    Action, Why, mint,
    placement::{self, Ask},
    world::{Loss, Standing},
};

pub(super) fn rule(look: &Look<'_>, waits: &mut Vec<Wait>) -> Option<(Action, Why)> {
    let creating = |stage| stage == ReplicaStage::Creating;
    let made: Vec<_> = look
        .copies
        .iter()
        .filter(|copy| creating(copy.replica.stage) && copy.is_usable())
        .map(|copy| copy.replica.id)
        .collect();
    if !made.is_empty() {
        return Some((Action::ConfirmReplicas { replicas: made }, Why::Observed));
    }
    for copy in look.copies.iter().filter(|copy| creating(copy.replica.stage)) {
        match copy.standing {
            Standing::Lost(loss) if look.is_blank() && copy.healthy => {
                if let Some(step) = replace_blank(look, copy.replica, loss, waits) {
                    return Some(step);
                }
            }
            Standing::Unmade | Standing::Unknown => {
                let (replica, node) = (copy.replica.id, copy.replica.node);
                waits.push(Wait::ReplicaMade { replica, node });
            }
            Standing::Lost(_) | Standing::Usable(_) => {}
        }
    }
    // Those that were placed later are rebuilt, and do not count: until the creation is over they
    // would be made from the snapshot of a clone, which their pools may not have.
    let is_first = |copy: &&Copy<'_>| look.membership.is_recorded_healthy(copy.replica.id);
    let all_made = look.copies.iter().filter(is_first).all(|copy| !creating(copy.replica.stage));
    (look.volume.layout.stage == VolumeStage::Creating && all_made)
        .then_some((Action::FinishCreation, Why::Observed))
}

/// A copy that was never made is replaced by another blank one; no data is at stake.
fn replace_blank(
    look: &Look<'_>,
    old: &Replica,
    loss: Loss,
    waits: &mut Vec<Wait>,
) -> Option<(Action, Why)> {
    let mut ask = Ask::new(look.world, look.volume);
    if let Some(origin) = look.volume.spec.origin {
        // A copy of a snapshot starts only beside the snapshot. With another one made, this one is
        // given up, and rebuilt from that one like any lost copy.
        if look.copies.iter().any(|copy| copy.is_good() && copy.replica.id != old.id) {
            let give_up = Action::ReplaceBlank { old: old.id, new: None };
            return Some((give_up, Why::Lost(loss)));
        }
        ask.within = Some(look.world.pools_holding(origin));
    }
    match placement::place(look.world, &ask, 1) {
        Ok(places) => {
            let (pool, node) = *places.first()?;
            let id = mint::replica_id(look.world, look.volume, 0);
            let new = Some(Replica::placed(id, pool, node));
            Some((Action::ReplaceBlank { old: old.id, new }, Why::Lost(loss)))
        }
        Err(wait) => {
            waits.push(wait);
            None
        }
    }
}
