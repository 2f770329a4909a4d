//! A disk for tests and simulators that does what disks may do: complete in any order, and at a
//! crash lose, keep or tear whatever was not synced, 512 bytes at a time.

mod contents;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec,
    vec::Vec,
};

use block::Buffer;

use self::contents::Contents;
use crate::{Io, IoError, IoId, codec::index};

const SECTOR: usize = 512;
/// A bit for each sector of a block.
const ALL_SECTORS: u8 = u8::MAX;
const SECTORS: usize = block::BLOCK / SECTOR;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// What completed is there; what was under way may be, in part.
    Process,
    /// Only what was synced is sure to be there.
    Power,
}

#[derive(Clone, Debug)]
pub struct SimDisk {
    /// What a read sees.
    now: Contents,
    /// What survives for sure: the same but for the blocks in `unsynced`.
    stable: Contents,
    /// By block, what was written since, oldest first.
    unsynced: BTreeMap<usize, Vec<Version>>,
    in_flight: Vec<Flight>,
    writes: u64,
    random: u64,
    fails: Fails,
}

#[derive(Clone, Debug)]
struct Version {
    /// The number of the write.
    write: u64,
    data: Buffer,
    /// Those that it reached.
    sectors: u8,
}

#[derive(Clone, Debug)]
struct Flight {
    id: IoId,
    io: Io,
    /// Writes completed when it was given to the disk.
    after: u64,
}

/// What the disk refuses from now on.
#[derive(Clone, Copy, Debug, Default)]
struct Fails {
    syncs: bool,
    /// From this byte on.
    writes: Option<u64>,
    reads: bool,
}

/// The error of a disk that refuses.
pub const REFUSED: IoError = IoError { code: 5 };

impl SimDisk {
    pub fn new(blocks: u64, seed: u64) -> Self {
        Self::holding(Contents::dense(blocks), seed)
    }

    /// Takes memory only for blocks that were written: for a large disk of which little is used.
    pub fn sparse(blocks: u64, seed: u64) -> Self {
        Self::holding(Contents::sparse(blocks), seed)
    }

    fn holding(contents: Contents, seed: u64) -> Self {
        Self {
            now: contents.clone(),
            stable: contents,
            unsynced: BTreeMap::new(),
            in_flight: Vec::new(),
            writes: 0,
            random: seed,
            fails: Fails::default(),
        }
    }

    pub fn blocks(&self) -> u64 {
        u64::try_from(self.now.len() / block::BLOCK).unwrap_or(u64::MAX)
    }

    /// A larger device; what is new reads as zeros.
    pub fn grow(&mut self, blocks: u64) {
        self.now.grow(blocks);
        self.stable.grow(blocks);
    }

    /// As if it had been used before.
    pub fn litter(&mut self) {
        self.now.fill(0xa5);
        self.stable.fill(0xa5);
    }

    /// All of it. A sparse disk has no such thing: it is read in parts.
    pub fn bytes(&self) -> &[u8] {
        self.now.bytes()
    }

    /// What a read sees now; `None` beyond the end.
    pub fn read(&self, offset: u64, len: usize) -> Option<Buffer> {
        self.now.read(index(offset), len)
    }

    /// Changes what is on the disk behind everybody's back.
    pub fn damage(&mut self, offset: usize, flip: u8) {
        for contents in [&mut self.now, &mut self.stable] {
            contents.change(offset, |byte| *byte ^= flip);
        }
    }

    /// Makes the checksum of a block of metadata right again.
    pub fn reseal(&mut self, block: usize) {
        let start = block * block::BLOCK;
        let Some(now) = self.now.read(start, block::BLOCK) else { return };
        let crc = crc32c::crc32c(&now.bytes()[12..]).to_le_bytes();
        for contents in [&mut self.now, &mut self.stable] {
            for (at, byte) in (start + 8..).zip(crc) {
                contents.change(at, |old| *old = byte);
            }
        }
    }

    pub fn fail_syncs(&mut self, yes: bool) {
        self.fails.syncs = yes;
    }

    /// Writes from this byte on.
    pub fn fail_writes(&mut self, from: Option<u64>) {
        self.fails.writes = from;
    }

    pub fn fail_reads(&mut self, yes: bool) {
        self.fails.reads = yes;
    }

    pub fn reseed(&mut self, seed: u64) {
        self.random = seed;
    }

    pub fn submit(&mut self, id: IoId, io: Io) {
        self.in_flight.push(Flight { id, io, after: self.writes });
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Completes one of what is under way, any of it.
    pub fn complete(&mut self) -> Option<(IoId, Result<Option<Buffer>, IoError>)> {
        let count = u64::try_from(self.in_flight.len()).unwrap_or(u64::MAX);
        let at = index(self.draw().checked_rem(count)?);
        let Flight { id, io, after } = self.in_flight.swap_remove(at);
        Some((id, self.perform(&io, after)))
    }

    fn perform(&mut self, io: &Io, after: u64) -> Result<Option<Buffer>, IoError> {
        match io {
            Io::Read { .. } if self.fails.reads => Err(REFUSED),
            Io::Write { offset, .. } if self.fails.writes.is_some_and(|from| *offset >= from) => {
                Err(REFUSED)
            }
            Io::Sync if self.fails.syncs => Err(REFUSED),
            Io::Read { offset, len } => self.read(*offset, *len).map(Some).ok_or(REFUSED),
            Io::Write { offset, data, durability } => {
                self.write(*offset, data);
                if durability.is_durable() {
                    self.settle(index(*offset) / block::BLOCK, data.len() / block::BLOCK);
                }
                Ok(None)
            }
            Io::Sync => {
                self.sync(after);
                Ok(None)
            }
            Io::Discard { offset, len } => {
                // A device may answer anything for what was discarded.
                self.write(*offset, &Buffer::copy_of(&vec![0xdd; index(*len)]));
                Ok(None)
            }
        }
    }

    fn write(&mut self, offset: u64, data: &Buffer) {
        self.writes += 1;
        for (block, data) in blocks_of(offset, data) {
            self.now.put(block, &data);
            let version = Version { write: self.writes, data, sectors: ALL_SECTORS };
            self.unsynced.entry(block).or_default().push(version);
        }
    }

    fn sync(&mut self, after: u64) {
        let stable = &mut self.stable;
        self.unsynced.retain(|block, versions| {
            for version in versions.iter().filter(|version| version.write <= after) {
                stable.put_sectors(*block, &version.data, version.sectors);
            }
            versions.retain(|version| version.write > after);
            !versions.is_empty()
        });
    }

    fn settle(&mut self, first: usize, count: usize) {
        for block in first..first + count {
            self.unsynced.remove(&block);
            self.now.copy_block(block, &mut self.stable);
        }
    }

    /// Whatever was under way ends here, and the disk is as somebody finds it afterwards.
    pub fn crash(&mut self, crash: Crash) {
        // With its power on a disk ends each block that it began.
        let unit = if crash == Crash::Power { 1 } else { block::BLOCK / SECTOR };
        for Flight { io, .. } in core::mem::take(&mut self.in_flight) {
            if let Io::Write { offset, data, .. } = io {
                self.land_in_part(offset, &data, unit);
            }
        }
        if crash == Crash::Power {
            self.lose();
        }
        for block in core::mem::take(&mut self.unsynced).into_keys() {
            self.now.copy_block(block, &mut self.stable);
        }
        self.fails = Fails::default();
    }

    /// All, nothing, or any units of it, each of so many sectors.
    fn land_in_part(&mut self, offset: u64, data: &Buffer, unit: usize) {
        let mode = self.draw() % 3;
        let mut lands = mode == 0;
        self.writes += 1;
        for (block, data) in blocks_of(offset, data) {
            let mut sectors = 0;
            for sector in 0..SECTORS {
                if mode == 1 && sector.is_multiple_of(unit) {
                    lands = self.draw().is_multiple_of(2);
                }
                sectors |= u8::from(lands) << sector;
            }
            if sectors != 0 {
                self.now.put_sectors(block, &data, sectors);
                let version = Version { write: self.writes, data, sectors };
                self.unsynced.entry(block).or_default().push(version);
            }
        }
    }

    fn lose(&mut self) {
        let mode = self.draw() % 4;
        let writes: BTreeSet<u64> = self.unsynced.values().flatten().map(|v| v.write).collect();
        let kept: BTreeSet<u64> =
            writes.into_iter().filter(|_| self.draw().is_multiple_of(2)).collect();
        for (block, versions) in core::mem::take(&mut self.unsynced) {
            self.stable.copy_block(block, &mut self.now);
            for sector in 0..SECTORS {
                let reached = |version: &&Version| version.sectors & 1 << sector != 0;
                let mut versions = versions.iter().filter(reached);
                let survivor = match mode {
                    0 => None,
                    1 => versions.next_back(),
                    2 => versions.rfind(|version| kept.contains(&version.write)),
                    _ => {
                        let count = u64::try_from(versions.clone().count()).unwrap_or(u64::MAX);
                        let drawn = if count == 0 { 0 } else { self.draw() % (count + 1) };
                        versions.nth(index(drawn))
                    }
                };
                if let Some(Version { data, .. }) = survivor {
                    self.now.put_sectors(block, data, 1 << sector);
                }
            }
            self.now.copy_block(block, &mut self.stable);
        }
    }

    /// The next number of a fixed row.
    pub fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// The blocks that a write puts there, each with its part of the data.
fn blocks_of(offset: u64, data: &Buffer) -> impl Iterator<Item = (usize, Buffer)> {
    let offset = index(offset);
    assert!(offset.is_multiple_of(block::BLOCK), "writes begin at blocks");
    assert!(data.len().is_multiple_of(block::BLOCK), "writes are whole blocks");
    let count = data.len() / block::BLOCK;
    (0..count).map(move |at| {
        let part = data.slice(at * block::BLOCK..(at + 1) * block::BLOCK);
        (offset / block::BLOCK + at, part)
    })
}
