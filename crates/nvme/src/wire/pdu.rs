//! The units of NVMe/TCP as they lie on the wire.

use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32},
};

use super::command::{Cqe, Sqe};

pub const HDGST: u8 = 1;
pub const DDGST: u8 = 2;
/// The last data of a transfer.
pub const LAST: u8 = 4;
/// The data came whole and well: no completion follows.
pub const SUCCESS: u8 = 8;

/// Bytes of a digest.
pub const DIGEST: usize = 4;
/// Bytes that every unit begins with.
pub const COMMON: usize = 8;
/// Bytes of the longest header.
pub const HEADER_MAX: usize = 128;
/// Of the header in error, what a termination request carries along.
pub const TERM_DATA_MAX: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    IcReq = 0,
    IcResp = 1,
    H2cTermReq = 2,
    C2hTermReq = 3,
    CapsuleCmd = 4,
    CapsuleResp = 5,
    H2cData = 6,
    C2hData = 7,
    R2t = 9,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::IcReq,
        Self::IcResp,
        Self::H2cTermReq,
        Self::C2hTermReq,
        Self::CapsuleCmd,
        Self::CapsuleResp,
        Self::H2cData,
        Self::C2hData,
        Self::R2t,
    ];

    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::IcReq,
            1 => Self::IcResp,
            2 => Self::H2cTermReq,
            3 => Self::C2hTermReq,
            4 => Self::CapsuleCmd,
            5 => Self::CapsuleResp,
            6 => Self::H2cData,
            7 => Self::C2hData,
            9 => Self::R2t,
            _ => return None,
        })
    }

    pub const fn byte(self) -> u8 {
        match self {
            Self::IcReq => 0,
            Self::IcResp => 1,
            Self::H2cTermReq => 2,
            Self::C2hTermReq => 3,
            Self::CapsuleCmd => 4,
            Self::CapsuleResp => 5,
            Self::H2cData => 6,
            Self::C2hData => 7,
            Self::R2t => 9,
        }
    }

    /// Bytes of its header, without digest.
    pub const fn header_len(self) -> u8 {
        match self {
            Self::IcReq | Self::IcResp => 128,
            Self::CapsuleCmd => 72,
            _ => 24,
        }
    }

    /// Whether data may follow its header.
    pub const fn may_carry_data(self) -> bool {
        matches!(
            self,
            Self::CapsuleCmd | Self::H2cData | Self::C2hData | Self::H2cTermReq | Self::C2hTermReq
        )
    }

    /// Whether digests apply to it, once they were agreed on.
    pub const fn is_digested(self) -> bool {
        !matches!(self, Self::IcReq | Self::IcResp | Self::H2cTermReq | Self::C2hTermReq)
    }
}

/// Why a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fes {
    InvalidField = 1,
    Sequence = 2,
    HeaderDigest = 3,
    OutOfRange = 4,
    LimitExceeded = 5,
    Unsupported = 6,
}

impl Fes {
    pub const fn number(self) -> u16 {
        match self {
            Self::InvalidField => 1,
            Self::Sequence => 2,
            Self::HeaderDigest => 3,
            Self::OutOfRange => 4,
            Self::LimitExceeded => 5,
            Self::Unsupported => 6,
        }
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Common {
    pub kind: u8,
    pub flags: u8,
    pub hlen: u8,
    /// Where data begins, counted from the first byte.
    pub pdo: u8,
    /// Bytes of all of it, digests included.
    pub plen: U32,
}

impl Common {
    /// Without data or digests.
    pub fn bare(kind: Kind) -> Self {
        let hlen = kind.header_len();
        let plen = U32::new(u32::from(hlen));
        Self { kind: kind.byte(), flags: 0, hlen, pdo: 0, plen }
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IcReq {
    pub common: Common,
    pub pfv: U16,
    pub hpda: u8,
    pub digests: u8,
    /// How many requests for data may be open per command, less one.
    pub maxr2t: U32,
    pub reserved: [u8; 112],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IcResp {
    pub common: Common,
    pub pfv: U16,
    pub cpda: u8,
    pub digests: u8,
    pub maxh2cdata: U32,
    pub reserved: [u8; 112],
}

/// `H2CData`, `C2HData` and `R2T` share one shape.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Transfer {
    pub common: Common,
    pub cid: U16,
    pub ttag: U16,
    pub offset: U32,
    pub length: U32,
    pub reserved: [u8; 4],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TermReq {
    pub common: Common,
    pub fes: U16,
    pub fei: U32,
    pub reserved: [u8; 10],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CapsuleCmd {
    pub common: Common,
    pub sqe: Sqe,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CapsuleResp {
    pub common: Common,
    pub cqe: Cqe,
}

impl IcReq {
    pub fn new(digests: u8, maxr2t: u32) -> Self {
        let mut pdu = Self::new_zeroed();
        pdu.common = Common::bare(Kind::IcReq);
        pdu.digests = digests;
        pdu.maxr2t = U32::new(maxr2t);
        pdu
    }
}

impl IcResp {
    pub fn new(digests: u8, maxh2cdata: u32) -> Self {
        let mut pdu = Self::new_zeroed();
        pdu.common = Common::bare(Kind::IcResp);
        pdu.digests = digests;
        pdu.maxh2cdata = U32::new(maxh2cdata);
        pdu
    }
}

const _: () = {
    assert!(size_of::<Common>() == 8);
    assert!(size_of::<IcReq>() == 128);
    assert!(size_of::<IcResp>() == 128);
    assert!(size_of::<Transfer>() == 24);
    assert!(size_of::<TermReq>() == 24);
    assert!(size_of::<CapsuleCmd>() == 72);
    assert!(size_of::<CapsuleResp>() == 24);
};
