//! What a simulated disk holds: all bytes in a row, or only the blocks that were written.

use alloc::{boxed::Box, collections::BTreeMap, vec, vec::Vec};

use block::{BLOCK, Buffer};

use super::SECTOR;
use crate::codec::index;

#[derive(Clone, Debug)]
pub(super) enum Contents {
    Dense(Vec<u8>),
    Sparse {
        len: usize,
        /// What a block holds that was never written.
        blank: u8,
        blocks: BTreeMap<usize, Box<[u8; BLOCK]>>,
    },
}

impl Contents {
    pub(super) fn dense(blocks: u64) -> Self {
        Self::Dense(vec![0; index(blocks) * BLOCK])
    }

    pub(super) fn sparse(blocks: u64) -> Self {
        Self::Sparse { len: index(blocks) * BLOCK, blank: 0, blocks: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Dense(bytes) => bytes.len(),
            Self::Sparse { len, .. } => *len,
        }
    }

    pub(super) fn grow(&mut self, to: u64) {
        let to = index(to) * BLOCK;
        match self {
            Self::Dense(bytes) => bytes.resize(to, 0),
            Self::Sparse { len, .. } => *len = to,
        }
    }

    pub(super) fn fill(&mut self, byte: u8) {
        match self {
            Self::Dense(bytes) => bytes.fill(byte),
            Self::Sparse { blank, blocks, .. } => {
                *blank = byte;
                blocks.clear();
            }
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Dense(bytes) => bytes,
            Self::Sparse { .. } => &[],
        }
    }

    pub(super) fn read(&self, offset: usize, len: usize) -> Option<Buffer> {
        match self {
            Self::Dense(bytes) => bytes.get(offset..offset + len).map(Buffer::copy_of),
            Self::Sparse { len: end, .. } if offset + len > *end => None,
            Self::Sparse { blank, blocks, .. } => {
                let mut read = vec![*blank; len];
                let first = offset / BLOCK;
                for (block, data) in blocks.range(first..(offset + len).div_ceil(BLOCK)) {
                    let start = (block * BLOCK).max(offset);
                    let end = ((block + 1) * BLOCK).min(offset + len);
                    let part = &data[start - block * BLOCK..end - block * BLOCK];
                    read[start - offset..end - offset].copy_from_slice(part);
                }
                Some(Buffer::copy_of(&read))
            }
        }
    }

    /// Within one block, or whole blocks.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        match self {
            Self::Dense(all) => all[offset..offset + bytes.len()].copy_from_slice(bytes),
            Self::Sparse { len, blank, blocks } => {
                assert!(offset + bytes.len() <= *len, "writes end before the disk does");
                let (mut at, mut rest) = (offset, bytes);
                while !rest.is_empty() {
                    let within = at % BLOCK;
                    let (part, after) = rest.split_at(rest.len().min(BLOCK - within));
                    let blank = *blank;
                    let block =
                        blocks.entry(at / BLOCK).or_insert_with(|| Box::new([blank; BLOCK]));
                    block[within..within + part.len()].copy_from_slice(part);
                    (at, rest) = (at + part.len(), after);
                }
            }
        }
    }

    pub(super) fn change(&mut self, offset: usize, change: impl FnOnce(&mut u8)) {
        let Some(old) = self.read(offset, 1) else { return };
        let mut byte = old.bytes()[0];
        change(&mut byte);
        self.write(offset, &[byte]);
    }

    pub(super) fn copy_sector(&self, sector: usize, to: &mut Self) {
        if let (Self::Dense(from), Self::Dense(to)) = (self, &mut *to) {
            let place = sector * SECTOR..(sector + 1) * SECTOR;
            to[place.clone()].copy_from_slice(&from[place]);
        } else if let Some(data) = self.read(sector * SECTOR, SECTOR) {
            to.write(sector * SECTOR, data.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_disk_reads_as_a_dense_one() {
        let (mut dense, mut sparse) = (Contents::dense(8), Contents::sparse(8));
        for contents in [&mut dense, &mut sparse] {
            contents.fill(0xa5);
            contents.write(BLOCK, &[7; 2 * BLOCK]);
            contents.write(5 * BLOCK + SECTOR, &[9; SECTOR]);
            contents.change(6 * BLOCK + 1, |byte| *byte ^= 1);
        }
        for (offset, len) in [(0, 8 * BLOCK), (BLOCK + 100, 3 * BLOCK), (5 * BLOCK, BLOCK)] {
            let read = |contents: &Contents| contents.read(offset, len).unwrap();
            assert_eq!(read(&dense).bytes(), read(&sparse).bytes(), "{offset} {len}");
        }
        assert!(sparse.read(7 * BLOCK, 2 * BLOCK).is_none());
    }
}
