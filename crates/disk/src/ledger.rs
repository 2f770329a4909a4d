//! What a verifying workload may find in each block, kept in a file so that it outlives a crash of
//! the workload itself.
//!
//! ```text
//! head: magic, seed, blocks | for each block: issued u32, floor u32
//! ```
//! `issued` goes up in the file before the write is sent; `floor` after what it stands for is
//! promised. A block may hold any count from its floor to what was issued: never older, never
//! garbage. Which promise raises the floor is the workload's choice (see `Promise`).

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use crate::pattern::Found;

const MAGIC: [u8; 8] = *b"hfledger";
const HEAD: u64 = 24;
const ENTRY: u64 = 8;

/// When a write counts as kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Once it is acknowledged: what a host may rely on while one healthy copy's machine lives.
    Acknowledged,
    /// Once a flush after it is acknowledged: what survives the loss of power everywhere.
    Flushed,
}

#[derive(Debug)]
pub struct Ledger {
    file: File,
    seed: u64,
    blocks: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    issued: u32,
    floor: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("the ledger cannot be read or written")]
    Io(#[from] io::Error),
    #[error("not a ledger")]
    NotALedger,
    #[error("the ledger is of a disk of {was} blocks, this one has {is}")]
    OtherSize { was: u64, is: u64 },
}

/// A block that does not hold what it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {block} holds {found:?}, not a count from {floor} to {issued}")]
pub struct Wrong {
    pub block: u64,
    pub found: Found,
    pub floor: u32,
    pub issued: u32,
}

impl Ledger {
    /// A new one, for a disk that holds only zeros; replaces what is there.
    pub fn create(path: &Path, seed: u64, blocks: u64) -> Result<Self, LedgerError> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let mut head = Vec::with_capacity(24);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&seed.to_le_bytes());
        head.extend_from_slice(&blocks.to_le_bytes());
        file.write_all_at(&head, 0)?;
        file.set_len(HEAD + blocks * ENTRY)?;
        file.sync_all()?;
        let count = usize::try_from(blocks).map_err(|_| LedgerError::NotALedger)?;
        Ok(Self { file, seed, blocks: vec![Entry::default(); count] })
    }

    pub fn open(path: &Path, blocks: u64) -> Result<Self, LedgerError> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let mut head = [0; 24];
        file.read_exact_at(&mut head, 0).map_err(|_| LedgerError::NotALedger)?;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        if head[..8] != MAGIC {
            return Err(LedgerError::NotALedger);
        }
        let was = word(16);
        if was != blocks || file.metadata()?.len() != HEAD + was.saturating_mul(ENTRY) {
            return Err(LedgerError::OtherSize { was, is: blocks });
        }
        let count = usize::try_from(blocks).map_err(|_| LedgerError::NotALedger)?;
        let mut bytes = vec![0; count * 8];
        file.read_exact_at(&mut bytes, HEAD)?;
        let half = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap_or_default());
        let entry = |at: &[u8]| Entry { issued: half(&at[..4]), floor: half(&at[4..]) };
        let entries = bytes.chunks_exact(8).map(entry).collect();
        Ok(Self { file, seed: word(8), blocks: entries })
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The counts to write into `blocks` blocks from `start` on; recorded before this returns.
    pub fn issue(&mut self, start: u64, blocks: u32) -> Result<Vec<u32>, LedgerError> {
        let range = self.range(start, blocks);
        let counts = self.blocks[range].iter_mut().map(|entry| {
            entry.issued += 1;
            entry.issued
        });
        let counts = counts.collect();
        self.save(start, blocks)?;
        Ok(counts)
    }

    /// These counts are kept from now on.
    pub fn keep(&mut self, start: u64, counts: &[u32]) -> Result<(), LedgerError> {
        let blocks = u32::try_from(counts.len()).unwrap_or(u32::MAX);
        let range = self.range(start, blocks);
        for (entry, count) in self.blocks[range].iter_mut().zip(counts) {
            entry.floor = entry.floor.max(*count);
        }
        self.save(start, blocks)
    }

    /// Whether a block may hold this, and the count that it holds.
    pub fn check(&self, block: u64, found: Found) -> Result<u32, Wrong> {
        let Entry { issued, floor } = self.entry(block);
        let wrong = Wrong { block, found, floor, issued };
        match found {
            Found::Count(count) if (floor..=issued).contains(&count) => Ok(count),
            Found::Zeros if floor == 0 => Ok(0),
            _ => Err(wrong),
        }
    }

    /// Nothing was ever written to it.
    pub fn is_untouched(&self, block: u64) -> bool {
        self.entry(block).issued == 0
    }

    pub fn sync(&self) -> Result<(), LedgerError> {
        Ok(self.file.sync_data()?)
    }

    fn entry(&self, block: u64) -> Entry {
        usize::try_from(block).ok().and_then(|at| self.blocks.get(at).copied()).unwrap_or_default()
    }

    fn range(&self, start: u64, blocks: u32) -> std::ops::Range<usize> {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(blocks).unwrap_or(usize::MAX));
        start.min(self.blocks.len())..end.min(self.blocks.len())
    }

    fn save(&self, start: u64, blocks: u32) -> Result<(), LedgerError> {
        let entries = &self.blocks[self.range(start, blocks)];
        let bytes: Vec<u8> = entries
            .iter()
            .flat_map(|entry| [entry.issued.to_le_bytes(), entry.floor.to_le_bytes()])
            .flatten()
            .collect();
        Ok(self.file.write_all_at(&bytes, HEAD + start * ENTRY)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_may_hold_anything_from_what_was_promised_to_what_was_issued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let mut ledger = Ledger::create(&path, 9, 10).unwrap();
        assert_eq!(ledger.issue(4, 2).unwrap(), [1, 1]);
        assert_eq!(ledger.issue(4, 1).unwrap(), [2]);
        ledger.keep(4, &[1]).unwrap();
        drop(ledger);
        let ledger = Ledger::open(&path, 10).unwrap();
        assert_eq!(ledger.seed(), 9);
        assert!(ledger.check(4, Found::Zeros).is_err(), "a kept write is gone");
        assert_eq!(ledger.check(4, Found::Count(1)), Ok(1));
        assert_eq!(ledger.check(4, Found::Count(2)), Ok(2));
        assert!(ledger.check(4, Found::Count(3)).is_err(), "never issued");
        assert_eq!(ledger.check(5, Found::Zeros), Ok(0));
        assert!(ledger.check(5, Found::Misplaced { block: 4 }).is_err());
        assert!(ledger.check(6, Found::Count(1)).is_err(), "nobody wrote there");
    }

    #[test]
    fn a_ledger_of_another_disk_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        Ledger::create(&path, 9, 10).unwrap();
        assert!(matches!(Ledger::open(&path, 11), Err(LedgerError::OtherSize { was: 10, is: 11 })));
        std::fs::write(&path, "something else").unwrap();
        assert!(matches!(Ledger::open(&path, 10), Err(LedgerError::NotALedger)));
    }
}
