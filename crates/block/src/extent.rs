//! A run of blocks, and the coarse regions that dirt is tracked in.

use core::ops::Range;

use serde::{Deserialize, Serialize};

/// Bytes of a block.
pub const BLOCK: usize = 4096;

/// Blocks of a region: 4 MiB. Coarse, so that marking one is rare; fine enough that a resync after
/// a crash under a random workload copies far less than the volume.
pub const REGION: u64 = 1024;

/// `blocks` blocks from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Extent {
    pub start: u64,
    pub blocks: u32,
}

impl Extent {
    #[inline]
    pub const fn new(start: u64, blocks: u32) -> Self {
        Self { start, blocks }
    }

    /// One past the last block.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.blocks as u64)
    }

    #[inline]
    pub const fn bytes(&self) -> u64 {
        self.blocks as u64 * BLOCK as u64
    }

    pub const fn offset(&self) -> u64 {
        self.start.saturating_mul(BLOCK as u64)
    }

    pub const fn range(&self) -> Range<u64> {
        self.start..self.end()
    }

    #[inline]
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}

/// The regions that an extent touches.
pub const fn regions(extent: &Extent) -> Range<u64> {
    if extent.blocks == 0 {
        return 0..0;
    }
    extent.start / REGION..(extent.end() - 1) / REGION + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_touches_every_region_it_lies_in() {
        assert_eq!(regions(&Extent::new(0, 1)), 0..1);
        assert_eq!(regions(&Extent::new(1023, 2)), 0..2);
        assert_eq!(regions(&Extent::new(1024, 1024)), 1..2);
        assert_eq!(regions(&Extent::new(5, 0)), 0..0);
    }

    #[test]
    fn neighbours_do_not_overlap() {
        assert!(!Extent::new(0, 4).overlaps(&Extent::new(4, 4)));
        assert!(Extent::new(0, 5).overlaps(&Extent::new(4, 4)));
    }
}
