//! Buffers that are used again once whoever they were given to is done with them.
//!
//! Memory that starts at a block's boundary is dear to get and to give back, and every payload
//! needs some. A buffer from here may hold old bytes: it is shown to nobody before it is filled.

use alloc::{collections::VecDeque, vec::Vec};

use crate::{BLOCK, Buffer};

#[derive(Debug)]
pub struct Buffers {
    /// By length in blocks, the oldest first: a second hold on each that was handed out.
    lent: Vec<VecDeque<Buffer>>,
    bytes: usize,
    most: usize,
    is_used: bool,
}

/// How many buffers that are still in use are passed over before a new one is made.
const TRIES: usize = 2;

impl Buffers {
    /// Keeps hold of at most so many bytes, and of no buffer larger than that.
    pub const fn new(most: usize) -> Self {
        Self { lent: Vec::new(), bytes: 0, most, is_used: false }
    }

    /// One to be filled, which nobody else holds.
    #[inline]
    pub fn take(&mut self, len: usize) -> Buffer {
        self.is_used = true;
        if let Some(lent) = self.lent.get_mut(blocks(len)) {
            for _ in 0..TRIES {
                let Some(mut oldest) = lent.pop_front() else { break };
                if oldest.resize(len) {
                    self.bytes -= blocks(len) * BLOCK;
                    return oldest;
                }
                lent.push_back(oldest);
            }
        }
        Buffer::zeroed(len)
    }

    /// It is filled and given away.
    #[inline]
    pub fn lend(&mut self, buffer: &Buffer) {
        let count = blocks(buffer.len());
        if count * BLOCK > self.most || !buffer.is_whole() {
            return;
        }
        if self.bytes + count * BLOCK > self.most {
            // Sizes have changed, or what was lent is kept for long: nothing of it is of use.
            self.clear();
        }
        if self.lent.len() <= count {
            self.lent.resize_with(count + 1, VecDeque::new);
        }
        self.bytes += count * BLOCK;
        self.lent[count].push_back(buffer.clone());
    }

    /// Time has passed: what was not needed since the last time is let go.
    pub fn rest(&mut self) {
        if !core::mem::take(&mut self.is_used) {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.lent.clear();
        self.bytes = 0;
    }
}

/// A clone holds nothing: what is held twice is never used again.
impl Clone for Buffers {
    fn clone(&self) -> Self {
        Self::new(self.most)
    }
}

const fn blocks(len: usize) -> usize {
    len.div_ceil(BLOCK)
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
    fn a_buffer_comes_back_with_the_length_that_is_asked_for() {
        let mut buffers = Buffers::new(1 << 20);
        buffers.lend(&Buffer::copy_of(&[7; 5000]));
        let again = buffers.take(8192);
        assert_eq!((again.len(), again.bytes()[0]), (8192, 7));
        buffers.lend(&again);
        drop(again);
        assert_eq!(buffers.take(4097).len(), 4097);
        assert_eq!(buffers.bytes, 0);
    }

    #[test]
    fn no_more_is_held_than_said_and_nothing_when_idle() {
        let mut buffers = Buffers::new(8192);
        for _ in 0..5 {
            let buffer = buffers.take(4096);
            buffers.lend(&buffer);
            assert!(buffers.bytes <= 8192);
        }
        buffers.lend(&Buffer::zeroed(3 * 4096));
        assert!(buffers.bytes <= 8192);
        buffers.rest();
        buffers.rest();
        assert_eq!((buffers.bytes, buffers.lent.len()), (0, 0));
    }
}
