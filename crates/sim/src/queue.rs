//! What will happen, ordered by time and then by the order in which it was decided.

use std::{cmp::Reverse, collections::BinaryHeap};

use model::Time;

#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Reverse<Item<T>>>,
    sequence: u64,
}

#[derive(Debug)]
struct Item<T> {
    at: Time,
    sequence: u64,
    what: T,
}

impl<T> PartialEq for Item<T> {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}

impl<T> Eq for Item<T> {}

impl<T> PartialOrd for Item<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Item<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), sequence: 0 }
    }
}

impl<T> Queue<T> {
    pub fn push(&mut self, at: Time, what: T) {
        self.sequence += 1;
        self.heap.push(Reverse(Item { at, sequence: self.sequence, what }));
    }

    pub fn pop(&mut self) -> Option<(Time, T)> {
        self.heap.pop().map(|Reverse(item)| (item.at, item.what))
    }

    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(item)| item.at)
    }

    /// Takes away what must not happen any more.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.heap.retain(|Reverse(item)| keep(&item.what));
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut queue = Queue::default();
        for (at, what) in [(2, "c"), (1, "a"), (2, "d"), (1, "b")] {
            queue.push(Time(at), what);
        }
        let popped: String = std::iter::from_fn(|| queue.pop()).map(|(_, what)| what).collect();
        assert_eq!(popped, "abcd");
    }
}
