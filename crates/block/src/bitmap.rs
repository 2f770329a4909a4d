//! A set of small numbers, for regions: equal sets are equal and hash alike.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct Bitmap {
    /// Never ends in a zero word, so that equal sets have equal words.
    words: Vec<u64>,
}

impl Bitmap {
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Every number below `count`.
    pub fn full(count: u64) -> Self {
        (0..count).collect()
    }

    /// True if it was not in it.
    #[inline]
    pub fn insert(&mut self, bit: u64) -> bool {
        let (word, mask) = place(bit);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & mask == 0;
        self.words[word] |= mask;
        is_new
    }

    /// True if it was in it.
    pub fn remove(&mut self, bit: u64) -> bool {
        let (word, mask) = place(bit);
        let Some(bits) = self.words.get_mut(word) else { return false };
        let was_in = *bits & mask != 0;
        *bits &= !mask;
        self.trim();
        was_in
    }

    #[inline]
    pub fn contains(&self, bit: u64) -> bool {
        let (word, mask) = place(bit);
        self.words.get(word).is_some_and(|bits| bits & mask != 0)
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    pub fn first(&self) -> Option<u64> {
        self.iter().next()
    }

    /// In rising order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0u64..).zip(&self.words).flat_map(|(index, word)| {
            let mut rest = *word;
            core::iter::from_fn(move || {
                let bit = (rest != 0).then(|| u64::from(rest.trailing_zeros()))?;
                rest &= rest - 1;
                Some(index * 64 + bit)
            })
        })
    }

    /// Adds everything in `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// Takes away everything in `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= !theirs;
        }
        self.trim();
    }

    /// As words of 64 numbers each, lowest first, for storing.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    pub fn from_words(words: Vec<u64>) -> Self {
        let mut bitmap = Self { words };
        bitmap.trim();
        bitmap
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl From<Vec<u64>> for Bitmap {
    fn from(words: Vec<u64>) -> Self {
        Self::from_words(words)
    }
}

impl From<Bitmap> for Vec<u64> {
    fn from(bitmap: Bitmap) -> Self {
        bitmap.words
    }
}

impl Extend<u64> for Bitmap {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, bits: I) {
        for bit in bits {
            self.insert(bit);
        }
    }
}

impl FromIterator<u64> for Bitmap {
    fn from_iter<I: IntoIterator<Item = u64>>(bits: I) -> Self {
        let mut bitmap = Self::new();
        bitmap.extend(bits);
        bitmap
    }
}

fn place(bit: u64) -> (usize, u64) {
    let word = usize::try_from(bit / 64).expect("a word's index fits the machine");
    (word, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn equal_sets_are_equal_whatever_their_past() {
        let mut a: Bitmap = [1, 70, 500].into_iter().collect();
        assert_eq!(a.iter().collect::<Vec<_>>(), vec![1, 70, 500]);
        assert!(a.remove(500) && !a.remove(500));
        assert_eq!(a, [70, 1].into_iter().collect());
        assert_eq!(a.count(), 2);
    }

    #[test]
    fn merging_and_subtracting_are_those_of_sets() {
        let mut a: Bitmap = [1, 2].into_iter().collect();
        let b: Bitmap = [2, 300].into_iter().collect();
        a.merge(&b);
        assert_eq!(a, [1, 2, 300].into_iter().collect());
        a.subtract(&b);
        assert_eq!(a, [1].into_iter().collect());
        assert_eq!(Bitmap::full(130).count(), 130);
    }
}
