//! Commands of 64 bytes and completions of 16, for every queue.

use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

/// Opcodes of admin queues.
pub mod admin {
    pub const GET_LOG_PAGE: u8 = 0x02;
    pub const IDENTIFY: u8 = 0x06;
    pub const ABORT: u8 = 0x08;
    pub const SET_FEATURES: u8 = 0x09;
    pub const GET_FEATURES: u8 = 0x0a;
    pub const ASYNC_EVENT: u8 = 0x0c;
    pub const KEEP_ALIVE: u8 = 0x18;
    pub const VENDOR_FIRST: u8 = 0xc0;
}

/// Opcodes of I/O queues.
pub mod io {
    pub const FLUSH: u8 = 0x00;
    pub const WRITE: u8 = 0x01;
    pub const READ: u8 = 0x02;
    pub const COMPARE: u8 = 0x05;
    pub const WRITE_ZEROES: u8 = 0x08;
    pub const DATASET: u8 = 0x09;
    pub const VERIFY: u8 = 0x0c;
    pub const RESERVATION_REGISTER: u8 = 0x0d;
    pub const RESERVATION_REPORT: u8 = 0x0e;
    pub const RESERVATION_ACQUIRE: u8 = 0x11;
    pub const RESERVATION_RELEASE: u8 = 0x15;
    /// Of our own, the first of those left to vendors; no data. Words 10 and 11 are its number.
    pub const NUMBERED_FLUSH: u8 = 0x80;
}

/// The opcode of all fabrics commands; what they are is their fabrics type.
pub const FABRICS: u8 = 0x7f;

/// Types of fabrics commands.
pub mod fabrics {
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
    pub const DISCONNECT: u8 = 0x08;
}

/// Force unit access, in the third command word of a write.
pub const FUA: u32 = 1 << 30;
/// Deallocate, in the third command word of Write Zeroes.
pub const DEAC: u32 = 1 << 25;
/// Deallocate, in the second command word of Dataset Management.
pub const DATASET_DEALLOCATE: u32 = 1 << 2;

/// A command.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Sqe {
    pub opcode: u8,
    pub flags: u8,
    pub cid: U16,
    pub nsid: U32,
    pub reserved: U64,
    pub metadata: U64,
    pub sgl: Sgl,
    /// Command words 10 to 15.
    pub words: [U32; 6],
}

/// Where a command's data is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Sgl {
    pub address: U64,
    pub length: U32,
    pub reserved: [u8; 3],
    /// Type in the upper half, sub type in the lower.
    pub id: u8,
}

/// What a descriptor means over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the capsule, from this offset on.
    Inline { offset: u64 },
    /// Sent by units of data of their own.
    Transport,
}

impl Sgl {
    const INLINE: u8 = 0x01;
    const TRANSPORT: u8 = 0x5a;

    pub fn inline(length: u32) -> Self {
        Self { length: U32::new(length), id: Self::INLINE, ..Self::new_zeroed() }
    }

    pub fn transport(length: u32) -> Self {
        Self { length: U32::new(length), id: Self::TRANSPORT, ..Self::new_zeroed() }
    }

    /// `None` for a descriptor that has no meaning over TCP.
    pub fn place(&self) -> Option<Place> {
        match self.id {
            Self::INLINE => Some(Place::Inline { offset: self.address.get() }),
            Self::TRANSPORT => Some(Place::Transport),
            _ => None,
        }
    }
}

impl Sqe {
    /// Data is described by a scatter-gather list, as over fabrics it always is.
    pub const BY_SGL: u8 = 0x40;
    /// The bits of the flags that say so.
    pub const PSDT: u8 = 0xc0;
    /// The bits of the flags that fuse a command with its neighbour.
    pub const FUSE: u8 = 0x03;

    pub fn new(opcode: u8) -> Self {
        Self { opcode, flags: Self::BY_SGL, ..Self::new_zeroed() }
    }

    pub fn fabrics(kind: u8) -> Self {
        Self { nsid: U32::new(u32::from(kind)), ..Self::new(FABRICS) }
    }

    #[must_use]
    pub fn nsid(self, nsid: u32) -> Self {
        Self { nsid: U32::new(nsid), ..self }
    }

    /// The words from the tenth on; those that are not given stay zero.
    #[must_use]
    pub fn words<const N: usize>(mut self, words: [u32; N]) -> Self {
        for (to, word) in self.words.iter_mut().zip(words) {
            to.set(word);
        }
        self
    }

    /// A command word by its number in the specification, 10 to 15.
    pub fn word(&self, number: usize) -> u32 {
        number.checked_sub(10).and_then(|at| self.words.get(at)).map_or(0, |word| word.get())
    }

    /// The words 10 and 11 as one number: most often a first block.
    pub fn wide(&self) -> u64 {
        u64::from(self.word(10)) | u64::from(self.word(11)) << 32
    }

    /// Sets the words 10 and 11.
    #[must_use]
    pub fn with_wide(mut self, wide: u64) -> Self {
        let (halves, _) = self.words.as_mut_bytes().split_at_mut(size_of::<u64>());
        halves.copy_from_slice(&wide.to_le_bytes());
        self
    }

    /// Of a fabrics command, which one.
    pub fn fabrics_kind(&self) -> u8 {
        self.nsid.to_bytes()[0]
    }

    /// Whether the host sends data along, as the opcode tells.
    pub fn is_to_controller(&self) -> bool {
        let kind = if self.opcode == FABRICS { self.fabrics_kind() } else { self.opcode };
        kind & 3 == 1
    }
}

/// A completion.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Cqe {
    pub result: U64,
    pub sqhd: U16,
    pub sqid: U16,
    pub cid: U16,
    pub status: U16,
}

impl Cqe {
    /// The lower half of the result, which most commands answer with.
    pub fn value(&self) -> u32 {
        let [a, b, c, d, ..] = self.result.to_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

/// One range of Dataset Management.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DatasetRange {
    pub attributes: U32,
    pub blocks: U32,
    pub start: U64,
}

const _: () = {
    assert!(size_of::<Sqe>() == 64);
    assert!(size_of::<Cqe>() == 16);
    assert!(size_of::<DatasetRange>() == 16);
};
