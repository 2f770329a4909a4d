//! Copies: what a child lacks, region by region, each segment under the lock like any write.

use block::{Bitmap, Extent};
use model::SnapshotId;

use super::{
    Output, Target, Turn,
    child::{Child, Purpose, Stand},
    command::{HostFault, HostResult, Work, reply},
    seen::Why,
};
use crate::{
    Answer, Fault, Request,
    slots::{Slot, Slots},
};

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Copy {
    pub(super) extent: Extent,
    pub(super) dests: Slots,
    of: Origin,
    purpose: CopyFor,
    source: Option<Slot>,
    /// Children that could not read it.
    bad: Slots,
    /// Writes that are not answered, over all destinations.
    left: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CopyFor {
    /// Part of the region that is being copied.
    Resync,
    /// A child could not read it.
    Repair,
    /// A host's write failed everywhere.
    Undo { fault: HostFault },
}

/// What is copied: the live blocks, or those of a snapshot; all of them, or only what may differ
/// from an older snapshot that the destinations have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    image: Option<SnapshotId>,
    since: Option<SnapshotId>,
}

/// The region that is being copied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Copying {
    region: u64,
    of: Origin,
    pub(super) dests: Slots,
    /// The next block to be copied, and segments under way.
    next: u64,
    left: u32,
    /// Some segment could not be read anywhere.
    failed: bool,
}

impl Copy {
    pub(super) const fn new(extent: Extent, dests: Slots, purpose: CopyFor) -> Self {
        let of = Origin { image: None, since: None };
        Self { extent, dests, of, purpose, source: None, bad: Slots::NONE, left: 0 }
    }
}

impl<D> Child<D> {
    /// What it is to get copies of, and the regions of that which it lacks.
    fn wants_copies(&self) -> Option<(Origin, &Bitmap)> {
        let since = self.since;
        let (image, regions) = match (self.stand, &self.imaging) {
            (Stand::Healthy | Stand::Rebuilding, _) => (None, &self.lacks),
            (Stand::Imaging, Some(imaging)) if imaging.is_copying() => {
                (Some(imaging.image.as_ref()?.snapshot), &imaging.left)
            }
            _ => return None,
        };
        self.is_open().then_some((Origin { image, since }, regions))
    }
}

impl<D: Clone> Target<D> {
    pub(super) fn start_copies(&mut self, turn: &mut Turn<'_, D>) {
        if self.phase != super::Phase::Serving || self.is_frozen() || self.is_gated() {
            return;
        }
        if self.copying.is_none() {
            self.copying = self.next_region();
        }
        while let Some(copying) = &mut self.copying {
            let end = (copying.region + 1) * self.geometry.region;
            let end = end.min(self.item.size.0 / block::BLOCK as u64);
            if copying.next >= end {
                self.region_done(turn);
                return;
            }
            let left = u64::from(self.geometry.segment).min(end - copying.next);
            let blocks = u32::try_from(left).unwrap_or(self.geometry.segment);
            if copying.left >= self.pace.window() || !self.pace.take(turn.now, blocks) {
                return;
            }
            let extent = Extent::new(copying.next, blocks);
            copying.next = extent.end();
            copying.left += 1;
            let mut copy = Copy::new(extent, copying.dests, CopyFor::Resync);
            copy.of = copying.of;
            let id = self.new_op(None, Work::Copy(copy));
            self.enqueue(turn, id);
        }
    }

    fn next_region(&self) -> Option<Copying> {
        let behind = || {
            let able = self.children.iter().filter(|(slot, _)| !self.lost.contains(*slot));
            able.filter_map(|(slot, child)| Some((slot, child.wants_copies()?)))
        };
        let firsts = behind().filter_map(|(_, (of, regions))| Some((regions.first()?, of)));
        let (region, of) = firsts.min_by_key(|(region, _)| *region)?;
        let dests = behind().filter(|(_, (other, all))| *other == of && all.contains(region));
        let dests = dests.map(|(slot, _)| slot).collect();
        let next = region * self.geometry.region;
        Some(Copying { region, of, dests, next, left: 0, failed: false })
    }

    /// It takes no more part in what is being copied, or is about to be.
    pub(super) fn end_copies_to(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if let Some(copying) = &mut self.copying {
            copying.dests.remove(slot);
        }
        let copies = self.ops.iter().filter(|(_, op)| matches!(op.work, Work::Copy(_)));
        let copies: alloc::vec::Vec<_> = copies.map(|(id, _)| id).collect();
        for id in copies {
            self.copy_without(turn, id, slot);
        }
    }

    fn region_done(&mut self, turn: &mut Turn<'_, D>) {
        let Some(copying) = self.copying.take_if(|copying| copying.left == 0) else { return };
        if copying.failed {
            // Nobody could read it now: later perhaps.
            self.pace.rest(turn.now);
        }
        let result = if copying.failed { Err(Fault::Media) } else { Ok(()) };
        for slot in copying.dests.iter() {
            let Some(child) = self.children.get_mut(slot) else { continue };
            match child.stand {
                Stand::Imaging => self.image_copied(turn, slot, copying.region, result),
                Stand::Healthy | Stand::Rebuilding if result.is_ok() => {
                    self.region_copied(turn, slot, copying.region);
                }
                _ => {}
            }
        }
        if copying.failed {
            return;
        }
        self.advance_change(turn);
        self.start_copies(turn);
    }

    fn region_copied(&mut self, turn: &mut Turn<'_, D>, slot: Slot, region: u64) {
        let Some(child) = self.children.get_mut(slot) else { return };
        let before = child.lacks.count();
        child.lacks.remove(region);
        let after = child.lacks.count();
        // People follow it in percent, and that it is over is news in any case.
        if after == 0 || self.percent(before) != self.percent(after) {
            turn.put(Output::Seen);
        }
    }

    /// Under the lock: reads from a child that counts.
    pub(super) fn start_fetch(&mut self, turn: &mut Turn<'_, D>, id: u64) {
        let Some(Work::Copy(copy)) = self.ops.get(id).map(|op| &op.work) else { return };
        let (extent, avoided) = (copy.extent, copy.bad.or(copy.dests));
        let Origin { image, since } = copy.of;
        let Some(source) = self.nearest(avoided) else {
            if self.groups.counting.without(avoided).is_empty() {
                self.end_copy(turn, id, Err(Fault::Media));
            } else if let Some(Work::Copy(copy)) = self.ops.get_mut(id).map(|op| &mut op.work) {
                // Its connection may come back.
                copy.source = None;
            }
            return;
        };
        if let Some(Work::Copy(copy)) = self.ops.get_mut(id).map(|op| &mut op.work) {
            copy.source = Some(source);
        }
        if let Some(child) = self.children.get_mut(source) {
            child.send(turn, Purpose::Fetch(id), Request::Fetch { extent, image, since });
        }
    }

    pub(super) fn fetched(
        &mut self,
        turn: &mut Turn<'_, D>,
        id: u64,
        slot: Slot,
        answer: Answer<D>,
    ) {
        let Some(Work::Copy(copy)) = self.ops.get_mut(id).map(|op| &mut op.work) else { return };
        if copy.source != Some(slot) || copy.left > 0 {
            return;
        }
        let Answer::Pieces(pieces) = answer else {
            copy.bad.insert(slot);
            self.start_fetch(turn, id);
            return;
        };
        let (dests, extent) = (copy.dests, copy.extent);
        let mut sent = 0;
        if !pieces.is_empty() {
            self.touch_copy(turn, extent, dests);
        }
        for dest in dests.iter() {
            let Some(child) = self.children.get_mut(dest) else { continue };
            for piece in pieces.clone() {
                child.send(turn, Purpose::CopyWrite(id), Request::Resync(piece));
                sent += 1;
            }
        }
        if let Some(Work::Copy(copy)) = self.ops.get_mut(id).map(|op| &mut op.work) {
            copy.left = sent;
        }
        if sent == 0 {
            self.end_copy(turn, id, Ok(()));
        }
    }

    /// A copy is a write: unflushed where it goes, and lacked by the absent.
    fn touch_copy(&mut self, turn: &mut Turn<'_, D>, extent: Extent, dests: Slots) {
        let mut is_news = false;
        for region in self.geometry.regions(extent) {
            self.dirty.insert(region);
            self.touched.insert(region);
            for (slot, child) in self.children.iter_mut() {
                if dests.contains(slot) {
                    child.cur.insert(region);
                } else if !self.groups.receivers.contains(slot) {
                    is_news |= child.lacks.insert(region) && child.stand == Stand::Imaging;
                }
            }
        }
        if is_news {
            turn.put(Output::Seen);
        }
    }

    pub(super) fn copy_written(
        &mut self,
        turn: &mut Turn<'_, D>,
        id: u64,
        slot: Slot,
        fault: Option<Fault>,
    ) {
        let Some(Work::Copy(copy)) = self.ops.get_mut(id).map(|op| &mut op.work) else { return };
        if let Some(fault) = fault {
            if let Some(child) = self.children.get_mut(slot)
                && fault == Fault::NoSpace
            {
                child.is_full = true;
                turn.put(Output::Seen);
            }
            // Its writes stay counted until it is dropped.
            self.lose(turn, slot, Why::from(fault));
            return;
        }
        copy.left -= 1;
        if copy.left == 0 {
            self.end_copy(turn, id, Ok(()));
        }
    }

    fn end_copy(&mut self, turn: &mut Turn<'_, D>, id: u64, result: Result<(), Fault>) {
        let Some(op) = self.ops.remove(id) else { return };
        let Work::Copy(copy) = op.work else { return };
        self.lock.release(copy.extent);
        match copy.purpose {
            CopyFor::Resync => {
                if let Some(copying) = &mut self.copying {
                    copying.left -= 1;
                    copying.failed |= result.is_err();
                    copying.dests = copying.dests.and(copy.dests);
                }
            }
            // Whoever could not be written to is lost already.
            CopyFor::Repair => {}
            CopyFor::Undo { fault } => {
                if let Some(asker) = op.asker {
                    reply(turn, asker, HostResult::Failed(fault));
                }
                self.command_over(turn, op.host);
            }
        }
    }

    /// A destination or the source is gone.
    pub(super) fn copy_without(&mut self, turn: &mut Turn<'_, D>, id: u64, slot: Slot) {
        let children = &self.children;
        let Some(Work::Copy(copy)) = self.ops.get_mut(id).map(|op| &mut op.work) else { return };
        let is_writing = copy.left > 0;
        if copy.dests.contains(slot) {
            copy.dests.remove(slot);
            let dests = copy.dests.iter().filter_map(|dest| children.get(dest));
            let sent = dests.flat_map(|child| child.sent.values());
            let left = sent.filter(|sent| sent.purpose == Purpose::CopyWrite(id)).count();
            copy.left = u32::try_from(left).unwrap_or(u32::MAX);
            if is_writing && copy.left == 0 {
                self.end_copy(turn, id, Ok(()));
            }
        }
        self.fetch_elsewhere(turn, slot);
    }

    /// Fetches that were asked of a child that is gone, or of nobody, ask another.
    pub(super) fn fetch_elsewhere(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let is_stuck = |work: &Work<D>| match work {
            Work::Copy(copy) => copy.left == 0 && copy.source.is_none_or(|source| source == slot),
            _ => false,
        };
        let queued = &self.queue;
        let stuck = self.ops.iter().filter(|(id, op)| is_stuck(&op.work) && !queued.contains(id));
        let stuck: alloc::vec::Vec<_> = stuck.map(|(id, _)| id).collect();
        for id in stuck {
            self.start_fetch(turn, id);
        }
    }
}
