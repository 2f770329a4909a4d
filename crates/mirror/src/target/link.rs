//! Connections to replicas: opened, lost, found again.
//!
//! A healthy child whose connection drops may be back within the grace, as the same instance: then
//! what was not answered is sent again. Otherwise it is lost, and must be excluded.

use alloc::{boxed::Box, vec::Vec};

use model::{ReplicaId, Time};

use super::{
    Event, Output, Phase, Target, Turn,
    child::{Child, Link, Purpose, Stand, Wish},
    seen::{Notice, Why},
};
use crate::{
    Answer, Fault, State,
    slots::{SLOTS_MAX, Slot},
};

impl<D: Clone> Target<D> {
    /// The config's list of children; those that stay keep what they have.
    pub(super) fn name_children(&mut self, turn: &mut Turn<'_, D>) {
        let items = self.item.children.clone();
        let is_named = |id: ReplicaId| items.iter().any(|item| item.replica == id);
        let gone: Vec<_> = self.slots_where(|child| !is_named(child.id));
        for slot in gone {
            self.forget_child(turn, slot);
        }
        // Whoever is new lacks everything, until a claim finds what it has.
        let everything = block::Bitmap::full(self.geometry.count(self.blocks()));
        for item in &items {
            let slot = match self.slot_of(item.replica) {
                Some(slot) => slot,
                None => match self.free_slot() {
                    Some(slot) => slot,
                    None => continue,
                },
            };
            let new = || Child::new(item.replica, item.node, turn.now, everything.clone());
            let child = self.children.get_or_insert_with(slot, new);
            child.wish = match (item.retire, item.rebuild) {
                (true, _) => Wish::Retire,
                (false, true) => Wish::Rebuild,
                (false, false) => Wish::Keep,
            };
            let stops = child.wish != Wish::Rebuild;
            if stops && child.stand.is_guest() {
                self.give_up(turn, slot);
            }
        }
    }

    fn free_slot(&self) -> Option<Slot> {
        (0..SLOTS_MAX).map(Slot).find(|slot| self.children.get(*slot).is_none())
    }

    pub(super) fn slots_where(&self, is_wanted: impl Fn(&Child<D>) -> bool) -> Vec<Slot> {
        let found = self.children.iter().filter(|(_, child)| is_wanted(child));
        found.map(|(slot, _)| slot).collect()
    }

    pub(super) fn slot_of(&self, id: ReplicaId) -> Option<Slot> {
        self.children.iter().find(|(_, child)| child.id == id).map(|(slot, _)| slot)
    }

    /// The config no longer names it. Recorded healthy, it is excluded before it is forgotten.
    fn forget_child(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let Some(child) = self.children.get_mut(slot) else { return };
        child.wish = Wish::Retire;
        match child.stand {
            Stand::Greeting | Stand::Imaging | Stand::Rebuilding => self.give_up(turn, slot),
            Stand::Healthy | Stand::Joining | Stand::Absent => {}
        }
        let is_free = !self.lost.or(self.leaving).contains(slot)
            && self.children.get(slot).is_some_and(|child| child.stand == Stand::Absent);
        if is_free && let Some(mut child) = self.children.remove(slot) {
            child.close(turn);
            turn.put(Output::Seen);
        }
    }

    /// Children that left while the config no longer names them go at last.
    pub(super) fn forget_unnamed(&mut self, turn: &mut Turn<'_, D>) {
        let items = &self.item.children;
        let is_named = |id: ReplicaId| items.iter().any(|item| item.replica == id);
        let gone: Vec<_> = self.slots_where(|child| !is_named(child.id));
        for slot in gone {
            self.forget_child(turn, slot);
        }
    }

    pub(super) fn open_children(&mut self, turn: &mut Turn<'_, D>) {
        let is_starting = !self.is_serving();
        let held_back = self.lost.or(self.leaving);
        for (slot, child) in self.children.iter_mut() {
            let Link::Closed { retry } = child.link else { continue };
            let is_wanted = is_starting || child.is_wanted();
            if is_wanted && retry <= turn.now && !held_back.contains(slot) {
                child.open(turn, self.epoch);
            }
        }
    }

    pub(super) fn child_closed(&mut self, turn: &mut Turn<'_, D>, id: ReplicaId, session: u64) {
        let Some(slot) = self.slot_of(id) else { return };
        let Some(child) = self.children.get_mut(slot) else { return };
        let (retry, is_refused) = match child.link {
            // One that was open is tried at once, one that never opened after a while.
            Link::Open { session: open } if open == session => (turn.now, false),
            Link::Opening { session: open, .. } if open == session => {
                (turn.now + self.times.retry, child.dropped.is_some())
            }
            _ => return,
        };
        child.link = Link::Closed { retry };
        self.dropped(turn, slot);
        // A network that is down leaves the second try without an answer; a process that was killed
        // refuses it at once, and would be another instance when it comes back.
        if is_refused && !self.is_claiming() {
            self.lose(turn, slot, Why::Unreachable);
        }
    }

    /// The connection is gone; what that means depends on where the child stands.
    fn dropped(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if self.is_claiming() {
            self.claim_lost(turn, slot);
            return;
        }
        let Some(child) = self.children.get_mut(slot) else { return };
        match child.stand {
            Stand::Absent => {}
            Stand::Greeting => self.give_up(turn, slot),
            Stand::Imaging | Stand::Rebuilding | Stand::Joining | Stand::Healthy => {
                child.dropped.get_or_insert(turn.now);
                if self.times.grace.0 == 0 {
                    self.grace_over(turn, slot);
                }
            }
        }
        self.open_children(turn);
    }

    pub(super) fn answered(
        &mut self,
        turn: &mut Turn<'_, D>,
        id: ReplicaId,
        session: u64,
        tag: u64,
        answer: Answer<D>,
    ) -> Event {
        let Some(slot) = self.slot_of(id) else { return Event::Change };
        let link = self.children.get(slot).map(|child| child.link);
        match link {
            Some(Link::Opening { session: open, since }) if open == session => {
                self.greeted(turn, slot, since, answer);
                Event::Change
            }
            Some(Link::Open { session: open }) if open == session => {
                self.command_answered(turn, slot, tag, answer)
            }
            _ => Event::Change,
        }
    }

    /// The answer to a fence.
    fn greeted(&mut self, turn: &mut Turn<'_, D>, slot: Slot, since: Time, answer: Answer<D>) {
        let Some(child) = self.children.get_mut(slot) else { return };
        match answer {
            Answer::Fenced(state) => {
                let Link::Opening { session, .. } = child.link else { return };
                child.link = Link::Open { session };
                child.answered = child.answered.max(Some(since));
                self.fenced(turn, slot, state);
            }
            Answer::Failed(Fault::Stale { epoch }) if epoch > self.epoch => self.self_fence(turn),
            _ => {
                child.close(turn);
                child.link = Link::Closed { retry: turn.now + self.times.retry };
                self.dropped(turn, slot);
            }
        }
    }

    fn fenced(&mut self, turn: &mut Turn<'_, D>, slot: Slot, state: Box<State>) {
        let Some(child) = self.children.get_mut(slot) else { return };
        // A machine that was set back with all that ran on it is the same instance, and has less.
        let is_known =
            child.instance == Some(state.instance) && state.header.flushed >= child.flushed;
        let is_in_use = !matches!(child.stand, Stand::Absent | Stand::Greeting);
        child.dropped = None;
        if is_in_use && !is_known {
            // Another instance: what it had not flushed may be gone.
            child.is_reborn = true;
            child.close(turn);
            self.lose(turn, slot, Why::Restarted);
            return;
        }
        if child.instance.replace(state.instance) != Some(state.instance) {
            turn.put(Output::Seen);
        }
        child.is_reborn = false;
        if is_in_use {
            child.send_again(turn);
            self.fetch_elsewhere(turn, slot);
            self.retry_reads(turn);
            self.settle_failed(turn);
        } else {
            child.roster = state.header.roster;
            child.state = Some(state);
            if self.is_claiming() {
                self.gather_evidence();
            }
            let Some(child) = self.children.get_mut(slot) else { return };
            if !child.is_wanted() && matches!(self.phase, Phase::Serving | Phase::Stopping) {
                child.close(turn);
            }
            self.claim_joined(turn, slot);
        }
    }

    fn command_answered(
        &mut self,
        turn: &mut Turn<'_, D>,
        slot: Slot,
        tag: u64,
        answer: Answer<D>,
    ) -> Event {
        let Some(child) = self.children.get_mut(slot) else { return Event::Change };
        match answer {
            Answer::Failed(Fault::Stale { epoch }) if epoch > self.epoch => {
                self.self_fence(turn);
                return Event::Change;
            }
            // Another session of ours took its place: this one is over.
            Answer::Failed(Fault::Stale { .. }) => {
                child.close(turn);
                self.dropped(turn, slot);
                return Event::Change;
            }
            _ => {}
        }
        let Some(sent) = child.sent.remove(tag) else { return Event::Change };
        child.answered = child.answered.max(Some(sent.at));
        let fault = match answer {
            Answer::Failed(fault) => Some(fault),
            _ => None,
        };
        if fault == Some(Fault::Faulted) && self.may_lose(slot) {
            // Whatever waits for it waits for its exclusion.
            if let Some(child) = self.children.get_mut(slot) {
                child.sent.insert(tag, sent);
            }
            self.lose(turn, slot, Why::Faulted);
            return Event::Change;
        }
        let is_data = matches!(sent.purpose, Purpose::Write(_) | Purpose::Read(_));
        match sent.purpose {
            Purpose::Write(op) => self.wrote(turn, op, slot, fault),
            Purpose::Read(op) => self.read_answered(turn, op, slot, answer),
            Purpose::Fetch(op) => self.fetched(turn, op, slot, answer),
            Purpose::CopyWrite(op) => self.copy_written(turn, op, slot, fault),
            Purpose::Clean(op) => self.cleaned(turn, op, slot, fault),
            Purpose::Flush => self.flush_answered(turn, slot, fault),
            Purpose::Roster(roster) => self.rostered(turn, slot, roster, fault),
            Purpose::Welcome => self.welcomed(turn, slot, fault),
            Purpose::Greet => self.greeting_done(turn, slot, fault),
            Purpose::Stop => self.stop_noted(turn, slot, fault),
            Purpose::Snapshot => self.snapshot_answered(turn, slot, fault),
            Purpose::SnapAbort => self.snap_aborted(turn, slot, fault),
            Purpose::Images => self.images_listed(turn, slot, answer),
            Purpose::Image => self.image_frozen(turn, slot, fault),
            Purpose::Ping => {}
        }
        self.retry_reads(turn);
        if is_data && fault.is_none() { Event::Data } else { Event::Change }
    }

    pub(super) fn tick_links(&mut self, turn: &mut Turn<'_, D>) {
        let slots = self.slots_where(|_| true);
        for slot in slots {
            let Some(child) = self.children.get_mut(slot) else { continue };
            let is_late = |at: Time| turn.now.since(at) >= self.times.child;
            let is_silent = match child.link {
                Link::Opening { since, .. } => is_late(since),
                Link::Open { .. } => child.sent.values().next().is_some_and(|s| is_late(s.at)),
                Link::Closed { .. } => false,
            };
            let was_open = child.is_open();
            if is_silent {
                child.close(turn);
                self.dropped(turn, slot);
            }
            if is_silent && was_open {
                self.lose(turn, slot, Why::Silent);
            } else {
                self.grace_over(turn, slot);
            }
        }
        self.open_children(turn);
    }

    fn grace_over(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let dropped = self.children.get(slot).and_then(|child| child.dropped);
        if dropped.is_some_and(|at| turn.now.since(at) >= self.times.grace) {
            self.lose(turn, slot, Why::Unreachable);
        }
    }

    pub(super) const fn is_claiming(&self) -> bool {
        matches!(
            self.phase,
            Phase::Reading | Phase::Fencing { .. } | Phase::Flushing | Phase::Claiming
        )
    }

    /// It takes no more, and waits to be excluded; or it is left alone, if nothing counted on it.
    pub(super) fn lose(&mut self, turn: &mut Turn<'_, D>, slot: Slot, why: Why) {
        if self.lost.or(self.leaving).contains(slot) {
            return;
        }
        let Some(child) = self.children.get(slot) else { return };
        let id = child.id;
        match child.stand {
            Stand::Absent => {}
            Stand::Greeting | Stand::Imaging | Stand::Rebuilding => self.give_up(turn, slot),
            Stand::Joining if !self.is_admission_sent(slot) => self.give_up(turn, slot),
            Stand::Joining | Stand::Healthy => {
                if !self.may_lose(slot) {
                    self.wait_for_the_last(turn, slot);
                    return;
                }
                if let Some(child) = self.children.get_mut(slot) {
                    child.close(turn);
                    child.dropped = None;
                }
                turn.tell(Notice::Lost { replica: id, why });
                self.lost.insert(slot);
                self.lost_now(turn, slot);
            }
        }
    }

    /// It cannot be excluded: there would be none left. Only its return as it was helps.
    fn wait_for_the_last(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if let Some(child) = self.children.get_mut(slot) {
            // One that is being opened goes on: else a slow one would never be reached.
            if !matches!(child.link, Link::Opening { .. }) {
                child.close(turn);
                child.link = Link::Closed { retry: turn.now + self.times.retry };
            }
            child.dropped = None;
        }
        // One that is lost, but not excluded yet, comes back to the next target only: its exclusion
        // may wait for the last one, as that waits for it.
        let counting = self.groups.counting.without(self.lost);
        let is_dead = |slot| self.children.get(slot).is_none_or(|child| child.is_reborn);
        if counting.iter().all(is_dead) {
            self.fail(turn, "every healthy replica restarted");
        }
    }

    /// Nothing counts on it: it gets nothing until it is greeted again.
    pub(super) fn give_up(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        self.abort_join(slot);
        let Some(child) = self.children.get_mut(slot) else { return };
        child.close(turn);
        // One that is full will be full again at once: space comes by people, not by trying.
        let after = if child.is_full { self.times.full } else { self.times.retry };
        child.link = Link::Closed { retry: turn.now + after };
        child.lacks = child.missing();
        child.dropped = None;
        child.is_reborn = false;
        child.stand = Stand::Absent;
        child.imaging = None;
        child.since = None;
        turn.put(Output::Seen);
        self.drop_child(turn, slot);
        self.roster_known(turn, slot);
    }
}
