//! The journal: batches of records in a ring of blocks.
//!
//! A block's number in the journal (its LSN) never repeats within one import, and its place in the
//! ring follows from it. A batch is one or more blocks and counts whole or not at all. No block is
//! ever written twice, so a torn write cannot take back what an earlier one made durable.

use alloc::{collections::BTreeMap, vec::Vec};

use block::{BLOCK, Buffer};
use model::PoolId;

use crate::{
    codec::{Input, Malformed, index, put_u32, put_u64},
    frame::{self, Magic, PAYLOAD},
    record::Record,
};

const MAGIC: Magic = *b"HoldfPJB";

/// Of each block: incarnation, durable, index in its batch, blocks of its batch, bytes used.
const HEAD: usize = 28;

/// Bytes of records in one block.
pub(crate) const ROOM: usize = PAYLOAD - HEAD;

/// Whose journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub pool: PoolId,
    pub incarnation: u64,
}

/// Blocks that records of `bytes` bytes take.
pub(crate) fn blocks(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(ROOM)).expect("a length fits 64 bits")
}

/// A batch whose first block has number `lsn`. `durable` is the highest batch known to be durable:
/// if a later block says so and the batch is not there, the disk lost it.
pub(crate) fn encode(owner: Owner, lsn: u64, durable: u64, records: &[u8]) -> Buffer {
    let parts = records.chunks(ROOM);
    let count = u32::try_from(parts.len()).expect("a batch is shorter than the ring");
    let mut out = Vec::with_capacity(parts.len() * BLOCK);
    let mut payload = Vec::with_capacity(PAYLOAD);
    for (at, part) in (0u32..).zip(parts) {
        payload.clear();
        put_u64(&mut payload, owner.incarnation);
        put_u64(&mut payload, durable);
        put_u32(&mut payload, at);
        put_u32(&mut payload, count);
        put_u32(&mut payload, u32::try_from(part.len()).expect("a part fits a block"));
        payload.extend_from_slice(part);
        frame::put_frame(&mut out, MAGIC, owner.pool, lsn + u64::from(at), &payload);
    }
    Buffer::copy_of(&out)
}

#[derive(Clone, Debug)]
struct Part {
    durable: u64,
    at: u32,
    count: u32,
    records: Vec<u8>,
}

/// The blocks that were found, before they are put in order.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    owner: Owner,
    tail: u64,
    /// Blocks of the ring.
    ring: u64,
    parts: BTreeMap<u64, Part>,
    /// A later import wrote to the journal: the superblock that counts is not the newest.
    is_outdated: bool,
}

/// A batch that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub lsn: u64,
    pub records: Vec<Record>,
}

/// A durable part of the journal cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub lsn: u64,
}

impl Found {
    pub fn new(owner: Owner, tail: u64, ring: u64) -> Self {
        Self { owner, tail, ring, parts: BTreeMap::new(), is_outdated: false }
    }

    /// The block at `place` in the ring; one that is not ours, not whole, or of an earlier round is
    /// passed over.
    pub fn see(&mut self, place: u64, bytes: &[u8]) {
        let Ok(framed) = frame::unframe(bytes, MAGIC) else { return };
        let is_here = framed.lsn % self.ring == place;
        let is_new = framed.lsn >= self.tail && framed.lsn - self.tail < self.ring;
        if framed.pool != self.owner.pool || !is_here {
            return;
        }
        match part(framed.payload) {
            Ok((incarnation, part)) if incarnation == self.owner.incarnation && is_new => {
                self.parts.insert(framed.lsn, part);
            }
            Ok((incarnation, _)) => self.is_outdated |= incarnation > self.owner.incarnation,
            Err(Malformed) => {}
        }
    }

    /// The batches that count, in order, and the number that the next one gets.
    pub fn batches(&self) -> Result<(Vec<Batch>, u64), Lost> {
        let mut batches = Vec::new();
        let mut next = self.tail;
        while let Some((batch, after)) = self.batch(next) {
            batches.push(batch);
            next = after;
        }
        // What came later was written when `durable` already was: a gap before it is damage, not
        // the end of the journal.
        let durable = self.parts.values().map(|part| part.durable).max().unwrap_or(0);
        if durable >= next || self.is_outdated {
            Err(Lost { lsn: next })
        } else {
            Ok((batches, next))
        }
    }

    fn batch(&self, lsn: u64) -> Option<(Batch, u64)> {
        let count = self.parts.get(&lsn)?.count;
        let mut bytes = Vec::new();
        for at in 0..count {
            let part = self.parts.get(&(lsn + u64::from(at)))?;
            if part.at != at || part.count != count {
                return None;
            }
            bytes.extend_from_slice(&part.records);
        }
        let mut input = Input::new(&bytes);
        let mut records = Vec::new();
        while !input.is_empty() {
            records.push(Record::read(&mut input).ok()?);
        }
        (count > 0).then_some((Batch { lsn, records }, lsn + u64::from(count)))
    }
}

fn part(mut input: Input) -> Result<(u64, Part), Malformed> {
    let incarnation = input.u64()?;
    let (durable, at, count) = (input.u64()?, input.u32()?, input.u32()?);
    let used = index(input.u32()?.into());
    let records = input.take(used)?.into();
    Ok((incarnation, Part { durable, at, count, records }))
}
