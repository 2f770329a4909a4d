//! Where the parts of a pool lie on its device, in blocks.
//!
//! ```text
//! SB0 SB1 | journal ring | catalog A | catalog B | cluster table, two slots a page | clusters …
//!   … | SB0' SB1'
//! ```

/// Pages of a cluster: 256 KiB of 4 KiB pages, so that which pages hold data is one word.
pub const CLUSTER: u64 = 64;

/// Clusters described by one page of the table: what 4032 bytes hold, 32 each.
pub(crate) const ENTRIES: u64 = 126;

/// Superblocks at each end.
pub(crate) const SUPERBLOCKS: u64 = 2;

/// Clusters are counted in 32 bits, and one value means none: a pool has up to 1 PiB.
const MOST_CLUSTERS: u64 = u32::MAX as u64 - 1;

/// A run of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    pub start: u64,
    pub blocks: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// Of the whole device.
    pub blocks: u64,
    pub journal: Area,
    /// Two, written in turn.
    pub catalogs: [Area; 2],
    /// Twice as many blocks as pages.
    pub table: Area,
    pub data: u64,
    pub clusters: u64,
}

/// How large the parts are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub journal: u64,
    /// Of each of the two.
    pub catalog: u64,
    /// The size up to which the pool may grow, in blocks.
    pub room_for: u64,
}

impl Sizes {
    /// For a device of `blocks` blocks. The journal has 1 to 64 MiB: enough that checkpoints are
    /// rare, little enough to be read in an instant. The table has room for four times the size,
    /// at a cost of a thousandth of it.
    pub fn usual(blocks: u64) -> Self {
        Self {
            journal: (blocks / 64).clamp(256, 16_384),
            catalog: (blocks / 512).clamp(64, 16_384),
            room_for: blocks.saturating_mul(4),
        }
    }
}

impl Geometry {
    /// `None` if not even one cluster fits.
    pub fn new(blocks: u64, sizes: &Sizes) -> Option<Self> {
        let room_for = sizes.room_for.max(blocks) / CLUSTER;
        let pages = room_for.min(MOST_CLUSTERS).div_ceil(ENTRIES);
        let journal = Area { start: SUPERBLOCKS, blocks: sizes.journal };
        let first = Area { start: end(journal)?, blocks: sizes.catalog };
        let second = Area { start: end(first)?, blocks: sizes.catalog };
        let table = Area { start: end(second)?, blocks: pages.checked_mul(2)? };
        let data = end(table)?.checked_next_multiple_of(CLUSTER)?;
        let unsized_yet =
            Self { blocks, journal, catalogs: [first, second], table, data, clusters: 0 };
        let geometry = unsized_yet.sized(blocks)?;
        (geometry.is_sound() && geometry.clusters > 0).then_some(geometry)
    }

    /// The same on a device of another size; `None` if the table has no room for it.
    pub fn sized(&self, blocks: u64) -> Option<Self> {
        let clusters = blocks.checked_sub(self.data + SUPERBLOCKS)? / CLUSTER;
        let fits = clusters <= self.table.blocks / 2 * ENTRIES && clusters <= MOST_CLUSTERS;
        fits.then_some(Self { blocks, clusters, ..*self })
    }

    /// Whether the parts lie one after the other and within the device: what a superblock says is
    /// not believed before.
    pub fn is_sound(&self) -> bool {
        let Self { blocks, journal, catalogs: [first, second], table, data, clusters } = *self;
        let ends = (end(journal), end(first), end(second), end(table));
        let (Some(a), Some(b), Some(c), Some(d)) = ends else { return false };
        let in_order = SUPERBLOCKS <= journal.start
            && a <= first.start
            && b <= second.start
            && c <= table.start
            && d <= data;
        let data_end = clusters.checked_mul(CLUSTER).and_then(|len| len.checked_add(data));
        in_order
            && journal.blocks >= 16
            && first.blocks >= 1
            && first.blocks == second.blocks
            && clusters <= MOST_CLUSTERS
            && clusters <= table.blocks / 2 * ENTRIES
            && data_end
                .and_then(|end| end.checked_add(SUPERBLOCKS))
                .is_some_and(|end| end <= blocks)
    }

    /// Where the copies of the superblocks lie, two at each end.
    pub(crate) fn superblocks(blocks: u64) -> [u64; 4] {
        [0, 1, blocks.saturating_sub(2), blocks.saturating_sub(1)]
    }

    pub(crate) fn page(&self, cluster: u32, page: u8) -> u64 {
        self.data + u64::from(cluster) * CLUSTER + u64::from(page)
    }

    pub(crate) fn table_slot(&self, page: u64, slot: u8) -> u64 {
        self.table.start + page * 2 + u64::from(slot)
    }

    /// Pages of the table that the clusters need.
    pub(crate) fn table_pages(&self) -> u64 {
        self.clusters.div_ceil(ENTRIES)
    }
}

fn end(area: Area) -> Option<u64> {
    area.start.checked_add(area.blocks)
}
