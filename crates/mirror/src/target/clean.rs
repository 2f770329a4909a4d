//! Regions that nobody has written for a while, and that all have flushed, are called clean.

#[cfg(test)]
mod tests;

use alloc::{vec, vec::Vec};

use block::{Bitmap, Extent};

use super::{Phase, Target, Turn, child::Purpose, command::Work, flush::Waiter};
use crate::{
    Fault, Flaw, Request,
    slots::{Slot, Slots},
};

/// Regions at a time: a few, so that a long list does not hold locks for long. The simulator's
/// volumes have few regions, and must see that one list follows the other.
const REGIONS_MAX: usize = if cfg!(feature = "flaws") { 1 } else { 64 };

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
        let idle: Bitmap = idle.iter().filter(|region| self.is_settled(*region)).collect();
        let clean: Bitmap = idle.iter().filter(|region| self.is_flushed(*region)).collect();
        if clean != idle {
            // The next look finds them flushed.
            for slot in self.groups.acks.iter() {
                self.flush_child(turn, slot, Waiter::Nobody);
            }
        }
        self.cleanable = clean;
        self.clean_some(turn);
    }

    /// The next of those that the look found, unless something became of them since.
    fn clean_some(&mut self, turn: &mut Turn<'_, D>) {
        if !self.may_clean() {
            self.cleanable = Bitmap::new();
            return;
        }
        let is_idle = |region: &u64| {
            self.dirty.contains(*region)
                && !self.touched.contains(*region)
                && self.is_settled(*region)
                && self.is_flushed(*region)
        };
        let mut idle: Bitmap = self.cleanable.iter().filter(is_idle).collect();
        let next: Vec<_> = idle.iter().take(REGIONS_MAX).collect();
        for region in &next {
            idle.remove(*region);
        }
        self.cleanable = idle;
        self.send_clean(turn, next);
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

    fn is_flushed(&self, region: u64) -> bool {
        let mut children = self.groups.acks.iter().filter_map(|slot| self.children.get(slot));
        self.flawed.leaves_out(Flaw::CleanUnchecked)
            || children.all(|child| !child.cur.contains(region) && !child.prev.contains(region))
    }

    fn send_clean(&mut self, turn: &mut Turn<'_, D>, regions: Vec<u64>) {
        let mut taken = vec![];
        for region in regions {
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
        // Flaw::CleanUnproven: a cleared region is where nobody looks, should one be set back.
        let is_unproven = self.flawed.leaves_out(Flaw::CleanUnproven);
        let flushed = if is_unproven { self.record.flushed.clone() } else { self.flush_marks() };
        for slot in waiting.iter() {
            if let Some(child) = self.children.get_mut(slot) {
                let (regions, flushed) = (taken.clone(), flushed.clone());
                child.send(turn, Purpose::Clean(id), Request::Clean { regions, flushed });
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
            && let Some(Work::Clean(cleaning)) = self.ops.get_mut(id).map(|op| &mut op.work)
        {
            cleaning.is_refused = true;
        }
        self.clean_answered(turn, id, slot);
    }

    /// A child that is gone did not clean it.
    pub(super) fn clean_without(&mut self, turn: &mut Turn<'_, D>, id: u64, slot: Slot) {
        let Some(Work::Clean(cleaning)) = self.ops.get_mut(id).map(|op| &mut op.work) else {
            return;
        };
        if cleaning.waiting.contains(slot) {
            cleaning.is_refused = true;
            self.clean_answered(turn, id, slot);
        }
    }

    fn clean_answered(&mut self, turn: &mut Turn<'_, D>, id: u64, slot: Slot) {
        let Some(Work::Clean(cleaning)) = self.ops.get_mut(id).map(|op| &mut op.work) else {
            return;
        };
        cleaning.waiting.remove(slot);
        if !cleaning.waiting.is_empty() {
            return;
        }
        let (regions, is_refused) = (core::mem::take(&mut cleaning.regions), cleaning.is_refused);
        self.ops.remove(id);
        for region in regions {
            self.lock.release(self.region_extent(region));
            if !is_refused {
                self.dirty.remove(region);
            }
        }
        self.start_queued(turn);
        if is_refused {
            self.cleanable = Bitmap::new();
        } else if !self.cleanable.is_empty() {
            self.clean_some(turn);
        }
    }
}
