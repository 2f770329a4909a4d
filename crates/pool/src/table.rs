//! The cluster table: who owns each cluster, and which of its pages hold data.

use alloc::vec::Vec;

use model::PoolId;

use crate::{
    codec::{Input, Malformed, put_u32, put_u64},
    frame::{self, Magic},
    geometry::ENTRIES,
    record::{LayerId, Record},
};

pub(crate) const MAGIC: Magic = *b"HoldfPCT";

/// What is durable about a cluster. Free if no page is valid, or if the layer is no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub layer: LayerId,
    /// Which cluster of the layer.
    pub logical: u32,
    /// Pages that hold data; no other page of it can ever be read.
    pub valid: u64,
}

impl Entry {
    pub const FREE: Self = Self { layer: 0, logical: 0, valid: 0 };

    /// What it becomes by a record about its cluster.
    #[must_use]
    pub fn after(self, record: &Record) -> Self {
        match *record {
            Record::Map { layer, logical, pages, .. } => {
                let same = self.layer == layer && self.logical == logical;
                let kept = if same { self.valid } else { 0 };
                Self { layer, logical, valid: kept | pages }
            }
            Record::Move { layer, logical, pages, .. } => Self { layer, logical, valid: pages },
            Record::Unmap { layer, pages, .. } if self.layer == layer => {
                Self { valid: self.valid & !pages, ..self }
            }
            Record::Free { .. } => Self::FREE,
            _ => self,
        }
        .tidy()
    }

    /// Nothing in it: nobody's.
    fn tidy(self) -> Self {
        if self.valid == 0 { Self::FREE } else { self }
    }
}

/// One slot of one page of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub lsn: u64,
    pub entries: Vec<Entry>,
}

/// `entries` has at most as many as a page describes.
pub(crate) fn put_page(
    out: &mut Vec<u8>,
    pool: PoolId,
    page: u64,
    lsn: u64,
    entries: impl Iterator<Item = Entry>,
) {
    let mut payload = Vec::with_capacity(frame::PAYLOAD);
    put_u64(&mut payload, page);
    for Entry { layer, logical, valid } in entries {
        put_u32(&mut payload, layer);
        put_u32(&mut payload, logical);
        put_u64(&mut payload, valid);
        // Room for what is not kept yet: the hash of a frozen cluster.
        put_u64(&mut payload, 0);
        put_u64(&mut payload, 0);
    }
    frame::put_frame(out, MAGIC, pool, lsn, &payload);
}

/// `None` if it is torn, of another pool, or of another page.
pub(crate) fn read_page(bytes: &[u8], pool: PoolId, page: u64) -> Option<Slot> {
    let framed = frame::unframe(bytes, MAGIC).ok().filter(|framed| framed.pool == pool)?;
    let mut input = framed.payload;
    if input.u64().ok()? != page {
        return None;
    }
    let entries = (0..ENTRIES).map(|_| entry(&mut input)).collect::<Result<_, _>>().ok()?;
    Some(Slot { lsn: framed.lsn, entries })
}

/// Whatever is there, as a pool without checksums would take it: to show that tests notice.
pub(crate) fn read_torn(bytes: &[u8], page: u64) -> Option<Slot> {
    let mut input = Input::new(bytes.get(32..)?);
    let lsn = input.u64().ok()?;
    if !bytes.starts_with(&MAGIC) || input.u64().ok()? != page {
        return None;
    }
    let entries = (0..ENTRIES).map(|_| entry(&mut input)).collect::<Result<_, _>>().ok()?;
    Some(Slot { lsn, entries })
}

fn entry(input: &mut Input) -> Result<Entry, Malformed> {
    let entry = Entry { layer: input.u32()?, logical: input.u32()?, valid: input.u64()? };
    input.take(16)?;
    Ok(entry)
}
