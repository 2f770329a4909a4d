//! From the tables and the journal to the state that the pool had.
//!
//! Mappings and all else that was durable are taken as they are. A hint is taken only if its page
//! is found with the checksum that it names; anything later about the page replaces it.

use alloc::{collections::BTreeMap, vec::Vec};

use block::Bitmap;

use super::{Finding, LoadError, Loaded, is_within};
use crate::{
    catalog::{self, Catalog},
    clusters::PageAt,
    codec::index,
    geometry::ENTRIES,
    journal::Batch,
    record::{Cluster, LayerId, Record},
    superblock::Superblock,
    table::Entry,
};

#[derive(Debug)]
pub(super) struct Replay {
    catalog: Catalog,
    catalog_lsn: u64,
    entries: Vec<Entry>,
    pages: Vec<PageAt>,
    dirty: Bitmap,
    hints: BTreeMap<Cluster, Hints>,
    next: u64,
    batches: u64,
}

/// What the journal hopes for in one cluster.
#[derive(Debug)]
struct Hints {
    layer: LayerId,
    logical: u32,
    /// The newest.
    lsn: u64,
    pages: BTreeMap<u8, Page>,
}

#[derive(Debug, Default)]
struct Page {
    /// Of each write that may have come last.
    crcs: Vec<u32>,
    is_found: bool,
}

impl Replay {
    pub fn new(
        catalog: Catalog,
        catalog_lsn: u64,
        entries: Vec<Entry>,
        pages: Vec<PageAt>,
        next: u64,
    ) -> Self {
        let (dirty, hints) = (Bitmap::new(), BTreeMap::new());
        Self { catalog, catalog_lsn, entries, pages, dirty, hints, next, batches: 0 }
    }

    pub fn take(&mut self, batch: &Batch) -> Result<(), LoadError> {
        self.batches += 1;
        for record in &batch.records {
            self.take_record(batch.lsn, record)?;
        }
        Ok(())
    }

    fn take_record(&mut self, lsn: u64, record: &Record) -> Result<(), LoadError> {
        let damaged = LoadError::Journal { lsn };
        match record {
            Record::Hint { cluster, .. }
            | Record::Map { cluster, .. }
            | Record::Unmap { cluster, .. }
            | Record::Move { cluster, .. }
            | Record::Free { cluster } => {
                if index((*cluster).into()) >= self.entries.len() {
                    return Err(damaged);
                }
                self.hint(lsn, *cluster, record);
                let page = u64::from(*cluster) / ENTRIES;
                if !matches!(record, Record::Hint { .. }) && lsn > self.pages[index(page)].lsn {
                    let entry = &mut self.entries[index((*cluster).into())];
                    *entry = entry.after(record);
                    self.dirty.insert(page);
                }
            }
            other if lsn > self.catalog_lsn => {
                self.catalog.apply(other).map_err(|_| damaged)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What a record means for the hints of its cluster.
    fn hint(&mut self, lsn: u64, cluster: Cluster, record: &Record) {
        match *record {
            Record::Hint { layer, logical, page, crc, .. } => {
                let hints = self.hints.entry(cluster).or_insert_with(|| Hints::new(layer, logical));
                if (hints.layer, hints.logical) != (layer, logical) {
                    *hints = Hints::new(layer, logical);
                }
                hints.lsn = lsn;
                hints.pages.entry(page).or_default().crcs.push(crc);
            }
            Record::Map { layer, pages, .. } | Record::Unmap { layer, pages, .. } => {
                let Some(hints) = self.hints.get_mut(&cluster) else { return };
                if hints.layer == layer {
                    hints.pages.retain(|page, _| pages & (1 << page) == 0);
                } else {
                    hints.pages.clear();
                }
            }
            _ => {
                self.hints.remove(&cluster);
            }
        }
    }

    /// Builds the maps; answers which pages must be read to judge the hints.
    pub fn link(&mut self) -> Result<Vec<(u64, Cluster, u8)>, LoadError> {
        for (cluster, entry) in (0u32..).zip(&mut self.entries) {
            let Some(layer) = self.catalog.layers.get_mut(&entry.layer) else {
                *entry = Entry::FREE;
                continue;
            };
            if entry.valid == 0 {
                *entry = Entry::FREE;
                continue;
            }
            let last = u8::try_from(entry.valid.ilog2()).unwrap_or(63);
            let is_sound = is_within(entry.logical, last, layer.blocks)
                && layer.map.insert(entry.logical, cluster).is_none();
            if !is_sound {
                return Err(LoadError::Cluster { cluster });
            }
        }
        self.hints.retain(|cluster, hints| {
            let entry = self.entries[index((*cluster).into())];
            hints.is_possible(*cluster, entry, &self.catalog)
        });
        let all = self.hints.iter().flat_map(|(cluster, hints)| {
            hints.pages.keys().map(|page| (tag(*cluster, *page), *cluster, *page))
        });
        Ok(all.collect())
    }

    /// A page was read and has this checksum.
    pub fn see(&mut self, tag: u64, crc: u32) {
        let (cluster, page) = (u32::try_from(tag / 64), u8::try_from(tag % 64));
        let (Ok(cluster), Ok(page)) = (cluster, page) else { return };
        let hints = self.hints.get_mut(&cluster);
        if let Some(page) = hints.and_then(|hints| hints.pages.get_mut(&page)) {
            page.is_found = page.crcs.contains(&crc);
        }
    }

    pub fn finish(mut self, superblock: Superblock, findings: &mut Vec<Finding>) -> Loaded {
        let mut hints: Vec<_> = core::mem::take(&mut self.hints).into_iter().collect();
        // Newest first: an older cluster for the same place was given back before.
        hints.sort_unstable_by_key(|(_, hints)| core::cmp::Reverse(hints.lsn));
        let mut lost = 0;
        for (cluster, hints) in hints {
            lost += self.believe(cluster, &hints);
        }
        if lost > 0 {
            findings.push(Finding::Unfinished { count: lost });
        }
        Loaded {
            superblock,
            catalog: self.catalog,
            entries: self.entries,
            pages: self.pages,
            dirty: self.dirty,
            next: self.next,
            batches: self.batches,
            findings: core::mem::take(findings),
        }
    }

    /// How many of the pages were not found.
    fn believe(&mut self, cluster: Cluster, hints: &Hints) -> u64 {
        let found = hints.pages.iter().filter(|(_, page)| page.is_found);
        let pages = found.fold(0, |all, (page, _)| all | 1 << page);
        let lost = hints.pages.values().filter(|page| !page.is_found).count();
        let entry = self.entries[index(cluster.into())];
        if pages != 0 && hints.is_possible(cluster, entry, &self.catalog) {
            let (layer, logical) = (hints.layer, hints.logical);
            let record = Record::Map { cluster, layer, logical, pages };
            self.entries[index(cluster.into())] = entry.after(&record);
            self.dirty.insert(u64::from(cluster) / ENTRIES);
            if let Some(layer) = self.catalog.layers.get_mut(&layer) {
                layer.map.insert(logical, cluster);
            }
        }
        u64::try_from(lost).unwrap_or(u64::MAX)
    }
}

impl Hints {
    fn new(layer: LayerId, logical: u32) -> Self {
        Self { layer, logical, lsn: 0, pages: BTreeMap::new() }
    }

    /// Whether the cluster can be what they say: its layer is there and has no other one at this
    /// place, and nobody else has it.
    fn is_possible(&self, cluster: Cluster, entry: Entry, catalog: &Catalog) -> bool {
        let Some(layer) = catalog.layers.get(&self.layer) else { return false };
        let is_free = entry == Entry::FREE;
        let is_ours = (entry.layer, entry.logical) == (self.layer, self.logical);
        let in_place = self.logical < catalog::clusters(layer.blocks)
            && layer.map.get(self.logical).is_none_or(|other| other == cluster);
        (is_free || is_ours)
            && in_place
            && self.pages.keys().all(|page| is_within(self.logical, *page, layer.blocks))
    }
}

fn tag(cluster: Cluster, page: u8) -> u64 {
    u64::from(cluster) * 64 + u64::from(page)
}
