//! The interval lock: what is being changed is changed by one operation at a time.

use alloc::collections::BTreeMap;

use block::Extent;

/// Held extents never overlap, so ordering them by start orders them by end too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    /// By start: one past the end.
    held: BTreeMap<u64, u64>,
}

impl Lock {
    pub(crate) fn is_free(&self, extent: Extent) -> bool {
        let before = self.held.range(..extent.end()).next_back();
        before.is_none_or(|(_, end)| *end <= extent.start)
    }

    /// True if nobody else held any of it.
    pub(crate) fn take(&mut self, extent: Extent) -> bool {
        let is_free = self.is_free(extent);
        if is_free {
            self.held.insert(extent.start, extent.end());
        }
        is_free
    }

    pub(crate) fn release(&mut self, extent: Extent) {
        self.held.remove(&extent.start);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_extents_wait_and_neighbours_do_not() {
        let mut lock = Lock::default();
        assert!(lock.take(Extent::new(10, 10)));
        for (start, blocks) in [(0, 11), (10, 1), (19, 5), (12, 2), (0, 100)] {
            assert!(!lock.take(Extent::new(start, blocks)), "{start}+{blocks}");
        }
        assert!(lock.take(Extent::new(20, 5)) && lock.take(Extent::new(0, 10)));
        lock.release(Extent::new(10, 10));
        assert!(lock.take(Extent::new(15, 5)));
        assert!(!lock.take(Extent::new(10, 6)));
    }
}
