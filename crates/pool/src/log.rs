//! The journal of a running pool: what was appended, written, and made durable.
//!
//! ```text
//!   append ─▶ open ─seal─▶ sealed ─▶ writing (one at a time) ─▶ written ─sync─▶ durable
//! ```
//! Batches are named by the number of their first block; later ones have higher numbers.

use alloc::{collections::VecDeque, vec::Vec};

use block::{BLOCK, Buffer};

use crate::{
    codec::index,
    geometry::Area,
    journal::{self, Owner},
    record::Record,
};

/// A batch is sealed when it has grown to this, so that its block count stays small and a writer
/// behind it does not wait for a megabyte.
const SEAL: usize = 128 * 1024;

#[derive(Clone, Debug)]
pub(crate) struct Log {
    owner: Owner,
    ring: Area,
    tail: u64,
    /// The number that the open batch will have.
    next: u64,
    open: Vec<u8>,
    sealed: VecDeque<(u64, Vec<u8>)>,
    writing: Option<Writing>,
    last_sealed: u64,
    written: u64,
    durable: u64,
}

#[derive(Clone, Copy, Debug)]
struct Writing {
    lsn: u64,
    ios: u32,
}

impl Log {
    /// Empty, the next batch being `tail`.
    pub fn new(owner: Owner, ring: Area, tail: u64) -> Self {
        let before = tail - 1;
        Self {
            owner,
            ring,
            tail,
            next: tail,
            open: Vec::new(),
            sealed: VecDeque::new(),
            writing: None,
            last_sealed: before,
            written: before,
            durable: before,
        }
    }

    /// The batch that it went into.
    pub fn append(&mut self, record: &Record) -> u64 {
        if self.open.len() > SEAL {
            self.seal();
        }
        record.put(&mut self.open);
        self.next
    }

    /// Ends the open batch. Every record so far is in a batch up to the one returned, and none of
    /// those will get another.
    pub fn seal(&mut self) -> u64 {
        if !self.open.is_empty() {
            let records = core::mem::take(&mut self.open);
            let blocks = journal::blocks(records.len());
            self.sealed.push_back((self.next, records));
            self.last_sealed = self.next;
            self.next += blocks;
        }
        self.last_sealed
    }

    /// The number of the next batch, if nothing is open.
    pub const fn next(&self) -> u64 {
        self.next
    }

    pub const fn written(&self) -> u64 {
        self.written
    }

    pub const fn durable(&self) -> u64 {
        self.durable
    }

    /// A sync that began when `covered` was written has ended.
    pub fn synced(&mut self, covered: u64) {
        self.durable = self.durable.max(covered);
    }

    pub fn truncate(&mut self, tail: u64) {
        self.tail = tail;
    }

    pub const fn size(&self) -> u64 {
        self.ring.blocks
    }

    /// Blocks between the tail and the end of what was appended.
    pub fn used(&self) -> u64 {
        self.next + journal::blocks(self.open.len()) - self.tail
    }

    /// The writes of the next batch, if there is one and none is being written.
    pub fn start_write(&mut self) -> Vec<(u64, Buffer)> {
        if self.writing.is_some() {
            return Vec::new();
        }
        if self.sealed.is_empty() {
            self.seal();
        }
        let Some((lsn, records)) = self.sealed.pop_front() else { return Vec::new() };
        let bytes = journal::encode(self.owner, lsn, self.durable, &records);
        let place = lsn % self.ring.blocks;
        let blocks = journal::blocks(records.len());
        let before_wrap = index(blocks.min(self.ring.blocks - place)) * BLOCK;
        let at = |place: u64| (self.ring.start + place) * BLOCK as u64;
        let mut writes = alloc::vec![(at(place), bytes.slice(0..before_wrap))];
        if before_wrap < bytes.len() {
            writes.push((at(0), bytes.slice(before_wrap..bytes.len())));
        }
        let ios = u32::try_from(writes.len()).expect("one or two");
        self.writing = Some(Writing { lsn, ios });
        writes
    }

    /// One of the writes is done. True if the batch is.
    pub fn write_done(&mut self) -> bool {
        let Some(writing) = &mut self.writing else { return false };
        writing.ios -= 1;
        if writing.ios > 0 {
            return false;
        }
        self.written = writing.lsn;
        self.writing = None;
        true
    }

    /// Nothing is on its way to the disk.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.sealed.is_empty() && self.writing.is_none()
    }
}
