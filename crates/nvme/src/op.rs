//! What a host asks of a namespace: the same words on both sides of the wire.

use alloc::vec::Vec;

use block::{Buffer, Durability, Extent};

use crate::reservation;

/// An operation. The target's port hands them out, the initiator's session takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Read {
        extent: Extent,
    },
    Write {
        extent: Extent,
        data: Buffer,
        durability: Durability,
    },
    /// Everything answered before is durable when this is answered.
    Flush,
    /// The same, between our own targets and replicas: the replica keeps its number.
    NumberedFlush {
        number: u64,
    },
    Zero {
        extent: Extent,
        /// The space may be given back.
        deallocate: bool,
        durability: Durability,
    },
    Deallocate {
        extents: Vec<Extent>,
    },
    /// Answered by `CompareFailure` unless the data is what is there.
    Compare {
        extent: Extent,
        data: Buffer,
    },
    /// Read and checked, but not sent.
    Verify {
        extent: Extent,
    },
    Reservation(reservation::Command),
    Vendor(Vendor),
    /// Only from a port that keeps reservations itself: this state must be durable before the
    /// answer.
    Persist(reservation::Reservations),
}

/// A command of our own, on the admin queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vendor {
    /// From C0h on; bit 0 set if data goes to the controller, bit 1 if it comes from there.
    pub opcode: u8,
    /// Command words 10 to 15.
    pub words: [u32; 6],
    pub data: VendorData,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VendorData {
    None,
    ToController(Buffer),
    /// At most so many bytes may be answered.
    FromController(usize),
}

impl Op {
    /// The kind of access that a reservation judges.
    pub fn access(&self) -> reservation::Access {
        use reservation::Access;
        match self {
            Self::Read { .. } | Self::Compare { .. } | Self::Verify { .. } => Access::Read,
            Self::Write { .. }
            | Self::Flush
            | Self::NumberedFlush { .. }
            | Self::Zero { .. }
            | Self::Deallocate { .. } => Access::Write,
            Self::Reservation(_) | Self::Vendor(_) | Self::Persist(_) => Access::Other,
        }
    }
}

/// The answer to one that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    Data(Buffer),
}
