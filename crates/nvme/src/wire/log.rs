//! Log pages.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

/// Identifiers of log pages.
pub mod id {
    pub const ERROR: u8 = 0x01;
    pub const HEALTH: u8 = 0x02;
    pub const FIRMWARE: u8 = 0x03;
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    pub const EFFECTS: u8 = 0x05;
    pub const ANA: u8 = 0x0c;
    pub const DISCOVERY: u8 = 0x70;
    pub const RESERVATION: u8 = 0x80;
}

/// In the first word of Get Log Page: keep the event that the page belongs to masked.
pub const RETAIN_EVENT: u32 = 1 << 15;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Health {
    pub warning: u8,
    /// In kelvin.
    pub temperature: U16,
    pub spare: u8,
    pub spare_threshold: u8,
    pub used: u8,
    pub reserved: [u8; 506],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Firmware {
    pub active: u8,
    pub reserved: [u8; 7],
    pub slots: [[u8; 8]; 7],
    pub reserved_end: [u8; 448],
}

/// Which commands there are: a word for each opcode.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Effects {
    pub admin: [U32; 256],
    pub io: [U32; 256],
    pub reserved: [u8; 2048],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AnaHeader {
    pub changes: U64,
    pub groups: U16,
    pub reserved: [u8; 6],
}

/// Followed by the identifiers of its namespaces.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AnaGroup {
    pub group: U32,
    pub namespaces: U32,
    pub changes: U64,
    pub state: u8,
    pub reserved: [u8; 15],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DiscoveryHeader {
    pub generation: U64,
    pub records: U64,
    pub format: U16,
    pub reserved: [u8; 1006],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DiscoveryRecord {
    pub transport: u8,
    pub family: u8,
    pub subtype: u8,
    pub requirements: u8,
    pub port: U16,
    pub cntlid: U16,
    pub admin_queue: U16,
    pub reserved: [u8; 22],
    pub service: [u8; 32],
    pub reserved_64: [u8; 192],
    pub subnqn: [u8; 256],
    pub address: [u8; 256],
    /// What is particular to the transport: for TCP its first byte is the kind of security.
    pub specific: [u8; 256],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReservationNotice {
    pub count: U64,
    pub kind: u8,
    /// How many more there are.
    pub waiting: u8,
    pub reserved: [u8; 2],
    pub nsid: U32,
    pub reserved_end: [u8; 48],
}

/// How a namespace can be reached through this controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Ana {
    Optimized = 0x1,
    NonOptimized = 0x2,
    Inaccessible = 0x3,
    PersistentLoss = 0x4,
    Change = 0xf,
}

impl Ana {
    pub const fn number(self) -> u8 {
        match self {
            Self::Optimized => 1,
            Self::NonOptimized => 2,
            Self::Inaccessible => 3,
            Self::PersistentLoss => 4,
            Self::Change => 0xf,
        }
    }

    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Optimized),
            2 => Some(Self::NonOptimized),
            3 => Some(Self::Inaccessible),
            4 => Some(Self::PersistentLoss),
            0xf => Some(Self::Change),
            _ => None,
        }
    }
}

const _: () = {
    assert!(size_of::<Health>() == 512);
    assert!(size_of::<Firmware>() == 512);
    assert!(size_of::<Effects>() == 4096);
    assert!(size_of::<AnaHeader>() == 16);
    assert!(size_of::<AnaGroup>() == 32);
    assert!(size_of::<DiscoveryHeader>() == 1024);
    assert!(size_of::<DiscoveryRecord>() == 1024);
    assert!(size_of::<ReservationNotice>() == 64);
};
