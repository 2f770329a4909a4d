//! What a host knows of every block, and therefore what it may read.
//!
//! Each write has a number; every sector of its blocks holds it. A sector may read as any number
//! from its floor to the newest issued: the floor is what was acknowledged, or read while nothing
//! could change it back. When writes that were not flushed are lost and the record says so, the
//! floor is what was flushed.

use block::{BLOCK, Buffer, Extent};

/// What a device may tear a block into.
pub(super) const SECTOR: usize = 512;
const SECTORS: usize = BLOCK / SECTOR;

#[derive(Clone, Debug, Default)]
struct Block {
    /// In order; true for zeros. Never written is a zero of number zero.
    issued: Vec<(u64, bool)>,
    /// Not answered, and the epoch of the target that they were sent to.
    open: Vec<(u64, u64)>,
    floor: [u64; SECTORS],
    acked: u64,
    flushed: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Oracle {
    blocks: Vec<Block>,
    last: u64,
    /// From this epoch on a flush must fail first: unflushed writes may be gone.
    owed: Option<u64>,
    /// The epoch that unflushed writes were last said to be lost by. What an older target said
    /// before that may be heard after it, and is worth nothing.
    lost: u64,
}

fn index(block: u64) -> usize {
    usize::try_from(block).unwrap_or(usize::MAX)
}

/// A block's worth of this number in each sector.
pub(super) fn filled(number: u64, blocks: u32) -> Buffer {
    let words = number.to_le_bytes();
    let len = usize::try_from(blocks).unwrap_or(0) * BLOCK;
    let bytes: Vec<u8> = words.iter().copied().cycle().take(len).collect();
    Buffer::copy_of(&bytes)
}

/// The number that a sector holds; nothing, if it is torn in itself.
fn number(sector: &[u8]) -> Option<u64> {
    let (words, _) = sector.as_chunks::<8>();
    let first = words.first()?;
    words.iter().all(|word| word == first).then(|| u64::from_le_bytes(*first))
}

impl Oracle {
    pub(super) fn new(blocks: u64) -> Self {
        let block = Block { issued: vec![(0, true)], ..Block::default() };
        Self { blocks: vec![block; index(blocks)], last: 0, owed: None, lost: 0 }
    }

    /// The number of a new write.
    pub(super) fn issue(&mut self, extent: Extent, is_zero: bool, epoch: u64) -> u64 {
        self.last += 1;
        let number = self.last;
        for block in self.range(extent) {
            block.issued.push((number, is_zero));
            block.open.push((number, epoch));
        }
        number
    }

    fn range(&mut self, extent: Extent) -> &mut [Block] {
        &mut self.blocks[index(extent.start)..index(extent.end())]
    }

    pub(super) fn acked(&mut self, extent: Extent, number: u64, is_durable: bool, epoch: u64) {
        let is_worthless = epoch < self.lost && !is_durable;
        for block in self.range(extent) {
            block.open.retain(|(open, _)| *open != number);
            if is_worthless {
                continue;
            }
            block.acked = block.acked.max(number);
            for floor in &mut block.floor {
                *floor = (*floor).max(number);
            }
            if is_durable {
                block.flushed = block.flushed.max(number);
            }
        }
    }

    /// It was answered with an error: it may have happened or not, but is not under way any more.
    pub(super) fn failed(&mut self, extent: Extent, number: u64) {
        for block in self.range(extent) {
            block.open.retain(|(open, _)| *open != number);
        }
    }

    /// What a flush that begins now will have made durable.
    pub(super) fn acked_now(&self) -> Vec<u64> {
        self.blocks.iter().map(|block| block.acked).collect()
    }

    pub(super) fn flushed_now(&self) -> Vec<u64> {
        self.blocks.iter().map(|block| block.flushed).collect()
    }

    /// What an image holds in some places: nothing older than what was flushed then.
    pub(super) fn judge_image(
        &self,
        windows: &[Extent],
        data: &[u8],
        flushed: &[u64],
    ) -> Result<(), String> {
        let places = windows.iter().flat_map(Extent::range);
        for (at, bytes) in places.zip(data.chunks(BLOCK)) {
            let floor = flushed.get(index(at)).copied().unwrap_or(0);
            for sector in bytes.chunks(SECTOR) {
                let found = self.blocks[index(at)].judge(sector, floor);
                found.map_err(|words| format!("block {at}: {words}"))?;
            }
        }
        Ok(())
    }

    /// What a read that begins now may not go below.
    pub(super) fn floors(&self, extent: Extent) -> Vec<[u64; SECTORS]> {
        self.blocks[index(extent.start)..index(extent.end())]
            .iter()
            .map(|block| block.floor)
            .collect()
    }

    pub(super) fn flushed(&mut self, acked: &[u64], epoch: u64) -> Result<(), String> {
        if epoch < self.lost {
            return Ok(());
        }
        for (block, acked) in self.blocks.iter_mut().zip(acked) {
            // What was lost since, and said to be, cannot be promised by an older flush.
            block.flushed = block.flushed.max((*acked).min(block.acked));
        }
        match self.owed {
            Some(since) if epoch >= since => {
                Err("a flush succeeds though unflushed writes may be gone".into())
            }
            _ => Ok(()),
        }
    }

    /// True if a flush may fail.
    pub(super) fn flush_failed(&mut self, epoch: u64) -> bool {
        let is_owed = self.owed.is_some();
        // An older target that owes it too does not speak for the newer one.
        self.owed = self.owed.filter(|since| epoch < *since);
        is_owed
    }

    /// The record says that unflushed writes may be gone.
    pub(super) fn lost(&mut self, epoch: u64) {
        self.owed = Some(epoch);
        self.lost = self.lost.max(epoch);
        self.unflushed_gone();
    }

    /// Only what was flushed must be there.
    pub(super) fn unflushed_gone(&mut self) {
        for block in &mut self.blocks {
            block.acked = block.flushed;
            block.floor = [block.flushed; SECTORS];
        }
    }

    /// What was read through a target of this epoch; `floors` as it began.
    pub(super) fn read(
        &mut self,
        extent: Extent,
        floors: &[[u64; SECTORS]],
        data: &[u8],
        epoch: u64,
    ) -> Result<(), String> {
        if data.len() != self.range(extent).len() * BLOCK {
            return Err(format!("a read of {} blocks gives {} bytes", extent.blocks, data.len()));
        }
        let is_worthless = epoch < self.lost;
        let blocks = self.range(extent).iter_mut().zip(floors);
        let found = data.chunks(BLOCK);
        for (at, ((block, floors), bytes)) in (extent.start..).zip(blocks.zip(found)) {
            for (sector, bytes) in bytes.chunks(SECTOR).enumerate() {
                // A loss that was told of meanwhile lowers what may be expected.
                let floor = floors[sector].min(block.floor[sector]);
                let seen = block.judge(bytes, floor).map_err(|words| {
                    format!("block {at} sector {sector}, through epoch {epoch}: {words}")
                })?;
                let is_open = block.open.iter().any(|(open, by)| *open == seen && *by >= epoch);
                if !is_open && !is_worthless {
                    block.floor[sector] = block.floor[sector].max(seen);
                }
            }
        }
        Ok(())
    }

    /// What a copy that counts holds in some places: nothing older than what was flushed.
    pub(super) fn judge_copy(&self, windows: &[Extent], data: &[u8]) -> Result<(), String> {
        let places = windows.iter().flat_map(Extent::range);
        for (at, bytes) in places.zip(data.chunks(BLOCK)) {
            let block = &self.blocks[index(at)];
            for sector in bytes.chunks(SECTOR) {
                block
                    .judge(sector, block.flushed)
                    .map_err(|words| format!("block {at}: {words}, flushed {}", block.flushed))?;
            }
        }
        Ok(())
    }
}

impl Block {
    /// The oldest write that it can be.
    fn judge(&self, sector: &[u8], floor: u64) -> Result<u64, String> {
        let Some(found) = number(sector) else { return Err("reads garbage".into()) };
        let is_it = |(number, is_zero): &&(u64, bool)| {
            *number >= floor && if found == 0 { *is_zero } else { *number == found && !is_zero }
        };
        if let Some((number, _)) = self.issued.iter().find(is_it) {
            return Ok(*number);
        }
        let newest = self.issued.last().map_or(0, |(number, _)| *number);
        Err(format!("reads {found}, expected {floor} to {newest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Extent = Extent::new(0, 1);

    fn read(oracle: &mut Oracle, number: u64) -> Result<(), String> {
        let floors = oracle.floors(ONE);
        oracle.read(ONE, &floors, filled(number, 1).bytes(), 1)
    }

    #[test]
    fn a_read_below_what_was_acknowledged_is_noticed() {
        let mut oracle = Oracle::new(1);
        let first = oracle.issue(ONE, false, 1);
        let second = oracle.issue(ONE, false, 1);
        assert_eq!(read(&mut oracle, 0), Ok(()));
        oracle.acked(ONE, first, false, 1);
        assert!(read(&mut oracle, 0).is_err());
        assert_eq!(read(&mut oracle, second), Ok(()));
        assert_eq!(read(&mut oracle, first), Ok(()), "the second is under way");
        assert!(read(&mut oracle, 77).is_err());
    }

    #[test]
    fn what_was_read_through_a_later_target_does_not_flip_back() {
        let mut oracle = Oracle::new(1);
        let first = oracle.issue(ONE, false, 0);
        assert_eq!(read(&mut oracle, first), Ok(()));
        assert!(read(&mut oracle, 0).is_err());
    }

    #[test]
    fn a_loss_that_is_told_lowers_the_floor_to_what_was_flushed() {
        let mut oracle = Oracle::new(1);
        let first = oracle.issue(ONE, false, 1);
        oracle.acked(ONE, first, false, 1);
        oracle.flushed(&oracle.acked_now(), 1).unwrap();
        let second = oracle.issue(ONE, true, 1);
        oracle.acked(ONE, second, false, 1);
        assert!(read(&mut oracle, first).is_err());
        oracle.lost(2);
        assert_eq!(read(&mut oracle, first), Ok(()));
        assert!(oracle.flushed(&[second], 2).is_err());
        assert!(oracle.flush_failed(2) && !oracle.flush_failed(2));
        assert!(oracle.judge_copy(&[ONE], filled(first, 1).bytes()).is_ok());
        let late = oracle.issue(ONE, false, 1);
        oracle.acked(ONE, late, false, 1);
        assert_eq!(read(&mut oracle, first), Ok(()), "an answer from before the loss");
    }
}
