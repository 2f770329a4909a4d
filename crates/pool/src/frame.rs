//! The frame of every block of metadata: what it is, whose it is, how new it is, and a checksum.
//!
//! ```text
//! magic 8 | crc32c of all that follows 4 | zero 4 | pool 16 | lsn 8 | payload 4056
//! ```

use alloc::vec::Vec;

use block::{BLOCK, Buffer};
use model::PoolId;

use crate::codec::{Input, Malformed, put_u32, put_u64, put_uuid};

pub(crate) type Magic = [u8; 8];

const HEAD: usize = 40;

/// Bytes of a frame that are its user's.
pub(crate) const PAYLOAD: usize = BLOCK - HEAD;

pub(crate) fn put_frame(out: &mut Vec<u8>, magic: Magic, pool: PoolId, lsn: u64, payload: &[u8]) {
    assert!(payload.len() <= PAYLOAD, "a payload fits its frame");
    let start = out.len();
    out.extend_from_slice(&magic);
    put_u32(out, 0);
    put_u32(out, 0);
    put_uuid(out, pool.0);
    put_u64(out, lsn);
    out.extend_from_slice(payload);
    out.resize(start + BLOCK, 0);
    let crc = crc32c::crc32c(&out[start + 12..]);
    out[start + 8..start + 12].copy_from_slice(&crc.to_le_bytes());
}

pub(crate) fn frame(magic: Magic, pool: PoolId, lsn: u64, payload: &[u8]) -> Buffer {
    let mut bytes = Vec::with_capacity(BLOCK);
    put_frame(&mut bytes, magic, pool, lsn, payload);
    Buffer::copy_of(&bytes)
}

/// What a whole and true frame says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framed<'a> {
    pub pool: PoolId,
    pub lsn: u64,
    pub payload: Input<'a>,
}

pub(crate) fn unframe(bytes: &[u8], magic: Magic) -> Result<Framed<'_>, Malformed> {
    if bytes.len() != BLOCK || bytes[..8] != magic {
        return Err(Malformed);
    }
    let mut input = Input::new(&bytes[8..]);
    if input.u32()? != crc32c::crc32c(&bytes[12..]) || input.u32()? != 0 {
        return Err(Malformed);
    }
    Ok(Framed { pool: PoolId(input.uuid()?), lsn: input.u64()?, payload: input })
}
