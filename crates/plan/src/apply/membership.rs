//! The controller's own changes of a membership record: only together with the layout, and only to
//! raise the epoch, or while no target owns it.

use model::{Epoch, Membership, ReplicaId, Volume};

/// Whoever held a lower epoch may not change the record any more.
pub(super) fn raise(old: &Membership, volume: &Volume, epoch: Epoch) -> Membership {
    let mut new = old.clone();
    new.epoch = epoch;
    new.owner = None;
    // Members that the layout has dropped since are unhealthy by now: a healthy one is never
    // dropped without taking it out of here.
    new.children.retain(|replica, healthy| *healthy || volume.replica(*replica).is_some());
    new.flushed.retain(|replica, _| new.children.contains_key(replica));
    new
}

pub(super) fn without(old: &Membership, replica: ReplicaId) -> Membership {
    let mut new = old.clone();
    // Raised before the first target told it to any replica, it would make all of them look like
    // blank ones in the place of others, and that target would wait for every single one.
    if new.children.remove(&replica).is_some() && !new.is_unclaimed() {
        new.roster = new.roster.next();
    }
    new.flushed.remove(&replica);
    new
}

/// One copy is declared the truth: the others are rebuilt from it, whatever they hold.
pub(super) fn promoted(old: &Membership, replica: ReplicaId, epoch: Epoch) -> Membership {
    let mut new = old.clone();
    new.epoch = epoch;
    new.owner = None;
    new.roster = new.roster.next();
    new.clean = false;
    new.unflushed_lost = true;
    new.resync_source = Some(replica);
    for (child, healthy) in &mut new.children {
        *healthy = *child == replica;
    }
    new.children.insert(replica, true);
    // A person accepts it as it is, also one that was set back.
    new.flushed.clear();
    new
}
