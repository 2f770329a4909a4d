//! Snapshots that a returning child lacks are brought to it, oldest first, before its live blocks.
//!
//! ```text
//!            ┌──────────── the next one ◀───────────┐
//!            ▼                                      │
//! Listing ─────▶ Copying ─▶ Listing ─▶ (Aborting) ─▶ Freezing
//!    │
//!    └─▶ it lacks none: it gets writes from now on
//! ```
//! Its blocks become those of the snapshot and are frozen there. Meanwhile it gets no writes: it
//! lacks them. A list is made before each step, because a snapshot may be deleted at any time.

use alloc::vec::Vec;

use block::Bitmap;
use model::AttemptId;

use super::{
    Target, Turn,
    child::{Purpose, Stand},
    seen::Notice,
};
use crate::{
    Answer, Fault, Frozen, Request,
    slots::{Slot, Slots},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Imaging {
    stage: Stage,
    /// The one that is being brought, and the regions of it that are still to be copied.
    pub(super) image: Option<Frozen>,
    pub(super) left: Bitmap,
    late: Late,
}

/// Whether the child got writes since the images were taken that it lacks: then it may differ from
/// them anywhere, and not only in what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Late {
    No,
    /// For all but the one that was taken just now. An older one counts from one moment to the next
    /// when a replica that did not have it is lost.
    ForAllBut(AttemptId),
    Yes,
}

impl Late {
    fn is_for(self, image: &Frozen) -> bool {
        match self {
            Self::No => false,
            Self::ForAllBut(attempt) => image.attempt != attempt,
            Self::Yes => true,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Those who count are asked what they have.
    Listing {
        waiting: Slots,
    },
    Copying,
    /// It holds another try of the snapshot: that one goes first.
    Aborting,
    Freezing,
}

impl Imaging {
    pub(super) fn is_copying(&self) -> bool {
        self.stage == Stage::Copying
    }
}

impl<D: Clone> Target<D> {
    pub(super) fn frozen_on(&self, slot: Slot) -> &[Frozen] {
        let state = self.children.get(slot).and_then(|child| child.state.as_ref());
        state.map_or(&[], |state| &state.snapshots)
    }

    /// Whether anybody who counts has a snapshot.
    pub(super) fn has_snapshots(&self) -> bool {
        self.groups.counting.iter().any(|slot| !self.frozen_on(slot).is_empty())
    }

    /// The oldest snapshot that everybody who counts has and this child does not. What is older
    /// than one that it has was deleted there, and will be elsewhere.
    pub(super) fn lacking(&self, slot: Slot) -> Option<Frozen> {
        let counting = self.groups.counting.without(self.lost);
        let holds = |slot: Slot, image: &Frozen| {
            self.frozen_on(slot).iter().any(|held| held.is_same(image))
        };
        let first = counting.iter().next()?;
        let is_whole = |image: &&Frozen| counting.iter().all(|slot| holds(slot, image));
        let whole: Vec<&Frozen> = self.frozen_on(first).iter().filter(is_whole).collect();
        let newest = whole.iter().rposition(|image| holds(slot, image));
        whole.get(newest.map_or(0, |at| at + 1)).map(|image| (*image).clone())
    }

    pub(super) fn begin_images(&mut self, turn: &mut Turn<'_, D>, slot: Slot, late: Late) {
        if let Some(child) = self.children.get_mut(slot) {
            child.stand = Stand::Imaging;
            let (stage, image, left) = (Stage::Copying, None, Bitmap::new());
            child.imaging = Some(Imaging { stage, image, left, late });
        }
        self.regroup();
        turn.put(super::Output::Seen);
        self.list_images(turn, slot);
    }

    /// A snapshot was taken, and everything is drained: what is being copied to lacks it, and has
    /// in all other regions what the snapshot has.
    pub(super) fn image_guests(&mut self, turn: &mut Turn<'_, D>, attempt: AttemptId) {
        for slot in self.slots_where(|child| child.stand == Stand::Rebuilding) {
            self.end_copies_to(turn, slot);
            self.begin_images(turn, slot, Late::ForAllBut(attempt));
        }
    }

    fn list_images(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let waiting = self.groups.counting.without(self.lost);
        for other in waiting.iter() {
            if let Some(child) = self.children.get_mut(other) {
                child.send(turn, Purpose::Images, Request::Images);
            }
        }
        self.set_stage(slot, Stage::Listing { waiting });
    }

    fn set_stage(&mut self, slot: Slot, stage: Stage) {
        if let Some(imaging) = self.children.get_mut(slot).and_then(|c| c.imaging.as_mut()) {
            imaging.stage = stage;
        }
    }

    pub(super) fn images_listed(&mut self, turn: &mut Turn<'_, D>, slot: Slot, answer: Answer<D>) {
        if let Answer::Images(list) = answer
            && let Some(state) = self.children.get_mut(slot).and_then(|c| c.state.as_mut())
        {
            state.snapshots = list;
        }
        self.list_without(turn, slot);
    }

    /// It has said what it has, or is gone.
    pub(super) fn list_without(&mut self, turn: &mut Turn<'_, D>, gone: Slot) {
        let mut listed = Vec::new();
        for (slot, child) in self.children.iter_mut() {
            let Some(imaging) = &mut child.imaging else { continue };
            if let Stage::Listing { waiting } = &mut imaging.stage
                && waiting.contains(gone)
            {
                waiting.remove(gone);
                if waiting.is_empty() {
                    listed.push(slot);
                }
            }
        }
        for slot in listed {
            self.bring(turn, slot);
        }
    }

    fn bring(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let Some(image) = self.lacking(slot) else {
            self.begin_rebuild(turn, slot);
            return;
        };
        let all = Bitmap::full(self.geometry.count(self.blocks()));
        let Some(child) = self.children.get_mut(slot) else { return };
        let Some(imaging) = &mut child.imaging else { return };
        if !imaging.image.as_ref().is_some_and(|known| known.is_same(&image)) {
            if image.roster <= child.base || imaging.late.is_for(&image) {
                // It was a member when this was taken, or got writes since.
                (child.lacks, child.since) = (all, None);
                turn.put(super::Output::Seen);
            }
            imaging.late = Late::No;
            // Another try of it: what it was brought is not what the others have.
            child.since = child.since.filter(|since| *since != image.snapshot);
            imaging.left = child.lacks.clone();
            imaging.image = Some(image.clone());
        }
        imaging.stage = Stage::Copying;
        if imaging.left.is_empty() {
            self.freeze_image(turn, slot, image);
        }
    }

    fn freeze_image(&mut self, turn: &mut Turn<'_, D>, slot: Slot, image: Frozen) {
        let held = self.frozen_on(slot).iter().find(|held| held.snapshot == image.snapshot);
        let other = held.map(|held| held.attempt);
        let Some(child) = self.children.get_mut(slot) else { return };
        let snapshot = image.snapshot;
        if let Some(attempt) = other {
            child.send(turn, Purpose::SnapAbort, Request::SnapAbort { snapshot, attempt });
            self.set_stage(slot, Stage::Aborting);
        } else {
            child.send(turn, Purpose::Image, Request::Snapshot(image));
            self.set_stage(slot, Stage::Freezing);
        }
    }

    /// The other try is gone from it.
    pub(super) fn image_aborted(
        &mut self,
        turn: &mut Turn<'_, D>,
        slot: Slot,
        fault: Option<Fault>,
    ) {
        let Some(child) = self.children.get_mut(slot) else { return };
        let Some(imaging) = child.imaging.as_ref() else { return };
        let Some(image) = imaging.image.clone().filter(|_| imaging.stage == Stage::Aborting) else {
            return;
        };
        if fault.is_some() {
            self.give_up(turn, slot);
            return;
        }
        if let Some(state) = &mut child.state {
            state.snapshots.retain(|held| held.snapshot != image.snapshot);
        }
        self.freeze_image(turn, slot, image);
    }

    /// It counts now, when the child says so, and not when it was sent.
    pub(super) fn image_frozen(
        &mut self,
        turn: &mut Turn<'_, D>,
        slot: Slot,
        fault: Option<Fault>,
    ) {
        let Some(child) = self.children.get_mut(slot) else { return };
        let Some(image) = child.imaging.as_mut().and_then(|imaging| imaging.image.take()) else {
            return;
        };
        if let Some(fault) = fault {
            child.is_full |= fault == Fault::NoSpace;
            self.give_up(turn, slot);
            return;
        }
        let (replica, snapshot) = (child.id, image.snapshot);
        child.since = Some(snapshot);
        if let Some(state) = &mut child.state {
            state.snapshots.push(image);
        }
        turn.tell(Notice::SnapshotBrought { replica, snapshot });
        self.list_images(turn, slot);
    }

    /// A region of an image was copied, or could not be.
    pub(super) fn image_copied(
        &mut self,
        turn: &mut Turn<'_, D>,
        slot: Slot,
        region: u64,
        result: Result<(), Fault>,
    ) {
        let child = self.children.get_mut(slot);
        let Some(imaging) = child.and_then(|child| child.imaging.as_mut()) else { return };
        if result.is_ok() {
            imaging.left.remove(region);
        }
        // If nobody could read it, it may have been deleted.
        if imaging.left.is_empty() || result.is_err() {
            self.list_images(turn, slot);
        }
    }
}
