//! Who counts for what.

use model::ReplicaId;

use super::{Target, child::Stand};
use crate::{
    Flaw,
    slots::{Slot, Slots},
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Groups {
    /// Acknowledgements and flushes wait for these: recorded healthy, about to be, or excluded
    /// without every survivor knowing.
    pub(super) acks: Slots,
    /// Writes go to these.
    pub(super) receivers: Slots,
    /// These count as healthy: for reads, as sources, as the last one.
    pub(super) counting: Slots,
}

impl<D: Clone> Target<D> {
    /// To be called whenever the record or a child's stand changed.
    pub(super) fn regroup(&mut self) {
        let mut groups = Groups { acks: self.leaving, ..Groups::default() };
        for (slot, child) in self.children.iter() {
            match child.stand {
                Stand::Healthy => {
                    groups.acks.insert(slot);
                    groups.receivers.insert(slot);
                    // Flaw::SyncingIsRead: while a source is set only it counts.
                    let source = self.record.resync_source.filter(|source| *source != child.id);
                    if source.is_none() || self.flawed.leaves_out(Flaw::SyncingIsRead) {
                        groups.counting.insert(slot);
                    }
                }
                Stand::Joining => {
                    if !self.flawed.leaves_out(Flaw::JoinUnacknowledged) {
                        groups.acks.insert(slot);
                    }
                    groups.receivers.insert(slot);
                }
                Stand::Rebuilding => groups.receivers.insert(slot),
                Stand::Absent | Stand::Greeting | Stand::Imaging => {}
            }
        }
        self.groups = groups;
        self.is_snapshot_due = true;
        if self.flawed.leaves_out(Flaw::AckBeforeExclusion) {
            self.groups.acks = self.groups.acks.without(self.lost.or(self.leaving));
        }
    }

    /// The replicas whose answers an acknowledgement waits for.
    pub fn acknowledging(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let slots = self.groups.acks.iter();
        slots.filter_map(|slot| self.children.get(slot)).map(|child| child.id)
    }

    /// Nothing is acknowledged until a replica that was lost is excluded.
    pub const fn is_held_up(&self) -> bool {
        !self.lost.or(self.leaving).is_empty()
    }

    /// Whether another one that counts is there to go on without it, or nobody counts on it.
    pub(super) fn may_lose(&self, slot: Slot) -> bool {
        if !self.groups.counting.contains(slot) && !self.is_admission_sent(slot) {
            return true;
        }
        let mut others = self.groups.counting.without(self.lost);
        let is_source = others == Slots::of(slot) && self.record.resync_source.is_some();
        others.remove(slot);
        !is_source && others.iter().any(|other| self.is_open(other))
    }

    pub(super) fn is_open(&self, slot: Slot) -> bool {
        self.children.get(slot).is_some_and(super::child::Child::is_open)
    }

    /// No write may be begun: the store may know of an exclusion that a survivor does not.
    pub(super) fn is_gated(&self) -> bool {
        let is_excluding = self.change.as_ref().is_some_and(super::change::Change::is_exclusion);
        let is_gated = is_excluding || !self.leaving.is_empty();
        is_gated && !self.flawed.leaves_out(Flaw::WritesDuringRoster)
    }
}
