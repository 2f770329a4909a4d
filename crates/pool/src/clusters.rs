//! The clusters in memory: who owns them, which are free, and which wait until it is durable that
//! nobody owns them.
//!
//! ```text
//!            take                      free                   durable, no I/O on it, discarded
//!   free ──────────▶ owned ───────────────────▶ quarantined ──────────────────────────▶ free
//! ```

use alloc::{collections::VecDeque, vec, vec::Vec};

use block::Bitmap;

use crate::{
    Flaw, Flaws,
    codec::index,
    geometry::ENTRIES,
    record::{Cluster, LayerId},
    table::Entry,
};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    pub entry: Entry,
    /// Reads and writes of its pages that the disk has not answered.
    pub in_flight: u32,
    pub state: CellState,
    /// Some pages are not known to be durable: see `Pending`.
    pub is_pending: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CellState {
    #[default]
    Free,
    Owned,
    Quarantined,
    /// Out of quarantine but for I/O that is still under way.
    Leaving,
    Discarding,
}

/// Which slot of a page of the table is the newer one, and how new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageAt {
    pub lsn: u64,
    pub slot: u8,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Clusters {
    cells: Vec<Cell>,
    /// The next one to take is the last.
    free: Vec<Cluster>,
    /// In the order of the batches that free them.
    quarantine: VecDeque<(u64, Cluster)>,
    quarantined: u64,
    /// Ready to be discarded.
    pub discards: Vec<Cluster>,
    /// Pages of the table that are newer here than on the disk.
    pub dirty: Bitmap,
    pub pages: Vec<PageAt>,
    discards_on: bool,
    flaws: Flaws,
}

impl Clusters {
    /// Every entry whose layer is not there is free.
    pub fn new(
        entries: Vec<Entry>,
        pages: Vec<PageAt>,
        is_owner: impl Fn(LayerId) -> bool,
        discards_on: bool,
        flaws: Flaws,
    ) -> Self {
        let cells: Vec<_> = entries
            .into_iter()
            .map(|entry| {
                if entry.valid == 0 || !is_owner(entry.layer) {
                    return Cell::default();
                }
                Cell { entry, state: CellState::Owned, ..Cell::default() }
            })
            .collect();
        let mut clusters = Self { cells, pages, discards_on, flaws, ..Self::default() };
        clusters.free = (0..clusters.count())
            .filter(|cluster| clusters.cell(*cluster).state == CellState::Free)
            .rev()
            .collect();
        clusters
    }

    pub fn count(&self) -> u32 {
        u32::try_from(self.cells.len()).expect("clusters are counted in 32 bits")
    }

    /// More of them, all free, behind those there are. Taken last.
    pub fn grow(&mut self, count: u64) {
        let before = self.count();
        self.cells.resize(index(count), Cell::default());
        let more: Vec<_> = (before..self.count()).rev().collect();
        self.free.splice(0..0, more);
        let pages = index(count.div_ceil(ENTRIES));
        self.pages.resize(pages.max(self.pages.len()), PageAt::default());
    }

    pub fn cell(&self, cluster: Cluster) -> &Cell {
        &self.cells[index(cluster.into())]
    }

    pub fn cell_mut(&mut self, cluster: Cluster) -> &mut Cell {
        &mut self.cells[index(cluster.into())]
    }

    pub fn free(&self) -> u64 {
        u64::try_from(self.free.len()).expect("a count fits 64 bits")
    }

    pub fn quarantined(&self) -> u64 {
        self.quarantined
    }

    /// A free one becomes the layer's, with no page of it valid yet.
    pub fn take(&mut self, layer: LayerId, logical: u32) -> Option<Cluster> {
        let cluster = self.free.pop()?;
        let cell = self.cell_mut(cluster);
        debug_assert!(cell.state == CellState::Free && cell.in_flight == 0, "it was free");
        cell.entry = Entry { layer, logical, valid: 0 };
        cell.state = CellState::Owned;
        Some(cluster)
    }

    /// Gives back one that never held anything that a record tells of.
    pub fn give_back(&mut self, cluster: Cluster) {
        *self.cell_mut(cluster) = Cell::default();
        self.free.push(cluster);
    }

    /// It is nobody's by the batch `lsn`.
    pub fn quarantine(&mut self, cluster: Cluster, lsn: u64) {
        let cell = self.cell_mut(cluster);
        debug_assert!(cell.state == CellState::Owned, "only what is owned can be freed");
        cell.entry = Entry::FREE;
        cell.state = CellState::Quarantined;
        self.quarantined += 1;
        self.quarantine.push_back((lsn, cluster));
        if self.flaws.has(Flaw::ReuseTooEarly) {
            self.release(lsn);
        }
    }

    /// Batches up to `durable` are durable. True if something became free.
    pub fn release(&mut self, durable: u64) -> bool {
        let mut any = false;
        while let Some((_, cluster)) = self.quarantine.pop_front_if(|(lsn, _)| *lsn <= durable) {
            self.cell_mut(cluster).state = CellState::Leaving;
            any |= self.leave(cluster);
        }
        any
    }

    /// One I/O less on each of these. True if something became free.
    pub fn io_done(&mut self, first: Cluster, count: u32) -> bool {
        let mut any = false;
        for cluster in first..first + count {
            self.cell_mut(cluster).in_flight -= 1;
            any |= self.leave(cluster);
        }
        any
    }

    fn leave(&mut self, cluster: Cluster) -> bool {
        let cell = *self.cell(cluster);
        if cell.state != CellState::Leaving || cell.in_flight > 0 {
            return false;
        }
        if self.discards_on {
            self.cell_mut(cluster).state = CellState::Discarding;
            self.discards.push(cluster);
            return false;
        }
        self.quarantined -= 1;
        self.give_back(cluster);
        true
    }

    pub fn discarded(&mut self, first: Cluster, count: u32) -> bool {
        for cluster in first..first + count {
            debug_assert!(self.cell(cluster).state == CellState::Discarding, "it was discarded");
            self.quarantined -= 1;
            self.give_back(cluster);
        }
        count > 0
    }

    pub fn touch(&mut self, cluster: Cluster) {
        self.dirty.insert(u64::from(cluster) / ENTRIES);
    }

    pub fn owned(&self) -> u64 {
        u64::from(self.count()) - self.free() - self.quarantined
    }

    /// The clusters that a page of the table describes.
    pub fn of_page(&self, page: u64) -> core::ops::Range<Cluster> {
        let at = |page: u64| u32::try_from(page * ENTRIES).unwrap_or(u32::MAX).min(self.count());
        at(page)..at(page + 1)
    }

    /// How many there must be pages for.
    pub fn blank_pages(clusters: u64) -> Vec<PageAt> {
        vec![PageAt::default(); index(clusters.div_ceil(ENTRIES))]
    }
}
