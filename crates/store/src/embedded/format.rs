//! The bytes of a store file around its frames: header, marks, checksums.
//!
//! ```text
//!      0  header   magic, version, generation .................. CRC-32C in the last 4 bytes
//!    512  mark     } two, written in turn: so many bytes are synced, and their checksum;
//!   1024  mark     } each with a CRC-32C of its own
//!   4096  frames   length u32, CRC-32C u32, that many bytes; and again
//! ```
//! A frame's checksum continues that of the frame before, and the first one the header's: a frame
//! that is changed, missing, repeated or from another file fails. A mark is written after its
//! frames are synced, and is synced together with the next ones: it never claims more than is on
//! the disk.

use std::io::{self, Read};

use super::report::{Broken, Fault};

const FRONT: usize = 4096;
pub(super) const FRAMES_START: u64 = FRONT as u64;

const SECTOR: usize = 512;
const MAGIC: [u8; 16] = *b"holdfast-store\n\0";
const VERSION: u32 = 1;
const FRAME_HEAD: usize = 8;

/// The first sector of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Counts the rewrites of a store, so that the frames of two files never fit each other.
    pub(super) generation: u64,
}

/// How far a file is known to be synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) sequence: u64,
    pub(super) length: u64,
    /// The checksum of the frame that ends at `length`.
    pub(super) chain: u32,
}

impl Header {
    /// The header's bytes, and the checksum that the first frame continues.
    pub(super) fn encode(self) -> ([u8; SECTOR], u32) {
        let mut sector = [0; SECTOR];
        sector[..16].copy_from_slice(&MAGIC);
        sector[16..20].copy_from_slice(&VERSION.to_le_bytes());
        sector[20..28].copy_from_slice(&self.generation.to_le_bytes());
        let chain = seal(&mut sector);
        (sector, chain)
    }

    /// The header and the checksum that the first frame continues.
    fn decode(sector: &[u8; SECTOR]) -> Result<(Self, u32), Broken> {
        if sector[..16] != MAGIC {
            return Err(Broken::at(0, "this is not a store file"));
        }
        let chain =
            unseal(sector).ok_or_else(|| Broken::at(0, "the header's checksum is wrong"))?;
        let version = u32_at(sector, 16);
        if version != VERSION {
            let why = format!("format {version} is unknown: this release reads {VERSION}");
            return Err(Broken { offset: 0, why });
        }
        Ok((Self { generation: u64_at(sector, 20) }, chain))
    }
}

impl Mark {
    /// Where the mark goes: not over the newest one.
    pub(super) fn offset(self) -> u64 {
        (SECTOR as u64) * (1 + self.sequence % 2)
    }

    pub(super) fn encode(self) -> [u8; SECTOR] {
        let mut sector = [0; SECTOR];
        sector[..8].copy_from_slice(&self.sequence.to_le_bytes());
        sector[8..16].copy_from_slice(&self.length.to_le_bytes());
        sector[16..20].copy_from_slice(&self.chain.to_le_bytes());
        seal(&mut sector);
        sector
    }

    fn decode(sector: &[u8; SECTOR]) -> Option<Self> {
        unseal(sector)?;
        Some(Self {
            sequence: u64_at(sector, 0),
            length: u64_at(sector, 8),
            chain: u32_at(sector, 16),
        })
    }
}

/// What stands before the frames.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) header: Header,
    pub(super) chain: u32,
    /// The newest mark that can be read.
    pub(super) mark: Mark,
    /// Whether the other one can be read too.
    pub(super) is_mark_doubled: bool,
}

impl Front {
    pub(super) fn read(input: &mut impl Read) -> Result<Self, Fault> {
        let mut front = [0; FRONT];
        input.read_exact(&mut front).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Fault::Broken(Broken::at(0, "it is shorter than its header"))
            }
            _ => Fault::Io(error),
        })?;
        let (sectors, _) = front.as_chunks::<SECTOR>();
        let marks = [Mark::decode(&sectors[1]), Mark::decode(&sectors[2])];
        let (header, chain) = Header::decode(&sectors[0]).map_err(Fault::Broken)?;
        let is_mark_doubled = marks.iter().all(Option::is_some);
        // Only one mark is written at a time, so no crash can cost both. Without any nobody can
        // tell whether the end of the file is missing.
        let mark =
            marks.into_iter().flatten().max_by_key(|mark| mark.sequence).ok_or_else(|| {
                Fault::Broken(Broken::at(SECTOR as u64, "both marks are unreadable"))
            })?;
        Ok(Self { header, chain, mark, is_mark_doubled })
    }
}

/// Appends one frame to `out`, continuing `chain`.
pub(super) fn seal_frame(out: &mut Vec<u8>, chain: &mut u32, encode: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEAD]);
    encode(out);
    let length = out.len() - start - FRAME_HEAD;
    let length = u32::try_from(length).expect("limits keep a frame far below 4 GiB").to_le_bytes();
    *chain =
        crc32c::crc32c_append(crc32c::crc32c_append(*chain, &length), &out[start + FRAME_HEAD..]);
    out[start..start + 4].copy_from_slice(&length);
    out[start + 4..start + 8].copy_from_slice(&chain.to_le_bytes());
}

/// Reads frames one by one up to the end of a file of known length.
#[derive(Debug)]
pub(super) struct Frames<R> {
    pub(super) input: R,
    /// Where the next frame starts.
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) chain: u32,
}

impl<R: Read> Frames<R> {
    /// The next frame's bytes, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let left = self.length.saturating_sub(self.offset);
        if left == 0 {
            return Ok(None);
        }
        let torn = |why: &str| Err(Fault::Torn(Broken::at(self.offset, why)));
        if left < FRAME_HEAD as u64 {
            return torn("the file ends inside a record");
        }
        let mut head = [0; FRAME_HEAD];
        self.input.read_exact(&mut head)?;
        let (length, sealed) = (&head[..4], u32_at(&head, 4));
        let bytes = u64::from(u32_at(&head, 0));
        if bytes > left - FRAME_HEAD as u64 {
            return torn("the file ends inside a record");
        }
        let mut body = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        self.input.read_exact(&mut body)?;
        let chain = crc32c::crc32c_append(crc32c::crc32c_append(self.chain, length), &body);
        if chain != sealed {
            return torn("a record's checksum is wrong");
        }
        self.offset += FRAME_HEAD as u64 + bytes;
        self.chain = chain;
        Ok(Some(body))
    }
}

fn seal(sector: &mut [u8; SECTOR]) -> u32 {
    let sealed = crc32c::crc32c(&sector[..SECTOR - 4]);
    sector[SECTOR - 4..].copy_from_slice(&sealed.to_le_bytes());
    sealed
}

fn unseal(sector: &[u8; SECTOR]) -> Option<u32> {
    let sealed = u32_at(sector, SECTOR - 4);
    (sealed == crc32c::crc32c(&sector[..SECTOR - 4])).then_some(sealed)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | (u64::from(u32_at(bytes, at + 4)) << 32)
}
