//! The superblock: where everything lies and where replay begins.

use alloc::{string::String, vec::Vec};

use block::Buffer;
use model::PoolId;

use crate::{
    Boot,
    codec::{Input, Malformed, put_bytes, put_u8, put_u32, put_u64},
    frame::{self, Magic},
    geometry::{Area, Geometry},
};

pub(crate) const MAGIC: Magic = *b"HoldfPSB";
const VERSION: u32 = 1;

/// A feature that forbids any use by programs that do not know it: notes of flushes, and of what
/// peers have flushed. Pools without it are read, and have it from the next superblock on.
const FLUSH_MARKS: u32 = 1;

/// Numbers that only count up never come near this, and can be counted on from it.
const MOST: u64 = 1 << 62;

/// Longest name of a pool, in bytes.
pub const NAME: usize = 128;

/// Four copies, two at each end of the device; of each pair the older is overwritten, so that a
/// torn write leaves the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub pool: PoolId,
    pub name: String,
    /// Counts the superblocks written; the highest counts.
    pub sequence: u64,
    /// Counts the imports: blocks of the journal that an earlier one left behind are not ours.
    pub incarnation: u64,
    pub geometry: Geometry,
    /// Replay begins here.
    pub tail: u64,
    pub catalog: CatalogAt,
    /// Pages of the table below this were written at least once.
    pub table_written: u64,
    /// Exported: nothing to replay, and whoever kept something in memory had it written.
    pub is_clean: bool,
    /// The boot of the machine that wrote it: after a crash within the same boot nothing that was
    /// handed to the kernel is lost.
    pub boot: Boot,
}

/// Where the newest catalog is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CatalogAt {
    pub area: u8,
    pub lsn: u64,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    #[error("no superblock of a pool")]
    Absent,
    #[error("a format of version {version}, which this program does not know")]
    Version { version: u32 },
    #[error("the format uses features {features:#x}, which this program does not know")]
    Features { features: u32 },
}

impl Superblock {
    pub fn encode(&self) -> Buffer {
        let mut out = Vec::new();
        put_u32(&mut out, VERSION);
        // Features that may be ignored, that forbid any use, that forbid changing.
        for features in [0, FLUSH_MARKS, 0] {
            put_u32(&mut out, features);
        }
        put_u64(&mut out, self.incarnation);
        put_geometry(&mut out, &self.geometry);
        put_u64(&mut out, self.tail);
        put_u8(&mut out, self.catalog.area);
        put_u64(&mut out, self.catalog.lsn);
        put_u64(&mut out, self.catalog.bytes);
        put_u64(&mut out, self.table_written);
        put_u8(&mut out, self.is_clean.into());
        out.extend_from_slice(&self.boot.0.to_le_bytes());
        put_bytes(&mut out, self.name.as_bytes());
        frame::frame(MAGIC, self.pool, self.sequence, &out)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, SuperblockError> {
        let framed = frame::unframe(bytes, MAGIC).map_err(|_| SuperblockError::Absent)?;
        let mut input = framed.payload;
        let absent = |_: Malformed| SuperblockError::Absent;
        let version = input.u32().map_err(absent)?;
        if version != VERSION {
            return Err(SuperblockError::Version { version });
        }
        let (_may_ignore, features) = (input.u32().map_err(absent)?, input.u32().map_err(absent)?);
        // Without knowing a feature that forbids changes we could only read; importing changes.
        let features = (features & !FLUSH_MARKS) | input.u32().map_err(absent)?;
        if features != 0 {
            return Err(SuperblockError::Features { features });
        }
        Self::body(framed.pool, framed.lsn, &mut input).map_err(absent)
    }

    fn body(pool: PoolId, sequence: u64, input: &mut Input) -> Result<Self, Malformed> {
        let superblock = Self {
            pool,
            sequence,
            incarnation: input.u64()?,
            geometry: geometry(input)?,
            tail: input.u64()?,
            catalog: CatalogAt { area: input.u8()?, lsn: input.u64()?, bytes: input.u64()? },
            table_written: input.u64()?,
            is_clean: input.bool()?,
            boot: Boot(input.u128()?),
            name: input.text()?,
        };
        let numbers = [sequence, superblock.incarnation, superblock.tail, superblock.catalog.lsn];
        let is_sound = superblock.geometry.is_sound()
            && superblock.tail > 0
            && numbers.iter().all(|number| *number < MOST)
            && superblock.catalog.area < 2
            && superblock.table_written <= superblock.geometry.table.blocks / 2
            && superblock.name.len() <= NAME;
        if is_sound { Ok(superblock) } else { Err(Malformed) }
    }
}

fn put_geometry(out: &mut Vec<u8>, geometry: &Geometry) {
    let Geometry { blocks, journal, catalogs: [first, second], table, data, clusters } = geometry;
    put_u64(out, *blocks);
    for area in [journal, first, second, table] {
        put_u64(out, area.start);
        put_u64(out, area.blocks);
    }
    put_u64(out, *data);
    put_u64(out, *clusters);
}

fn geometry(input: &mut Input) -> Result<Geometry, Malformed> {
    let area = |input: &mut Input| Ok(Area { start: input.u64()?, blocks: input.u64()? });
    Ok(Geometry {
        blocks: input.u64()?,
        journal: area(input)?,
        catalogs: [area(input)?, area(input)?],
        table: area(input)?,
        data: input.u64()?,
        clusters: input.u64()?,
    })
}
