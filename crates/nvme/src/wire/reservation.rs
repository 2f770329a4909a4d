//! The data of reservation commands.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

/// Of Register: the key that there is and the one to be. Of Acquire: the own key and the one to
/// preempt.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Keys {
    pub current: U64,
    pub other: U64,
}

/// What Report begins with, in its extended form.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReportHeader {
    pub generation: U32,
    pub kind: u8,
    pub registered: U16,
    pub reserved: [u8; 2],
    pub persists: u8,
    pub reserved_end: [u8; 54],
}

/// Then one of these for each controller of a registered host.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReportController {
    pub cntlid: U16,
    /// Bit 0: its host holds the reservation.
    pub status: u8,
    pub reserved: [u8; 5],
    pub key: U64,
    pub host_id: [u8; 16],
    pub reserved_end: [u8; 32],
}

const _: () = {
    assert!(size_of::<Keys>() == 16);
    assert!(size_of::<ReportHeader>() == 64);
    assert!(size_of::<ReportController>() == 64);
};
