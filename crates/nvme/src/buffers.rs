//! Buffers that are used again once whoever they were given to is done with them.
//!
//! Memory that starts at a block's boundary is dear to get and to give back, and every payload
//! needs some. A buffer from here may hold old bytes: it is shown to nobody before it is filled.

use alloc::collections::{BTreeMap, VecDeque};

use block::Buffer;

#[derive(Debug)]
pub(crate) struct Buffers {
    /// By length, the oldest first: a second hold on each that was handed out.
    lent: BTreeMap<usize, VecDeque<Buffer>>,
    bytes: usize,
    most: usize,
    is_used: bool,
}

/// How many buffers that are still in use are passed over before a new one is made.
const TRIES: usize = 2;

impl Buffers {
    /// Keeps hold of at most so many bytes.
    pub(crate) const fn new(most: usize) -> Self {
        Self { lent: BTreeMap::new(), bytes: 0, most, is_used: false }
    }

    /// One to be filled, which nobody else holds.
    pub(crate) fn take(&mut self, len: usize) -> Buffer {
        self.is_used = true;
        if let Some(lent) = self.lent.get_mut(&len) {
            for _ in 0..TRIES {
                let Some(mut oldest) = lent.pop_front() else { break };
                if oldest.get_mut().is_some() {
                    self.bytes -= len;
                    return oldest;
                }
                lent.push_back(oldest);
            }
        }
        Buffer::zeroed(len)
    }

    /// It is filled and given away.
    pub(crate) fn lend(&mut self, buffer: &Buffer) {
        if self.bytes + buffer.len() > self.most {
            // Sizes have changed, or what was lent is kept for long: nothing of it is of use.
            self.clear();
        }
        self.bytes += buffer.len();
        self.lent.entry(buffer.len()).or_default().push_back(buffer.clone());
    }

    /// Time has passed: what was not needed since the last time is let go.
    pub(crate) fn rest(&mut self) {
        if !core::mem::take(&mut self.is_used) {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.lent.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_only_when_nobody_else_holds_it() {
        let mut buffers = Buffers::new(1 << 20);
        let mut first = buffers.take(4096);
        first.get_mut().unwrap().fill(7);
        buffers.lend(&first);
        assert!(buffers.take(4096).is_zero(), "a new one, for the first is in use");
        drop(first);
        assert!(!buffers.take(4096).is_zero(), "the first again");
        assert!(buffers.take(4096).is_zero());
    }

    #[test]
    fn no_more_is_held_than_said_and_nothing_when_idle() {
        let mut buffers = Buffers::new(8192);
        for _ in 0..5 {
            let buffer = buffers.take(4096);
            buffers.lend(&buffer);
            assert!(buffers.bytes <= 8192);
        }
        buffers.rest();
        buffers.rest();
        assert_eq!((buffers.bytes, buffers.lent.len()), (0, 0));
    }
}
