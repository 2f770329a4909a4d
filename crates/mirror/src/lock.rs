//! The interval lock: what is being changed is changed by one operation at a time.

use alloc::{collections::BTreeMap, vec::Vec};

use block::Extent;

/// Held extents never overlap, so ordering them by start orders them by end too.
///
/// A host has few commands under way, and a short list is searched and changed in a fraction of
/// what a map takes. One discard may be a million: those past the list are in a map. Equal contents
/// are equal as long as all of them were in the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    /// The start and one past the end of each, in order.
    few: Vec<(u64, u64)>,
    /// By start: one past the end.
    rest: BTreeMap<u64, u64>,
}

const FEW: usize = 64;

impl Lock {
    /// Where it would lie among the few, if nobody holds any of it.
    fn free_place(&self, extent: Extent) -> Option<usize> {
        let place = self.few.partition_point(|(start, _)| *start < extent.end());
        let mut last_end = place.checked_sub(1).map_or(0, |before| self.few[before].1);
        if !self.rest.is_empty() {
            let before = self.rest.range(..extent.end()).next_back();
            last_end = last_end.max(before.map_or(0, |(_, end)| *end));
        }
        (last_end <= extent.start).then_some(place)
    }

    /// True if nobody else held any of it.
    pub(crate) fn take(&mut self, extent: Extent) -> bool {
        let Some(place) = self.free_place(extent) else { return false };
        if self.few.len() < FEW {
            self.few.insert(place, (extent.start, extent.end()));
        } else {
            self.rest.insert(extent.start, extent.end());
        }
        true
    }

    pub(crate) fn release(&mut self, extent: Extent) {
        match self.few.binary_search_by_key(&extent.start, |(start, _)| *start) {
            Ok(place) => drop(self.few.remove(place)),
            Err(_) => drop(self.rest.remove(&extent.start)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.rest.is_empty()
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

    #[test]
    fn many_extents_are_held_like_few() {
        let mut lock = Lock::default();
        let at = |number: u64| Extent::new(number * 4, 3);
        assert!((0..10 * FEW as u64).all(|number| lock.take(at(number))));
        for number in 0..10 * FEW as u64 {
            assert!(!lock.take(at(number)) && !lock.take(Extent::new(number * 4 + 2, 1)));
            assert!(lock.free_place(Extent::new(number * 4 + 3, 1)).is_some());
            lock.release(at(number));
            assert!(lock.take(at(number)));
            lock.release(at(number));
        }
        assert!(lock.is_empty());
    }
}
