//! Losing a child that was recorded healthy: the store first, then the survivors, then the host.

use alloc::vec::Vec;

use super::{
    Target, Turn,
    change::{Asked, Cause, Change},
    child::{Stand, Wish},
    seen::{Notice, Why},
};
use crate::slots::{Slot, Slots};

impl<D: Clone> Target<D> {
    /// A child that counted was just lost.
    pub(super) fn lost_now(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if let Some(Change::Rosters { .. }) = &self.change {
            // What it was to be told is told anew, without it.
            self.change = None;
        }
        self.regroup();
        let ids = self.ops.numbers();
        for id in ids {
            self.settle_write(turn, id);
        }
        self.ask_others(turn, slot);
        self.fetch_elsewhere(turn, slot);
    }

    /// Those whom the config wants out are lost on purpose, one after the other.
    pub(super) fn retire_children(&mut self, turn: &mut Turn<'_, D>) {
        let retired: Vec<_> =
            self.slots_where(|child| child.wish == Wish::Retire && child.stand == Stand::Healthy);
        for slot in retired {
            if self.may_lose(slot) {
                self.lose(turn, slot, Why::Retired);
            }
        }
    }

    /// Every replica of the record is a child.
    pub(super) fn is_every_member_known(&self) -> bool {
        let mut members = self.record.children.keys();
        let healthy = self.children.values().filter(|child| child.stand == Stand::Healthy);
        // Those are members, each another one: one is searched for only if there are more.
        if healthy.count() == members.len() {
            debug_assert!(members.all(|id| self.slot_of(*id).is_some()), "the healthy are members");
            return true;
        }
        members.all(|id| self.slot_of(*id).is_some())
    }

    pub(super) fn needed_exclusion(&self) -> Option<Asked> {
        if self.lost.is_empty() && self.is_every_member_known() {
            return None;
        }
        let mut wanted = self.record_to_change();
        let mut out = Slots::NONE;
        for slot in self.lost.iter() {
            let Some(child) = self.children.get(slot) else { continue };
            out.insert(slot);
            wanted.children.insert(child.id, false);
        }
        let is_named = |id| self.item.children.iter().any(|item| item.replica == id);
        let has_one = |children: &alloc::collections::BTreeMap<_, bool>| {
            children.iter().any(|(id, healthy)| *healthy && is_named(*id))
        };
        if has_one(&wanted.children) {
            wanted.children.retain(|id, _| is_named(*id) || self.slot_of(*id).is_some());
        }
        if wanted.children == self.record.children && out.is_empty() {
            return None;
        }
        let healthy = wanted.children.values().filter(|healthy| **healthy).count();
        if healthy == 1 {
            // With one left there is nobody to differ from it.
            wanted.resync_source = None;
        }
        wanted.roster = wanted.roster.next();
        Some(Asked { wanted, cause: Cause::Exclude(out) })
    }

    pub(super) fn exclusion_committed(&mut self, turn: &mut Turn<'_, D>, out: Slots) {
        for slot in out.iter() {
            if let Some(child) = self.children.get_mut(slot) {
                turn.tell(Notice::Excluded { replica: child.id });
                child.stand = Stand::Absent;
                child.base = child.roster;
                child.known = child.flushed;
                child.lacks = child.missing();
            }
        }
        self.lost = self.lost.without(out);
        self.noted = None;
        self.leaving = self.leaving.or(out);
        self.regroup();
        self.send_rosters(turn, Cause::Exclude(out), Slots::NONE);
    }

    /// Every survivor knows: what waited for those that left does not any more.
    pub(super) fn release_leaving(&mut self, turn: &mut Turn<'_, D>) {
        let left = core::mem::take(&mut self.leaving);
        self.regroup();
        for slot in left.iter() {
            self.drop_child(turn, slot);
            if let Some(child) = self.children.get_mut(slot) {
                child.is_reborn = false;
            }
        }
        self.forget_unnamed(turn);
        self.open_children(turn);
    }
}
