//! Regions that nobody has written for a while, and that all have flushed, are called clean.

use alloc::{vec, vec::Vec};

use block::Extent;

use super::{Phase, Target, Turn, child::Purpose, command::Work, flush::Waiter};
use crate::{
    Fault, Flaw, Request,
    slots::{Slot, Slots},
};

/// Regions per look: a few, so that a long list does not hold locks for long.
const REGIONS_MAX: usize = 64;

/// Holds the lock of its regions until all have answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cleaning {
    regions: Vec<u64>,
    waiting: Slots,
    is_refused: bool,
}

impl<D: Clone> Target<D> {
    pub(super) fn tick_clean(&mut self, turn: &mut Turn<'_, D>) {
        if turn.now < self.look_at {
            return;
        }
        self.look_at = turn.now + self.times.idle;
        let touched = core::mem::take(&mut self.touched);
        if !self.may_clean() {
            return;
        }
        let mut idle = self.dirty.clone();
        idle.subtract(&touched);
        let idle: Vec<_> = idle.iter().filter(|region| self.is_settled(*region)).collect();
        let is_flushed = |region: &u64| {
            let mut children = self.groups.acks.iter().filter_map(|s| self.children.get(&s));
            self.flawed.leaves_out(Flaw::CleanUnchecked)
                || children.all(|c| !c.cur.contains(*region) && !c.prev.contains(*region))
        };
        let (clean, unflushed): (Vec<_>, Vec<_>) = idle.into_iter().partition(is_flushed);
        if !clean.is_empty() {
            self.send_clean(turn, clean);
        } else if !unflushed.is_empty() {
            // The next look finds them flushed.
            for slot in self.groups.acks.iter() {
                self.flush_child(turn, slot, Waiter::Nobody);
            }
        }
    }

    fn may_clean(&self) -> bool {
        let is_whole = self.change.is_none() && self.lost.is_empty() && self.leaving.is_empty();
        self.phase == Phase::Serving
            && is_whole
            && self.freeze.is_none()
            && (self.record.resync_source.is_none() || self.flawed.leaves_out(Flaw::CleanUnchecked))
    }

    /// Nobody is still to get a copy of it.
    fn is_settled(&self, region: u64) -> bool {
        self.flawed.leaves_out(Flaw::CleanUnchecked)
            || self.children.values().all(|child| !child.missing_copy(region))
    }

    fn send_clean(&mut self, turn: &mut Turn<'_, D>, regions: Vec<u64>) {
        let mut taken = vec![];
        for region in regions.into_iter().take(REGIONS_MAX) {
            if self.lock.take(self.region_extent(region)) {
                taken.push(region);
            }
        }
        if taken.is_empty() {
            return;
        }
        let waiting = self.groups.acks;
        let cleaning = Cleaning { regions: taken.clone(), waiting, is_refused: false };
        let id = self.new_op(None, Work::Clean(cleaning));
        for slot in waiting.iter() {
            if let Some(child) = self.children.get_mut(&slot) {
                let regions = taken.clone();
                child.send(turn, Purpose::Clean(id), Request::Clean { regions });
            }
        }
    }

    fn region_extent(&self, region: u64) -> Extent {
        let blocks = u32::try_from(self.geometry.region).unwrap_or(u32::MAX);
        Extent::new(region * self.geometry.region, blocks)
    }

    pub(super) fn cleaned(
        &mut self,
        turn: &mut Turn<'_, D>,
        id: u64,
        slot: Slot,
        fault: Option<Fault>,
    ) {
        if fault.is_some()
            && let Some(Work::Clean(cleaning)) = self.ops.get_mut(&id).map(|op| &mut op.work)
        {
            cleaning.is_refused = true;
        }
        self.clean_answered(turn, id, slot);
    }

    /// A child that is gone did not clean it.
    pub(super) fn clean_without(&mut self, turn: &mut Turn<'_, D>, id: u64, slot: Slot) {
        let Some(Work::Clean(cleaning)) = self.ops.get_mut(&id).map(|op| &mut op.work) else {
            return;
        };
        if cleaning.waiting.contains(slot) {
            cleaning.is_refused = true;
            self.clean_answered(turn, id, slot);
        }
    }

    fn clean_answered(&mut self, turn: &mut Turn<'_, D>, id: u64, slot: Slot) {
        let Some(Work::Clean(cleaning)) = self.ops.get_mut(&id).map(|op| &mut op.work) else {
            return;
        };
        cleaning.waiting.remove(slot);
        if !cleaning.waiting.is_empty() {
            return;
        }
        let (regions, is_refused) = (core::mem::take(&mut cleaning.regions), cleaning.is_refused);
        self.ops.remove(&id);
        for region in regions {
            self.lock.release(self.region_extent(region));
            if !is_refused {
                self.dirty.remove(region);
            }
        }
        self.start_queued(turn);
    }
}
