//! What a verifying workload writes: every block says which block it is and how often it was
//! written, and all of its bytes follow from that.

use block::BLOCK;

const MAGIC: [u8; 8] = *b"hfverify";
const HEAD: usize = 32;

/// What a block was found to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All zeros: never written.
    Zeros,
    /// Whole, and the result of this many writes.
    Count(u32),
    /// Whole, but of another block: a write or read that went astray.
    Misplaced {
        block: u64,
    },
    /// Of another disk or of an earlier fill.
    Foreign,
    /// Begins well and goes on wrong, from this byte on.
    Torn {
        at: usize,
    },
    Garbage,
}

/// Fills one block.
pub fn fill(bytes: &mut [u8], seed: u64, block: u64, count: u32) {
    let (head, body) = bytes.split_at_mut(HEAD);
    head[..8].copy_from_slice(&MAGIC);
    head[8..16].copy_from_slice(&seed.to_le_bytes());
    head[16..24].copy_from_slice(&block.to_le_bytes());
    head[24..28].copy_from_slice(&count.to_le_bytes());
    let check = crc32c::crc32c(&head[..28]);
    head[28..32].copy_from_slice(&check.to_le_bytes());
    let mut words = Words::new(seed, block, count);
    for chunk in body.chunks_exact_mut(8) {
        chunk.copy_from_slice(&words.next().to_le_bytes());
    }
}

/// What `bytes`, read as `block` of the disk that was filled with `seed`, hold.
pub fn look(bytes: &[u8], seed: u64, block: u64) -> Found {
    debug_assert_eq!(bytes.len(), BLOCK);
    if bytes.iter().all(|byte| *byte == 0) {
        return Found::Zeros;
    }
    let (head, body) = bytes.split_at(HEAD);
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let half = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
    if head[..8] != MAGIC || half(28) != crc32c::crc32c(&head[..28]) {
        return Found::Garbage;
    }
    let count = half(24);
    let mut words = Words::new(word(8), word(16), count);
    for (index, chunk) in body.chunks_exact(8).enumerate() {
        if chunk != words.next().to_le_bytes() {
            return Found::Torn { at: HEAD + index * 8 };
        }
    }
    match (word(8) == seed, word(16)) {
        (false, _) => Found::Foreign,
        (true, own) if own != block => Found::Misplaced { block: own },
        (true, _) => Found::Count(count),
    }
}

/// The finaliser of splitmix64 over a counter: cheap, and no two blocks share a stretch.
struct Words {
    state: u64,
}

impl Words {
    fn new(seed: u64, block: u64, count: u32) -> Self {
        let state = seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(count) << 32);
        Self { state }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(seed: u64, block: u64, count: u32) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        fill(&mut bytes, seed, block, count);
        bytes
    }

    #[test]
    fn a_block_tells_where_it_belongs_and_how_old_it_is() {
        assert_eq!(look(&made(1, 7, 3), 1, 7), Found::Count(3));
        assert_eq!(look(&made(1, 7, 3), 1, 8), Found::Misplaced { block: 7 });
        assert_eq!(look(&made(2, 7, 3), 1, 7), Found::Foreign);
        assert_eq!(look(&[0; BLOCK], 1, 7), Found::Zeros);
    }

    #[test]
    fn a_torn_block_is_never_taken_for_a_whole_one() {
        let (old, new) = (made(1, 7, 3), made(1, 7, 4));
        for cut in (512..BLOCK).step_by(512) {
            let mut torn = new.clone();
            torn[cut..].copy_from_slice(&old[cut..]);
            assert_eq!(look(&torn, 1, 7), Found::Torn { at: cut });
        }
        let mut flipped = new;
        flipped[20] ^= 1;
        assert_eq!(look(&flipped, 1, 7), Found::Garbage);
    }
}
