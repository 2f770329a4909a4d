//! What is under way, by numbers that rise: found in one step, and listed in the order of asking.
//!
//! ```text
//!   numbers   first ──────────────────────▶ last
//!   places   [  2  |  0  | none |  3  |  1  ]     neither end is none
//!                     │
//!   things   [ ... | ... | ... | ... ]            a place is used again
//! ```
//! Numbers are given one after the other, so a table of them has few holes. One that stays long
//! costs four bytes for each that came after it. Equal contents are equal, wherever they lie.

use alloc::{collections::VecDeque, vec::Vec};
use core::hash::{Hash, Hasher};

#[derive(Clone, Debug)]
pub(crate) struct InFlight<T> {
    /// The lowest number there is; any, if there is none.
    first: u64,
    places: VecDeque<u32>,
    things: Vec<Option<T>>,
    free: Vec<u32>,
}

/// A number that is not under way.
const NONE: u32 = u32::MAX;

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self { first: 0, places: VecDeque::new(), things: Vec::new(), free: Vec::new() }
    }
}

impl<T> InFlight<T> {
    pub(crate) fn len(&self) -> usize {
        self.things.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.things.clear();
        self.free.clear();
    }

    fn at(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    fn place(&self, number: u64) -> Option<usize> {
        let place = self.places.get(self.at(number)?)?;
        (*place != NONE).then_some(*place as usize)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let place = self.place(number)?;
        self.things.get(place)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number)?;
        self.things.get_mut(place)?.as_mut()
    }

    /// The number is not under way, and not far from those that are.
    pub(crate) fn insert(&mut self, number: u64, thing: T) {
        debug_assert!(self.place(number).is_none(), "numbers differ among what is under way");
        let place = if let Some(place) = self.free.pop() {
            self.things[place as usize] = Some(thing);
            place
        } else {
            self.things.push(Some(thing));
            u32::try_from(self.things.len() - 1).expect("far fewer are under way")
        };
        if self.places.is_empty() {
            self.first = number;
        }
        if number == self.first + self.places.len() as u64 {
            self.places.push_back(place);
            return;
        }
        while number < self.first {
            self.places.push_front(NONE);
            self.first -= 1;
        }
        let at = usize::try_from(number - self.first).expect("numbers are near each other");
        while self.places.len() <= at {
            self.places.push_back(NONE);
        }
        self.places[at] = place;
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let at = self.at(number)?;
        let place = core::mem::replace(self.places.get_mut(at)?, NONE);
        if place == NONE {
            return None;
        }
        self.free.push(place);
        // Only an end that it was can be none now.
        if at == 0 {
            while self.places.pop_front_if(|place| *place == NONE).is_some() {
                self.first += 1;
            }
        } else if at + 1 == self.places.len() {
            while self.places.pop_back_if(|place| *place == NONE).is_some() {}
        }
        self.things.get_mut(place as usize)?.take()
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        let gone: Vec<_> =
            self.iter().filter(|(_, thing)| !is_kept(thing)).map(|(number, _)| number).collect();
        for number in gone {
            self.remove(number);
        }
    }

    /// In the order of their numbers, as all that follow.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        // The place that is none lies past all things.
        let numbered = (self.first..).zip(&self.places);
        numbered.filter_map(|(number, place)| {
            Some((number, self.things.get(*place as usize)?.as_ref()?))
        })
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.iter().map(|(number, _)| number).collect()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, thing)| thing)
    }

    /// Changes each of them.
    pub(crate) fn each(&mut self, mut change: impl FnMut(u64, &mut T)) {
        for (number, place) in (self.first..).zip(&self.places) {
            if let Some(Some(thing)) = self.things.get_mut(*place as usize) {
                change(number, thing);
            }
        }
    }
}

impl<T: PartialEq> PartialEq for InFlight<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<T: Eq> Eq for InFlight<T> {}

impl<T: Hash> Hash for InFlight<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|entry| entry.hash(state));
    }
}

#[cfg(test)]
mod tests {
    use alloc::{collections::BTreeMap, vec};

    use super::*;

    #[test]
    fn equal_contents_are_equal_whatever_their_past() {
        let mut a = InFlight::default();
        let mut b = InFlight::default();
        for number in 0..5 {
            a.insert(number, number);
        }
        for number in [1, 0, 4, 2] {
            assert_eq!(a.remove(number), Some(number));
        }
        b.insert(3, 3);
        assert_eq!(a, b);
        a.insert(1, 1);
        b.insert(1, 1);
        assert_eq!((&a, a.numbers()), (&b, vec![1, 3]));
        b.insert(2, 2);
        assert_ne!(a, b);
    }

    /// The same as a map would answer, over a fixed row of insertions and removals.
    #[test]
    fn it_answers_as_a_map_does() {
        let (mut ours, mut theirs) = (InFlight::default(), BTreeMap::new());
        let (mut random, mut next) = (1_u64, 0_u64);
        for _ in 0..10_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = random >> 33;
            if theirs.is_empty() {
                next = draw % 3;
            }
            let known = theirs.keys().nth(usize::try_from(draw % 8).unwrap_or(0)).copied();
            if draw.is_multiple_of(2) && theirs.len() < 16 {
                ours.insert(next, draw);
                theirs.insert(next, draw);
                next += 1;
            } else {
                let number = known.unwrap_or(next);
                assert_eq!(ours.get(number), theirs.get(&number));
                assert_eq!(ours.remove(number), theirs.remove(&number));
                assert!(ours.get(number).is_none() && ours.get_mut(number).is_none());
            }
            assert_eq!(ours.len(), theirs.len());
            assert!(ours.iter().eq(theirs.iter().map(|(number, thing)| (*number, thing))));
        }
        ours.retain(|thing| thing % 3 == 0);
        theirs.retain(|_, thing| *thing % 3 == 0);
        assert!(ours.values().eq(theirs.values()));
    }
}
