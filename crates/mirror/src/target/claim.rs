//! How a target starts: it fences, flushes, claims the record, tells the survivors, and waits.

#[cfg(test)]
mod tests;

use alloc::{collections::BTreeMap, vec::Vec};
use core::cmp::Reverse;

use block::Bitmap;
use model::{FlushMark, Membership, ReplicaId, Roster};
use pool::Absent;

use super::{
    Output, Phase, Target, Turn,
    change::{Asked, Cause},
    child::{Child, Stand},
    flush::Waiter,
    seen::Notice,
};
use crate::{
    Flaw,
    slots::{Slot, Slots},
};

/// Nobody else has what they lost: only a person can decide to go on without it.
const ALL_SET_BACK: &str = "every healthy replica is on a disk that was set back to an older \
     image: newer data was flushed; put the newer disk back, or promote a replica and lose it";

impl<D: Clone> Target<D> {
    pub(super) fn record_read(&mut self, turn: &mut Turn<'_, D>, found: Membership) {
        let is_anothers = found.owner.is_some_and(|owner| owner != self.instance);
        if found.epoch > self.epoch || (found.epoch == self.epoch && is_anothers) {
            self.self_fence(turn);
            return;
        }
        if found.epoch < self.epoch {
            // The control plane raises it when it decides; an older one was read too early.
            self.ask_again = Some(turn.now + self.times.retry);
            return;
        }
        self.record = found;
        self.gather_evidence();
        self.phase = Phase::Fencing { until: turn.now + self.times.fence };
    }

    pub(super) fn advance_claim(&mut self, turn: &mut Turn<'_, D>) {
        match self.phase {
            Phase::Fencing { until } => self.try_claim(turn, until),
            Phase::Settling { until } => {
                let is_settled =
                    self.change.is_none() && self.lost.is_empty() && self.leaving.is_empty();
                if is_settled && until <= turn.now {
                    self.phase = Phase::Serving;
                    turn.tell(Notice::Serving);
                    turn.put(Output::Seen);
                }
            }
            _ => {}
        }
    }

    /// The least that each replica must have flushed, by the record and by those that it calls
    /// healthy: learnt anew with everyone who is fenced.
    pub(super) fn gather_evidence(&mut self) {
        let healthy = |child: &&Child<D>| self.record.is_recorded_healthy(child.id);
        let states =
            self.children.values().filter(healthy).filter_map(|child| child.state.as_ref());
        let mut known = self.record.flushed.clone();
        for (id, mark) in states.flat_map(|state| &state.header.peers) {
            let entry = known.entry(*id).or_default();
            *entry = (*entry).max(*mark);
        }
        for child in self.children.values_mut() {
            // Also what it had when it was fenced before, by this very claim.
            let found = child.state.as_ref().map(|state| state.header.flushed);
            let known = known.get(&child.id).copied().max(found);
            child.known = child.known.max(known.unwrap_or_default());
        }
    }

    /// Fenced, recorded healthy, and a member ever since, with all that it ever flushed. One that
    /// knows of no target may lie on a disk that was swapped: it counts only if nobody else knows
    /// more, because then nothing was ever served.
    fn fenced_healthy(&self) -> Slots {
        let fenced = |child: &Child<D>| {
            child.is_open()
                && child.state.is_some()
                && self.record.is_recorded_healthy(child.id)
                && !child.is_set_back(self.flawed)
        };
        let all: Slots = self.slots_where(fenced).into_iter().collect();
        if self.record.is_unclaimed() {
            return all;
        }
        let is_blank = |child: &Child<D>| {
            let flushed = child.state.as_ref().map(|state| state.header.flushed);
            child.roster == Roster::ZERO && flushed.unwrap_or_default() == FlushMark::NONE
        };
        let members = self.slots_where(|child| fenced(child) && !is_blank(child));
        let members: Slots = members.into_iter().collect();
        if members.is_empty() && self.has_fenced_all(all) { all } else { members }
    }

    fn try_claim(&mut self, turn: &mut Turn<'_, D>, until: model::Time) {
        if self.is_record_older() && !self.heal_record(turn) {
            return;
        }
        let fenced = self.fenced_healthy();
        if fenced.is_empty() && self.is_everyone_set_back() {
            self.fail(turn, ALL_SET_BACK);
            return;
        }
        let has_source = self
            .record
            .resync_source
            .is_none_or(|source| self.slot_of(source).is_some_and(|slot| fenced.contains(slot)));
        if fenced.is_empty() || !has_source {
            return;
        }
        let is_decided = self.has_fenced_all(fenced) || !self.may_fence_more();
        if !is_decided && turn.now < until {
            return;
        }
        self.claimed = Slots::NONE;
        self.phase = Phase::Flushing;
        // Flaw::ClaimUnflushed: what a predecessor's host read must not be lost with the power.
        if self.flawed.leaves_out(Flaw::ClaimUnflushed) {
            self.claimed = fenced;
            self.commit_claim(turn);
            return;
        }
        for slot in fenced.iter() {
            self.flush_child(turn, slot, Waiter::Claim);
        }
    }

    /// Every replica that could be claimed was reached, and is an older image of itself.
    fn is_everyone_set_back(&self) -> bool {
        let is_healthy = |id: &ReplicaId| self.record.is_healthy(*id);
        let child = |id: &ReplicaId| self.children.get(self.slot_of(*id)?);
        let mut healthy = self.record.children.keys().filter(|id| is_healthy(id)).peekable();
        healthy.peek().is_some()
            && healthy.all(|id| child(id).is_some_and(|child| child.is_set_back(self.flawed)))
    }

    fn has_fenced_all(&self, fenced: Slots) -> bool {
        let mut recorded = self.record.children.iter().filter(|(_, healthy)| **healthy);
        recorded.all(|(id, _)| self.slot_of(*id).is_some_and(|slot| fenced.contains(slot)))
    }

    /// Whether one recorded healthy is still being reached. Who was tried in vain is not waited
    /// for: a killed process refuses at once, and its replica returns by a resync.
    fn may_fence_more(&self) -> bool {
        self.children.values().any(|child| {
            matches!(child.link, super::child::Link::Opening { .. })
                && self.record.is_recorded_healthy(child.id)
        })
    }

    /// One that is fenced while others are being flushed takes part in the claim like them: it is
    /// counted as fenced, so the claim would wait for its flush for ever.
    pub(super) fn claim_joined(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if self.phase == Phase::Flushing && self.fenced_healthy().contains(slot) {
            self.flush_child(turn, slot, Waiter::Claim);
        }
    }

    pub(super) fn claim_flushed(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if self.phase != Phase::Flushing {
            return;
        }
        self.claimed.insert(slot);
        if self.fenced_healthy().is_within(self.claimed) {
            self.commit_claim(turn);
        }
    }

    /// One that was fenced is gone: before the claim is on its way it begins again with the rest.
    pub(super) fn claim_lost(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let is_committing = self.phase == Phase::Claiming;
        // One that was never fenced has no part in it, however often it is tried in vain.
        let was_fenced = self.children.get(slot).is_some_and(|child| child.state.is_some());
        if let Some(child) = self.children.get_mut(slot) {
            child.close(turn);
            child.link = super::child::Link::Closed { retry: turn.now + self.times.retry };
            child.forget_all();
            if !is_committing {
                child.state = None;
            }
        }
        if self.phase == Phase::Flushing && was_fenced {
            for child in self.children.values_mut() {
                child.flushes.nobody_waits();
            }
            self.phase = Phase::Fencing { until: turn.now + self.times.fence };
        }
        self.open_children(turn);
    }

    fn commit_claim(&mut self, turn: &mut Turn<'_, D>) {
        let mut wanted = self.record_to_change();
        let fenced = self.claimed;
        for (id, healthy) in &mut wanted.children {
            *healthy &= self.slot_of(*id).is_some_and(|slot| fenced.contains(slot));
        }
        for child in self.children.values() {
            if wanted.children.contains_key(&child.id) {
                let flushed = wanted.flushed.entry(child.id).or_default();
                *flushed = (*flushed).max(child.known);
            }
        }
        wanted.owner = Some(self.instance);
        wanted.roster = self.highest_roster().max(wanted.roster).next();
        if !wanted.clean {
            let source = self.choose_source(fenced);
            let state = source.and_then(|slot| self.children.get(slot));
            let is_intact =
                state.and_then(|child| child.state.as_ref()).is_some_and(|state| state.intact)
                    || self.has_never_served();
            wanted.unflushed_lost |= !is_intact;
            if !is_intact {
                // Every copy lost its power: only what was to outlive that does.
                wanted.reserved = wanted.reserved.filter(|reserved| reserved.lasts);
            }
            // With one left there is nobody to differ from it.
            let id = state.map(|child| child.id);
            wanted.resync_source = id.filter(|_| fenced.count() > 1);
        }
        wanted.clean = false;
        self.phase = Phase::Claiming;
        self.commit(turn, Asked { wanted, cause: Cause::Claim });
    }

    /// A target serves once every replica keeps its roster: where none keeps any, the volume's
    /// first targets died before they served, and there was no write to lose. That is said only
    /// with every replica of the record at hand.
    fn has_never_served(&self) -> bool {
        let state = |id: &ReplicaId| self.children.get(self.slot_of(*id)?)?.state.as_ref();
        let mut recorded = self.record.children.keys();
        recorded.all(|id| state(id).is_some_and(|state| state.header.roster == Roster::ZERO))
    }

    /// The one that the others are made equal to: the recorded one, else an intact one.
    fn choose_source(&self, fenced: Slots) -> Option<Slot> {
        if let Some(source) = self.record.resync_source {
            return self.slot_of(source);
        }
        let able = fenced.iter().filter_map(|slot| Some((slot, self.children.get(slot)?)));
        let is_intact = |child: &Child<D>| {
            let intact = child.state.as_ref().is_some_and(|state| state.intact);
            // Flaw::SourceNotIntact: acknowledged writes are overwritten by their past.
            intact != self.flawed.leaves_out(Flaw::SourceNotIntact)
        };
        // Whoever flushed most has all that was flushed. One that was in use until now was not set
        // back; of the others those who seem intact may still be older images, which only what the
        // rest has flushed tells.
        // Flaw::SourceNotNewest: an older image overwrites what was flushed since.
        let is_blind = self.flawed.leaves_out(Flaw::SourceNotNewest);
        let key = |child: &Child<D>| {
            let state = child.state.as_ref();
            let is_in_use = state.is_some_and(|state| state.is_in_use) && is_intact(child);
            let flushed = state.map_or(FlushMark::NONE, |state| state.header.flushed);
            let flushed = if is_blind { FlushMark::NONE } else { flushed };
            (!is_in_use, Reverse(flushed), !is_intact(child), child.node != self.node)
        };
        able.min_by_key(|(_, child)| key(child)).map(|(slot, _)| slot)
    }

    fn highest_roster(&self) -> Roster {
        let rosters = self.claimed.iter().filter_map(|slot| self.children.get(slot));
        rosters.map(|child| child.roster).max().unwrap_or_default()
    }

    pub(super) fn claim_committed(&mut self, turn: &mut Turn<'_, D>, before: &Membership) {
        let fenced = self.claimed;
        let mut dirty = Bitmap::new();
        for child in fenced.iter().filter_map(|slot| self.children.get(slot)) {
            if let Some(state) = &child.state {
                dirty.merge(&state.header.dirty);
            }
        }
        self.dirty = dirty.clone();
        // Flaw::InheritsNothing: a successor knows of no flush, and replicas may differ.
        if self.flawed.leaves_out(Flaw::InheritsNothing) {
            dirty = Bitmap::new();
        }
        let absences = self.known_absences(fenced);
        let base = self.highest_roster();
        let is_recovering = self.record.resync_source.is_some();
        let source = self.record.resync_source;
        let full = Bitmap::full(self.geometry.count(self.blocks()));
        for (slot, child) in self.children.iter_mut() {
            if fenced.contains(slot) {
                child.stand = Stand::Healthy;
                let found = child.state.as_ref().map(|state| state.header.flushed);
                child.flushed = child.known.max(found.unwrap_or_default());
                child.prev = dirty.clone();
                let is_source = !is_recovering || source == Some(child.id);
                child.lacks = if is_source { Bitmap::new() } else { dirty.clone() };
            } else if before.is_recorded_healthy(child.id) {
                // One that was set back is found out again when it is greeted: `known` stays.
                (child.base, child.lacks) = (base, dirty.clone());
            } else if let Some(absent) = absences.get(&child.id) {
                (child.base, child.known) = (absent.base, absent.flushed);
                child.lacks = absent.regions.clone();
            } else {
                (child.base, child.known) = (Roster::ZERO, FlushMark::NONE);
                child.lacks = full.clone();
            }
        }
        self.serve_claim(turn, before);
    }

    fn serve_claim(&mut self, turn: &mut Turn<'_, D>, before: &Membership) {
        if self.record.unflushed_lost {
            turn.tell(Notice::UnflushedLost);
            self.hosts.owe(&self.item.hosts);
        }
        self.regroup();
        // A predecessor that is cut off may read for a lease, unless nothing answers it any more.
        let wait =
            if self.has_fenced_all_of(before) { model::Millis(0) } else { self.times.lease_over };
        self.phase = Phase::Settling { until: turn.now + wait };
        // All of a clean record are intact; of an unclean one the source is, or the only one.
        let intact = if before.clean { self.claimed } else { self.groups.counting };
        self.send_rosters(turn, Cause::Claim, intact);
    }

    fn has_fenced_all_of(&self, before: &Membership) -> bool {
        let mut recorded = before.children.iter().filter(|(_, healthy)| **healthy);
        recorded.all(|(id, _)| self.slot_of(*id).is_some_and(|slot| self.claimed.contains(slot)))
    }

    /// What the fenced replicas remember of absent ones; for one that was excluded in the store
    /// without any of them knowing, that it had what they have.
    fn known_absences(&self, fenced: Slots) -> BTreeMap<ReplicaId, Absent> {
        let states: Vec<_> =
            fenced.iter().filter_map(|slot| self.children.get(slot)?.state.as_ref()).collect();
        let mut found: BTreeMap<ReplicaId, Absent> = BTreeMap::new();
        for state in &states {
            for (id, absent) in &state.header.absent {
                let entry = found.entry(*id).or_insert_with(|| absent.clone());
                if entry.base != absent.base {
                    // They disagree: everything is copied.
                    entry.regions = Bitmap::full(self.geometry.count(self.blocks()));
                }
                entry.flushed = entry.flushed.max(absent.flushed);
                entry.regions.merge(&absent.regions);
            }
        }
        let newest = states.iter().max_by_key(|state| state.header.roster);
        if let Some(newest) = newest {
            let healthy = newest.header.members.iter().filter(|(_, healthy)| **healthy);
            for (id, _) in healthy {
                let (base, regions) = (newest.header.roster, self.dirty.clone());
                let slot = self.slot_of(*id).and_then(|slot| self.children.get(slot));
                let flushed = slot.map_or(FlushMark::NONE, |child| child.known);
                found.entry(*id).or_insert(Absent { base, flushed, regions });
            }
        }
        found
    }
}
