//! Checkpoints: the tables catch up with the journal, so that its room can be used again.
//!
//! ```text
//!   flush ─▶ pages, some at a time: seal, durable, write ─▶ catalog: seal, durable, write
//!         ─▶ sync ─▶ superblock ─▶ sync ─▶ the tail moves
//! ```
//! Requests go on meanwhile. A page or the catalog is written only when the journal is durable up
//! to what it shows; the tail moves only when they are durable.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use block::{BLOCK, Buffer, Durability};

use super::{OpId, Pool, Whom, Work, bytes, commit::Waiter, new_op};
use crate::{
    Error, Fault, Io, IoError, Reply, RequestId, catalog,
    clusters::PageAt,
    codec::index,
    geometry::Geometry,
    superblock::{CatalogAt, Superblock},
    table::{self, Entry},
};

#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    waiters: Vec<OpId>,
    geometry: Geometry,
    is_clean: bool,
    /// Everything in batches before this one is in the tables when they are written.
    tail: u64,
    todo: VecDeque<u64>,
    images: Vec<Image>,
    written: u64,
    catalog: CatalogAt,
    superblock: Option<Superblock>,
    phase: Phase,
    ios: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Flush,
    Pages,
    Catalog,
    TablesSynced,
    Superblock,
    Done,
}

#[derive(Clone, Debug)]
struct Image {
    /// The block it goes to.
    at: u64,
    data: Buffer,
    page: Option<(u64, PageAt)>,
}

/// Pages written at a time: they are copied, so that writers go on, and 1 MiB of copies is cheap.
const CHUNK: usize = 256;

/// Bytes of the catalog in one write.
const WRITE: usize = 1 << 20;

impl Pool {
    pub(super) fn admit_checkpoint(&mut self, request: RequestId) {
        let op = self.ops.insert(new_op(Some(request), None, Work::Checkpoint));
        self.checkpoint_waiters.push(op);
    }

    pub(super) fn admit_grow(&mut self, request: RequestId, blocks: u64) -> Result<(), Error> {
        let grown = self.geometry.sized(blocks).ok_or(Error::OutOfRange)?;
        if grown.clusters < self.geometry.clusters {
            return Err(Error::OutOfRange);
        }
        self.superblock.geometry = grown;
        self.admit_checkpoint(request);
        Ok(())
    }

    pub(super) fn admit_export(&mut self, request: RequestId) {
        let op = self.ops.insert(new_op(Some(request), None, Work::Checkpoint));
        self.exporting = Some(op);
    }

    pub(super) fn pump_checkpoint(&mut self) {
        if self.checkpoint.is_some() {
            return;
        }
        let is_full = self.log.used() * 2 > self.log.size();
        let is_last = self.exporting.filter(|_| self.ops.len() == 1 && self.log.is_idle());
        let is_wanted = self.checkpoint_wanted || !self.checkpoint_waiters.is_empty();
        if !is_full && !is_wanted && is_last.is_none() {
            return;
        }
        let mut waiters = core::mem::take(&mut self.checkpoint_waiters);
        waiters.extend(is_last);
        self.start_checkpoint(waiters, is_last.is_some());
    }

    /// What import ends with; the first that a new pool does.
    pub(crate) fn begin_checkpoint(&mut self) {
        self.start_checkpoint(Vec::new(), false);
        self.pump();
    }

    pub(crate) fn is_checkpointing(&self) -> bool {
        self.checkpoint.is_some()
    }

    fn start_checkpoint(&mut self, waiters: Vec<OpId>, is_clean: bool) {
        self.checkpoint_wanted = false;
        self.checkpoint = Some(Box::new(Checkpoint {
            waiters,
            geometry: self.superblock.geometry,
            is_clean,
            tail: 0,
            todo: VecDeque::new(),
            images: Vec::new(),
            written: self.superblock.table_written,
            catalog: CatalogAt::default(),
            superblock: None,
            phase: Phase::Flush,
            ios: 0,
        }));
        self.when_synced(Waiter::Checkpoint);
    }

    /// The sync that it waited for has ended.
    pub(super) fn checkpoint_synced(&mut self) {
        let Some(checkpoint) = self.checkpoint.as_mut() else { return };
        match checkpoint.phase {
            Phase::Flush => {
                let lsn = self.log.seal();
                self.wait_durable(lsn, Waiter::Checkpoint);
            }
            Phase::TablesSynced => self.write_superblock(),
            Phase::Superblock => {
                checkpoint.phase = Phase::Done;
                self.finish_checkpoint();
            }
            Phase::Pages | Phase::Catalog | Phase::Done => {}
        }
    }

    /// The journal is durable as far as it asked.
    pub(super) fn checkpoint_durable(&mut self) {
        let Some(checkpoint) = self.checkpoint.as_ref() else { return };
        match checkpoint.phase {
            Phase::Flush => self.list_pages(),
            Phase::Pages | Phase::Catalog => self.write_images(),
            Phase::TablesSynced | Phase::Superblock | Phase::Done => {}
        }
    }

    fn list_pages(&mut self) {
        self.log.seal();
        let tail = self.log.next();
        let dirty = core::mem::take(&mut self.clusters.dirty);
        let Some(checkpoint) = self.checkpoint.as_mut() else { return };
        checkpoint.tail = tail;
        // Every page up to the last is written, so that any below that is missing is damage.
        let end = dirty.iter().last().map_or(0, |page| page + 1);
        let first = checkpoint.written;
        checkpoint.todo = dirty.iter().filter(|page| *page < first).chain(first..end).collect();
        checkpoint.written = first.max(end);
        checkpoint.phase = Phase::Pages;
        self.next_pages();
    }

    fn next_pages(&mut self) {
        let lsn = self.log.seal();
        let Some(checkpoint) = self.checkpoint.as_mut() else { return };
        let count = checkpoint.todo.len().min(CHUNK);
        let pages: Vec<u64> = checkpoint.todo.drain(..count).collect();
        if pages.is_empty() {
            return self.image_catalog();
        }
        let images = pages.into_iter().map(|page| self.image_page(page, lsn)).collect();
        self.await_images(images, lsn);
    }

    fn await_images(&mut self, images: Vec<Image>, lsn: u64) {
        if let Some(checkpoint) = self.checkpoint.as_mut() {
            checkpoint.images = images;
        }
        self.wait_durable(lsn, Waiter::Checkpoint);
    }

    /// Only what counts by itself: a page of data that is not durable is not in it.
    fn image_page(&self, page: u64, lsn: u64) -> Image {
        let entries = self.clusters.of_page(page).map(|cluster| {
            let entry = self.clusters.cell(cluster).entry;
            let valid = entry.valid & !self.unmapped(cluster);
            if valid == 0 { Entry::FREE } else { Entry { valid, ..entry } }
        });
        let mut out = Vec::with_capacity(BLOCK);
        table::put_page(&mut out, self.superblock.pool, page, lsn, entries);
        let slot = 1 - self.clusters.pages[index(page)].slot;
        Image {
            at: self.geometry.table_slot(page, slot),
            data: Buffer::copy_of(&out),
            page: Some((page, PageAt { lsn, slot })),
        }
    }

    fn write_images(&mut self) {
        let Some(checkpoint) = self.checkpoint.as_mut() else { return };
        let images = core::mem::take(&mut checkpoint.images);
        checkpoint.ios = images.len();
        for Image { at, data, page } in images {
            if let Some((page, at)) = page {
                self.clusters.pages[index(page)] = at;
            }
            self.io(
                Io::Write { offset: bytes(at), data, durability: Durability::Volatile },
                Whom::Table,
            );
        }
    }

    pub(super) fn table_done(&mut self, result: Result<(), IoError>) {
        if let Err(error) = result {
            return self.fail(Fault::Table(error));
        }
        let Some(checkpoint) = self.checkpoint.as_mut() else { return };
        checkpoint.ios -= 1;
        if checkpoint.ios > 0 {
            return;
        }
        match checkpoint.phase {
            Phase::Pages => self.next_pages(),
            Phase::Catalog => {
                checkpoint.phase = Phase::TablesSynced;
                self.when_synced(Waiter::Checkpoint);
            }
            Phase::Superblock => self.when_synced(Waiter::Checkpoint),
            Phase::Flush | Phase::TablesSynced | Phase::Done => {}
        }
    }

    fn image_catalog(&mut self) {
        let lsn = self.log.seal();
        let oldest = self.pending.values().map(|pending| pending.lsn).min();
        let Some(checkpoint) = self.checkpoint.as_mut() else { return };
        checkpoint.phase = Phase::Catalog;
        // Hints whose pages are not mapped yet must stay readable.
        checkpoint.tail = oldest.unwrap_or(u64::MAX).min(checkpoint.tail);
        let pages: Vec<u64> =
            self.clusters.pages[..index(checkpoint.written)].iter().map(|page| page.lsn).collect();
        let encoded = self.catalog.encode(&pages);
        let area = 1 - self.superblock.catalog.area;
        let len = u64::try_from(encoded.len()).expect("a length fits 64 bits");
        let to = self.geometry.catalogs[usize::from(area)];
        if catalog::area_blocks(len) > to.blocks {
            return self.fail(Fault::CatalogFull);
        }
        checkpoint.catalog = CatalogAt { area, lsn, bytes: len };
        let blocks = Buffer::copy_of(&catalog::put_area(self.superblock.pool, lsn, &encoded));
        let images = (0..blocks.len()).step_by(WRITE).map(|at| Image {
            at: to.start + u64::try_from(at / BLOCK).expect("a length fits 64 bits"),
            data: blocks.slice(at..blocks.len().min(at + WRITE)),
            page: None,
        });
        self.catalog_bytes = len;
        let images = images.collect();
        self.await_images(images, lsn);
    }

    fn write_superblock(&mut self) {
        let Some(checkpoint) = self.checkpoint.as_mut() else { return };
        checkpoint.phase = Phase::Superblock;
        let superblock = Superblock {
            sequence: self.superblock.sequence + 1,
            geometry: checkpoint.geometry,
            tail: checkpoint.tail,
            catalog: checkpoint.catalog,
            table_written: checkpoint.written,
            is_clean: checkpoint.is_clean,
            ..self.superblock.clone()
        };
        let places = Geometry::superblocks(checkpoint.geometry.blocks);
        let turn = index(superblock.sequence % 2);
        let data = superblock.encode();
        checkpoint.superblock = Some(superblock);
        checkpoint.ios = 2;
        for place in [places[turn], places[turn + 2]] {
            let offset = bytes(place);
            self.io(
                Io::Write { offset, data: data.clone(), durability: Durability::Volatile },
                Whom::Table,
            );
        }
    }

    fn finish_checkpoint(&mut self) {
        let Some(checkpoint) = self.checkpoint.take() else { return };
        let Some(superblock) = checkpoint.superblock else { return };
        let asked = self.superblock.geometry;
        self.superblock = superblock;
        // Another growth may have been asked for meanwhile.
        self.superblock.geometry = asked;
        self.geometry = checkpoint.geometry;
        if self.geometry.clusters > u64::from(self.clusters.count()) {
            self.clusters.grow(self.geometry.clusters);
            self.feed_starved();
        }
        self.log.truncate(checkpoint.tail);
        self.is_exported = checkpoint.is_clean;
        if checkpoint.is_clean {
            self.exporting = None;
        }
        for op in checkpoint.waiters {
            self.finish(op, Ok(Reply::Done));
        }
        self.feed_stalled();
    }
}
