//! Memory for data: aligned for direct I/O, shared without copying.

use alloc::{sync::Arc, vec::Vec};
use core::{fmt, ops::Range};

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::BLOCK;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; BLOCK]);

/// A window onto memory that starts at a block's boundary in RAM. A clone shares the memory; it can
/// be written only while there is one.
#[derive(Clone)]
pub struct Buffer {
    pages: Arc<Vec<Page>>,
    window: Range<usize>,
}

impl Buffer {
    /// All zeros; room for `len` bytes.
    pub fn zeroed(len: usize) -> Self {
        let pages = Page::new_vec_zeroed(len.div_ceil(BLOCK)).unwrap_or_default();
        assert!(pages.len() * BLOCK >= len, "no memory for a buffer of {len} bytes");
        Self { pages: Arc::new(pages), window: 0..len }
    }

    pub fn copy_of(bytes: &[u8]) -> Self {
        let (blocks, tail) = bytes.as_chunks::<BLOCK>();
        // Not by a zeroed buffer, which would write all of the memory twice.
        let mut pages = Vec::with_capacity(bytes.len().div_ceil(BLOCK));
        pages.extend(blocks.iter().map(|block| Page(*block)));
        if !tail.is_empty() {
            let mut last = [0; BLOCK];
            last[..tail.len()].copy_from_slice(tail);
            pages.push(Page(last));
        }
        Self { pages: Arc::new(pages), window: 0..bytes.len() }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.window.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.pages.as_bytes()[self.window.clone()]
    }

    /// The bytes to write to, while nobody else looks at them.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        let pages = Arc::get_mut(&mut self.pages)?;
        Some(&mut pages.as_mut_slice().as_mut_bytes()[self.window.clone()])
    }

    /// A part of it, sharing the memory.
    #[must_use]
    #[inline]
    pub fn slice(&self, part: Range<usize>) -> Self {
        assert!(part.start <= part.end && part.end <= self.len(), "a slice lies within its buffer");
        let start = self.window.start + part.start;
        Self { pages: Arc::clone(&self.pages), window: start..start + part.len() }
    }

    /// Whether it is all of its memory, but for the end of the last block.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.window.start == 0 && self.window.end.div_ceil(BLOCK) == self.pages.len()
    }

    /// Makes it a window onto the first `len` bytes of its memory; false, and nothing is done, if
    /// somebody else looks at them or there are fewer.
    #[inline]
    pub(crate) fn resize(&mut self, len: usize) -> bool {
        let is_ours = Arc::get_mut(&mut self.pages).is_some_and(|own| len <= own.len() * BLOCK);
        if is_ours {
            self.window = 0..len;
        }
        is_ours
    }

    /// Whether the kernel may read or write it past its cache: both ends lie on block boundaries.
    pub fn is_aligned(&self) -> bool {
        self.window.start.is_multiple_of(BLOCK) && self.window.end.is_multiple_of(BLOCK)
    }

    pub fn is_zero(&self) -> bool {
        // By sixteen bytes at a time, which the compiler turns into vector compares.
        let (words, tail) = self.bytes().as_chunks::<16>();
        words.iter().all(|word| *word == [0; 16]) && tail.iter().all(|byte| *byte == 0)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_starts_at_a_block_boundary() {
        let buffer = Buffer::zeroed(3 * BLOCK);
        assert_eq!(buffer.bytes().as_ptr().addr() % BLOCK, 0);
        assert!(buffer.is_aligned());
        assert!(!buffer.slice(0..100).is_aligned());
    }

    #[test]
    fn a_shared_buffer_cannot_be_written() {
        let mut buffer = Buffer::copy_of(b"hello");
        let part = buffer.slice(1..3);
        assert_eq!(part.bytes(), b"el");
        assert!(buffer.get_mut().is_none());
        drop(part);
        assert!(buffer.get_mut().is_some());
    }

    #[test]
    fn zeros_are_told_from_data() {
        assert!(Buffer::zeroed(4096 + 7).is_zero());
        let mut bytes = [0; 100];
        bytes[99] = 1;
        assert!(!Buffer::copy_of(&bytes).is_zero());
    }
}
