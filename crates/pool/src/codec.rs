//! Numbers and byte strings in little-endian, written to a vector and read with every length
//! checked: whatever is on the disk, reading it never panics and never asks for more memory than
//! there are bytes.

use alloc::{string::String, vec::Vec};

use block::Bitmap;
use uuid::Uuid;

/// Bytes that do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes do not decode")]
pub struct Malformed;

/// A number that came from a u64 or u32 of ours and is used as an index.
pub(crate) fn index(value: u64) -> usize {
    usize::try_from(value).expect("an index fits the machine")
}

pub(crate) fn put_u8(out: &mut Vec<u8>, value: u8) {
    out.push(value);
}

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_uuid(out: &mut Vec<u8>, value: Uuid) {
    out.extend_from_slice(value.as_bytes());
}

pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    put_u32(out, u32::try_from(count).expect("a list is shorter than its limit"));
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(crate) fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    put_count(out, numbers.len());
    for number in numbers {
        put_u64(out, *number);
    }
}

/// What is left to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn u128(&mut self) -> Result<u128, Malformed> {
        self.array().map(u128::from_le_bytes)
    }

    pub fn uuid(&mut self) -> Result<Uuid, Malformed> {
        self.array().map(Uuid::from_bytes)
    }

    /// How many items follow, each of at least `least` bytes: never more than can be there.
    pub fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        let bytes = count.checked_mul(least).ok_or(Malformed)?;
        if bytes > self.bytes.len() { Err(Malformed) } else { Ok(count) }
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let count = self.count(1)?;
        self.take(count)
    }

    pub fn text(&mut self) -> Result<String, Malformed> {
        core::str::from_utf8(self.bytes()?).map(String::from).map_err(|_| Malformed)
    }

    pub fn numbers(&mut self) -> Result<Vec<u64>, Malformed> {
        let count = self.count(8)?;
        (0..count).map(|_| self.u64()).collect()
    }

    pub fn bitmap(&mut self) -> Result<Bitmap, Malformed> {
        self.numbers().map(Bitmap::from_words)
    }
}
