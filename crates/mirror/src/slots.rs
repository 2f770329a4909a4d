//! Which children: a small set, cheap to copy.

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
        (0..SLOTS_MAX).map(Slot).filter(move |slot| self.contains(*slot))
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
