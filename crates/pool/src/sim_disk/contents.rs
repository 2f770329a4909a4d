//! What a simulated disk holds: all bytes in a row, or only the blocks that were written.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use block::{BLOCK, Buffer};

use super::{ALL_SECTORS, SECTOR};
use crate::codec::index;

#[derive(Clone, Debug)]
pub(super) enum Contents {
    Dense(Vec<u8>),
    Sparse {
        len: usize,
        /// What a block holds that was never written.
        blank: u8,
        /// Shared with whoever wrote them: nobody copies what only passes through.
        blocks: BTreeMap<usize, Buffer>,
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
                if len == BLOCK
                    && offset.is_multiple_of(BLOCK)
                    && let Some(block) = blocks.get(&(offset / BLOCK))
                {
                    return Some(block.clone());
                }
                let mut read = vec![*blank; len];
                let first = offset / BLOCK;
                for (block, data) in blocks.range(first..(offset + len).div_ceil(BLOCK)) {
                    let start = (block * BLOCK).max(offset);
                    let end = ((block + 1) * BLOCK).min(offset + len);
                    let part = &data.bytes()[start - block * BLOCK..end - block * BLOCK];
                    read[start - offset..end - offset].copy_from_slice(part);
                }
                Some(Buffer::copy_of(&read))
            }
        }
    }

    /// One whole block.
    pub(super) fn put(&mut self, block: usize, data: &Buffer) {
        match self {
            Self::Dense(all) => all[block * BLOCK..][..BLOCK].copy_from_slice(data.bytes()),
            Self::Sparse { len, blocks, .. } => {
                assert!((block + 1) * BLOCK <= *len, "writes end before the disk does");
                blocks.insert(block, data.clone());
            }
        }
    }

    /// Within one block.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        match self {
            Self::Dense(all) => all[offset..offset + bytes.len()].copy_from_slice(bytes),
            Self::Sparse { len, blank, blocks } => {
                assert!(offset + bytes.len() <= *len, "writes end before the disk does");
                let old = blocks.get(&(offset / BLOCK));
                let mut block = old.map_or_else(|| vec![*blank; BLOCK], |old| old.bytes().to_vec());
                block[offset % BLOCK..][..bytes.len()].copy_from_slice(bytes);
                blocks.insert(offset / BLOCK, Buffer::copy_of(&block));
            }
        }
    }

    /// The sectors of a block that are set in the mask.
    pub(super) fn put_sectors(&mut self, block: usize, data: &Buffer, sectors: u8) {
        if sectors == ALL_SECTORS {
            return self.put(block, data);
        }
        for sector in (0..BLOCK / SECTOR).filter(|sector| sectors & 1 << sector != 0) {
            let part = &data.bytes()[sector * SECTOR..][..SECTOR];
            self.write(block * BLOCK + sector * SECTOR, part);
        }
    }

    pub(super) fn change(&mut self, offset: usize, change: impl FnOnce(&mut u8)) {
        let Some(old) = self.read(offset, 1) else { return };
        let mut byte = old.bytes()[0];
        change(&mut byte);
        self.write(offset, &[byte]);
    }

    pub(super) fn copy_block(&self, block: usize, to: &mut Self) {
        match (self, &mut *to) {
            (Self::Dense(from), Self::Dense(to)) => {
                let place = block * BLOCK..(block + 1) * BLOCK;
                to[place.clone()].copy_from_slice(&from[place]);
            }
            (Self::Sparse { blocks, .. }, Self::Sparse { blocks: to, .. }) => {
                match blocks.get(&block) {
                    Some(data) => to.insert(block, data.clone()),
                    None => to.remove(&block),
                };
            }
            _ => {
                if let Some(data) = self.read(block * BLOCK, BLOCK) {
                    to.put(block, &data);
                }
            }
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
            contents.put(1, &Buffer::copy_of(&[7; BLOCK]));
            contents.put_sectors(2, &Buffer::copy_of(&[7; BLOCK]), 0b1010_0110);
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
