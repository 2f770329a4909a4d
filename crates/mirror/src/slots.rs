//! Which children: a small set, cheap to copy; and what there is of each.

use alloc::vec::Vec;

/// A child's number inside its target. Given again when a child has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub u8);

/// More children than a layout can have (see `model::limits`).
pub(crate) const SLOTS_MAX: u8 = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Slots(u32);

impl Slots {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn of(slot: Slot) -> Self {
        Self(1 << slot.0)
    }

    pub(crate) fn insert(&mut self, slot: Slot) {
        self.0 |= 1 << slot.0;
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        self.0 &= !(1 << slot.0);
    }

    pub(crate) const fn contains(self, slot: Slot) -> bool {
        self.0 & (1 << slot.0) != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[must_use]
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Slot> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let lowest = u8::try_from(rest.trailing_zeros()).ok().filter(|at| *at < SLOTS_MAX)?;
            rest &= rest - 1;
            Some(Slot(lowest))
        })
    }

    pub(crate) const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

impl FromIterator<Slot> for Slots {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut all = Self::NONE;
        slots.into_iter().for_each(|slot| all.insert(slot));
        all
    }
}

/// One thing for each of some children, found in one step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotMap<T> {
    /// By slot. Never ends in an empty place, so that equal maps are equal.
    places: Vec<Option<T>>,
}

impl<T> Default for SlotMap<T> {
    fn default() -> Self {
        Self { places: Vec::new() }
    }
}

impl<T> SlotMap<T> {
    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.places.get(usize::from(slot.0))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.places.get_mut(usize::from(slot.0))?.as_mut()
    }

    pub(crate) fn get_or_insert_with(&mut self, slot: Slot, new: impl FnOnce() -> T) -> &mut T {
        let at = usize::from(slot.0);
        if at >= self.places.len() {
            self.places.resize_with(at + 1, || None);
        }
        self.places[at].get_or_insert_with(new)
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let removed = self.places.get_mut(usize::from(slot.0))?.take();
        while self.places.pop_if(|last| last.is_none()).is_some() {}
        removed
    }

    /// In rising order, as all that follow.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        let all = (0..SLOTS_MAX).map(Slot).zip(&self.places);
        all.filter_map(|(slot, thing)| Some((slot, thing.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut T)> {
        let all = (0..SLOTS_MAX).map(Slot).zip(&mut self.places);
        all.filter_map(|(slot, thing)| Some((slot, thing.as_mut()?)))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.places.iter().flatten()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().flatten()
    }
}
