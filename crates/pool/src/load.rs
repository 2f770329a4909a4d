//! Reading a pool from its disk, without changing anything: superblock, catalog, table, journal,
//! and the data that hints in the journal speak of.

mod replay;

use alloc::{vec, vec::Vec};

use block::{BLOCK, Buffer};

use self::replay::Replay;
use crate::{
    Flaw, Flaws, Io, IoError, IoId,
    catalog::{self, Catalog},
    clusters::PageAt,
    codec::index,
    geometry::{CLUSTER, ENTRIES, Geometry},
    journal::{Found, Owner},
    superblock::{Superblock, SuperblockError},
    table::{self, Entry},
    window::Window,
};

/// Blocks in one read.
const CHUNK: u64 = 256;

/// Something that is not as it should be. What a pool survives by design is worth telling, too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    #[error("superblock {copy} of 4 is damaged or missing; another one serves")]
    Superblock { copy: usize },
    #[error("a slot of page {page} of the cluster table is torn; the other one serves")]
    TornSlot { page: u64 },
    #[error("{count} writes were on their way when the pool stopped and did not arrive")]
    Unfinished { count: u64 },
}

/// Why a pool cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Superblock(#[from] SuperblockError),
    #[error("the pool has {needs} blocks, the device {has}")]
    Truncated { needs: u64, has: u64 },
    #[error("the catalog is damaged in block {block}")]
    Catalog { block: u64 },
    #[error("page {page} of the cluster table is damaged")]
    Table { page: u64 },
    #[error("the journal is damaged at {lsn}")]
    Journal { lsn: u64 },
    #[error("cluster {cluster} is claimed by two, or by a place that does not exist")]
    Cluster { cluster: u32 },
    #[error(transparent)]
    Io(#[from] IoError),
}

/// Everything that is known of a pool.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub superblock: Superblock,
    pub catalog: Catalog,
    pub entries: Vec<Entry>,
    pub pages: Vec<PageAt>,
    /// Pages of the table that replay changed.
    pub dirty: block::Bitmap,
    pub next: u64,
    pub batches: u64,
    pub findings: Vec<Finding>,
}

#[derive(Debug)]
pub(crate) struct Load {
    device: u64,
    flaws: Flaws,
    window: Window,
    phase: Phase,
    copies: Vec<Result<Superblock, SuperblockError>>,
    superblock: Option<Superblock>,
    catalog_bytes: Vec<u8>,
    catalog: Catalog,
    entries: Vec<Entry>,
    pages: Vec<PageAt>,
    /// How new each page of the table must be.
    at_least: Vec<u64>,
    journal: Option<Found>,
    replay: Option<Replay>,
    findings: Vec<Finding>,
    outcome: Option<Result<Loaded, LoadError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Superblocks,
    Catalog,
    Table,
    Journal,
    Verify,
    Over,
}

impl Load {
    /// Of a device with so many blocks.
    pub fn new(device: u64, flaws: Flaws) -> Self {
        let mut window = Window::default();
        for (tag, block) in (0..).zip(Geometry::superblocks(device)) {
            window.push(tag, read(block, 1));
        }
        Self {
            device,
            flaws,
            window,
            phase: Phase::Superblocks,
            copies: vec![Err(SuperblockError::Absent); 4],
            superblock: None,
            catalog_bytes: Vec::new(),
            catalog: Catalog::default(),
            entries: Vec::new(),
            pages: Vec::new(),
            at_least: Vec::new(),
            journal: None,
            replay: None,
            findings: Vec::new(),
            outcome: None,
        }
    }

    pub fn poll(&mut self) -> Option<(IoId, Io)> {
        self.window.poll()
    }

    pub fn progress(&self) -> (u64, u64) {
        self.window.progress()
    }

    pub fn take_outcome(&mut self) -> Option<Result<Loaded, LoadError>> {
        self.outcome.take()
    }

    pub fn io_done(&mut self, id: IoId, result: Result<Option<Buffer>, IoError>) {
        let Some(tag) = self.window.done(id) else { return };
        let read = result.and_then(|data| data.ok_or(IoError { code: 5 }));
        let seen = match read {
            Ok(data) => self.see(tag, data.bytes()),
            // A block at either end may be unreadable: the others serve.
            Err(_) if self.phase == Phase::Superblocks => Ok(()),
            Err(error) => Err(LoadError::Io(error)),
        };
        let is_last = self.window.is_empty();
        let result = seen.and_then(|()| if is_last { self.next_phase() } else { Ok(()) });
        if let Err(error) = result {
            self.phase = Phase::Over;
            self.window = Window::default();
            self.outcome = Some(Err(error));
        }
    }

    fn see(&mut self, tag: u64, bytes: &[u8]) -> Result<(), LoadError> {
        match self.phase {
            Phase::Superblocks => {
                if let Some(copy) = self.copies.get_mut(index(tag)) {
                    *copy = Superblock::decode(bytes);
                }
            }
            Phase::Catalog => self.see_catalog(tag, bytes)?,
            Phase::Table => self.see_table(tag, bytes)?,
            Phase::Journal => {
                for (place, block) in (tag..).zip(bytes.chunks_exact(BLOCK)) {
                    if let Some(journal) = &mut self.journal {
                        journal.see(place, block);
                    }
                }
            }
            Phase::Verify => {
                if let Some(replay) = &mut self.replay {
                    replay.see(tag, crc32c::crc32c(bytes));
                }
            }
            Phase::Over => {}
        }
        Ok(())
    }

    fn next_phase(&mut self) -> Result<(), LoadError> {
        while self.window.is_empty() && self.phase != Phase::Over {
            self.phase = match self.phase {
                Phase::Superblocks => self.begin_catalog()?,
                Phase::Catalog => self.begin_table()?,
                Phase::Table => self.begin_journal()?,
                Phase::Journal => self.begin_verify()?,
                Phase::Verify | Phase::Over => self.finish()?,
            };
        }
        Ok(())
    }

    fn chosen(&self) -> Result<&Superblock, LoadError> {
        self.superblock.as_ref().ok_or(LoadError::Superblock(SuperblockError::Absent))
    }

    fn begin_catalog(&mut self) -> Result<Phase, LoadError> {
        let newer = |copy: &Result<_, SuperblockError>| match copy {
            Err(error) if *error != SuperblockError::Absent => Some(*error),
            _ => None,
        };
        if let Some(error) = self.copies.iter().find_map(newer) {
            return Err(error.into());
        }
        let valid = self.copies.iter().filter_map(|copy| copy.as_ref().ok());
        let newest = valid.max_by_key(|superblock| superblock.sequence).cloned();
        let newest = newest.ok_or(LoadError::Superblock(SuperblockError::Absent))?;
        let Geometry { blocks, clusters, .. } = newest.geometry;
        if blocks > self.device {
            return Err(LoadError::Truncated { needs: blocks, has: self.device });
        }
        let bad = self.copies.iter().enumerate().filter(|(_, copy)| copy.is_err());
        self.findings.extend(bad.map(|(copy, _)| Finding::Superblock { copy }));
        self.entries = vec![Entry::FREE; index(clusters)];
        self.pages = crate::clusters::Clusters::blank_pages(clusters);
        let at = newest.catalog;
        let area = newest.geometry.catalogs[usize::from(at.area)];
        let count = catalog::area_blocks(at.bytes);
        if count > area.blocks {
            return Err(LoadError::Catalog { block: 0 });
        }
        self.catalog_bytes = vec![0; index(at.bytes)];
        self.read_all(area.start, count);
        self.superblock = Some(newest);
        Ok(Phase::Catalog)
    }

    /// Reads so many blocks; the tag of each read is its first block, from the start.
    fn read_all(&mut self, start: u64, count: u64) {
        for at in (0..count).step_by(index(CHUNK)) {
            self.window.push(at, read(start + at, CHUNK.min(count - at)));
        }
    }

    fn see_catalog(&mut self, tag: u64, bytes: &[u8]) -> Result<(), LoadError> {
        let superblock = self.chosen()?;
        let (pool, lsn) = (superblock.pool, superblock.catalog.lsn);
        for (block, bytes) in (tag..).zip(bytes.chunks_exact(BLOCK)) {
            let damaged = LoadError::Catalog { block };
            let part = catalog::read_area(bytes, pool, lsn, block).map_err(|_| damaged)?;
            let start = (index(block) * part.len()).min(self.catalog_bytes.len());
            let end = (start + part.len()).min(self.catalog_bytes.len());
            self.catalog_bytes[start..end].copy_from_slice(&part[..end - start]);
        }
        Ok(())
    }

    fn begin_table(&mut self) -> Result<Phase, LoadError> {
        let damaged = LoadError::Catalog { block: 0 };
        let (catalog, at_least) =
            Catalog::decode(&self.catalog_bytes).map_err(|_| damaged.clone())?;
        self.catalog_bytes = Vec::new();
        self.catalog = catalog;
        let superblock = self.chosen()?;
        let (geometry, written) = (superblock.geometry, superblock.table_written);
        if u64::try_from(at_least.len()) != Ok(written) || written > geometry.table_pages() {
            return Err(damaged);
        }
        self.at_least = at_least;
        self.read_all(geometry.table.start, written * 2);
        Ok(Phase::Table)
    }

    fn see_table(&mut self, tag: u64, bytes: &[u8]) -> Result<(), LoadError> {
        let pool = self.chosen()?.pool;
        for (page, slots) in (tag / 2..).zip(bytes.chunks_exact(2 * BLOCK)) {
            let (first, second) = slots.split_at(BLOCK);
            let trusts = self.flaws.has(Flaw::TornPageTrusted);
            let torn = |bytes| trusts.then(|| table::read_torn(bytes, page)).flatten();
            let read = |bytes| table::read_page(bytes, pool, page).or_else(|| torn(bytes));
            let slots_blank = is_foreign(first) || is_foreign(second);
            let slots = [(0, read(first)), (1, read(second))];
            let at_least = self.at_least.get(index(page)).copied().unwrap_or(0);
            let is_torn = slots.iter().any(|(_, slot)| slot.is_none());
            let valid = slots.into_iter().filter_map(|(at, slot)| Some((at, slot?)));
            let newest = valid.max_by_key(|(_, slot)| slot.lsn);
            let newest = newest.filter(|(_, slot)| slot.lsn >= at_least);
            let (slot, newest) = newest.ok_or(LoadError::Table { page })?;
            // A page that was written once has one slot: that is no damage.
            if is_torn && !slots_blank {
                self.findings.push(Finding::TornSlot { page });
            }
            self.pages[index(page)] = PageAt { lsn: newest.lsn, slot };
            let first = index(page * ENTRIES);
            for (entry, new) in self.entries[first..].iter_mut().zip(newest.entries) {
                *entry = new;
            }
        }
        Ok(())
    }

    fn begin_journal(&mut self) -> Result<Phase, LoadError> {
        let superblock = self.chosen()?;
        let ring = superblock.geometry.journal;
        let owner = Owner { pool: superblock.pool, incarnation: superblock.incarnation };
        self.journal = Some(Found::new(owner, superblock.tail, ring.blocks));
        // Of a clean pool, too: a later import that wrote there shows that this superblock is old.
        self.read_all(ring.start, ring.blocks);
        Ok(Phase::Journal)
    }

    fn begin_verify(&mut self) -> Result<Phase, LoadError> {
        let superblock = self.chosen()?;
        let (geometry, catalog_lsn) = (superblock.geometry, superblock.catalog.lsn);
        let journal = self.journal.take();
        let found = journal.map_or(Ok((Vec::new(), 0)), |journal| journal.batches());
        let (batches, next) = found.map_err(|lost| LoadError::Journal { lsn: lost.lsn })?;
        let entries = core::mem::take(&mut self.entries);
        let pages = core::mem::take(&mut self.pages);
        let catalog = core::mem::take(&mut self.catalog);
        let mut replay = Replay::new(catalog, catalog_lsn, entries, pages, next);
        for batch in &batches {
            replay.take(batch)?;
        }
        for (tag, cluster, page) in replay.link()? {
            self.window.push(tag, read(geometry.page(cluster, page), 1));
        }
        self.replay = Some(replay);
        Ok(Phase::Verify)
    }

    fn finish(&mut self) -> Result<Phase, LoadError> {
        let superblock = self.chosen()?.clone();
        let Some(replay) = self.replay.take() else { return Ok(Phase::Over) };
        let mut findings = core::mem::take(&mut self.findings);
        self.outcome = Some(Ok(replay.finish(superblock, &mut findings)));
        Ok(Phase::Over)
    }
}

/// Never a page of the table: its first bytes say otherwise.
fn is_foreign(slot: &[u8]) -> bool {
    !slot.starts_with(&table::MAGIC)
}

fn read(block: u64, blocks: u64) -> Io {
    Io::Read { offset: block * BLOCK as u64, len: index(blocks) * BLOCK }
}

/// Whether a page of a cluster lies within a layer of so many blocks.
pub(crate) fn is_within(logical: u32, page: u8, blocks: u64) -> bool {
    u64::from(logical) * CLUSTER + u64::from(page) < blocks
}
