//! Bytes of a request, and the blocks that they lie in.

use std::ops::Range;

use block::{BLOCK, Extent};

/// At least one byte, within a disk whose blocks can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub offset: u64,
    pub len: u32,
}

const SIZE: u64 = BLOCK as u64;

impl Span {
    const fn end(&self) -> u64 {
        self.offset.saturating_add(self.len as u64)
    }

    /// Every block that it touches.
    pub fn covering(&self) -> Extent {
        let start = self.offset / SIZE;
        let blocks = self.end().div_ceil(SIZE) - start;
        Extent::new(start, u32::try_from(blocks).unwrap_or(u32::MAX))
    }

    pub fn covering_bytes(&self) -> usize {
        usize::try_from(self.covering().bytes()).unwrap_or(usize::MAX)
    }

    /// Every block that it has as a whole; perhaps none.
    pub fn whole(&self) -> Extent {
        let start = self.offset.div_ceil(SIZE);
        let blocks = (self.end() / SIZE).saturating_sub(start);
        Extent::new(start, u32::try_from(blocks).unwrap_or(u32::MAX))
    }

    /// Blocks that it has only a part of.
    pub fn edges(&self) -> impl Iterator<Item = u64> + use<> {
        let (covering, span) = (self.covering(), *self);
        let last = covering.end() - 1;
        let ends = [Some(covering.start), (last != covering.start).then_some(last)];
        ends.into_iter().flatten().filter(move |block| !span.has_whole(*block))
    }

    fn has_whole(&self, block: u64) -> bool {
        self.whole().range().contains(&block)
    }

    /// Bytes of the first block that come before it.
    pub fn head(&self) -> usize {
        usize::try_from(self.offset % SIZE).unwrap_or(0)
    }

    /// Bytes of a block that it touches and that it leaves as they are: before it and behind it.
    pub fn outside(&self, block: u64) -> [Range<usize>; 2] {
        let at = |byte: u64| {
            let within = byte.saturating_sub(block.saturating_mul(SIZE)).min(SIZE);
            usize::try_from(within).unwrap_or(BLOCK)
        };
        [0..at(self.offset), at(self.end())..BLOCK]
    }
}
