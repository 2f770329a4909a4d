//! The pages that Identify answers with.

use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

/// Bytes of every page.
pub const PAGE: usize = 4096;

/// What Identify may be asked for.
pub mod cns {
    pub const NAMESPACE: u8 = 0x00;
    pub const CONTROLLER: u8 = 0x01;
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    pub const DESCRIPTORS: u8 = 0x03;
}

/// Kinds of namespace identifiers.
pub mod nidt {
    pub const NGUID: u8 = 2;
    pub const UUID: u8 = 3;
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IdentifyController {
    pub vid: U16,
    pub ssvid: U16,
    pub serial: [u8; 20],
    pub model: [u8; 40],
    pub firmware: [u8; 8],
    pub rab: u8,
    pub ieee: [u8; 3],
    pub cmic: u8,
    pub mdts: u8,
    pub cntlid: U16,
    pub version: U32,
    pub rtd3r: U32,
    pub rtd3e: U32,
    pub oaes: U32,
    pub ctratt: U32,
    pub rrls: U16,
    pub reserved_102: [u8; 9],
    pub kind: u8,
    pub fguid: [u8; 16],
    /// In units of 100 ms.
    pub retry_delays: [U16; 3],
    pub reserved_134: [u8; 122],
    pub oacs: U16,
    pub acl: u8,
    pub aerl: u8,
    pub frmw: u8,
    pub lpa: u8,
    pub elpe: u8,
    pub npss: u8,
    pub avscc: u8,
    pub apsta: u8,
    pub wctemp: U16,
    pub cctemp: U16,
    pub mtfa: U16,
    pub hmpre: U32,
    pub hmmin: U32,
    pub tnvmcap: [u8; 16],
    pub unvmcap: [u8; 16],
    pub rpmbs: U32,
    pub edstt: U16,
    pub dsto: u8,
    pub fwug: u8,
    /// Granularity of the keep-alive time-out, in units of 100 ms.
    pub kas: U16,
    pub hctma: U16,
    pub mntmt: U16,
    pub mxtmt: U16,
    pub sanicap: U32,
    pub hmminds: U32,
    pub hmmaxd: U16,
    pub nsetidmax: U16,
    pub endgidmax: U16,
    pub anatt: u8,
    pub anacap: u8,
    pub anagrpmax: U32,
    pub nanagrpid: U32,
    pub pels: U32,
    pub reserved_356: [u8; 156],
    pub sqes: u8,
    pub cqes: u8,
    pub maxcmd: U16,
    pub nn: U32,
    pub oncs: U16,
    pub fuses: U16,
    pub fna: u8,
    pub vwc: u8,
    pub awun: U16,
    pub awupf: U16,
    pub icsvscc: u8,
    pub nwpc: u8,
    pub acwu: U16,
    pub reserved_534: [u8; 2],
    pub sgls: U32,
    pub mnan: U32,
    pub reserved_544: [u8; 224],
    pub subnqn: [u8; 256],
    pub reserved_1024: [u8; 768],
    /// Of a command capsule on an I/O queue, in units of 16 bytes.
    pub ioccsz: U32,
    pub iorcsz: U32,
    pub icdoff: U16,
    pub fcatt: u8,
    pub msdbd: u8,
    pub ofcs: U16,
    pub reserved_1806: [u8; 242],
    pub power_states: [u8; 1024],
    pub vendor: [u8; 1024],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IdentifyNamespace {
    pub nsze: U64,
    pub ncap: U64,
    pub nuse: U64,
    pub nsfeat: u8,
    pub nlbaf: u8,
    pub flbas: u8,
    pub mc: u8,
    pub dpc: u8,
    pub dps: u8,
    pub nmic: u8,
    pub rescap: u8,
    pub fpi: u8,
    pub dlfeat: u8,
    pub nawun: U16,
    pub nawupf: U16,
    pub nacwu: U16,
    pub nabsn: U16,
    pub nabo: U16,
    pub nabspf: U16,
    pub noiob: U16,
    pub nvmcap: [u8; 16],
    pub npwg: U16,
    pub npwa: U16,
    pub npdg: U16,
    pub npda: U16,
    pub nows: U16,
    pub mssrl: U16,
    pub mcl: U32,
    pub msrc: u8,
    pub reserved_81: [u8; 11],
    pub anagrpid: U32,
    pub reserved_96: [u8; 3],
    pub nsattr: u8,
    pub nvmsetid: U16,
    pub endgid: U16,
    pub nguid: [u8; 16],
    pub eui64: [u8; 8],
    pub formats: [LbaFormat; 16],
    pub reserved_192: [u8; 192],
    pub vendor: [u8; 3712],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct LbaFormat {
    pub metadata: U16,
    /// Block size as a power of two.
    pub lbads: u8,
    pub performance: u8,
}

/// What stands before each identifier of a namespace.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Descriptor {
    pub nidt: u8,
    pub nidl: u8,
    pub reserved: [u8; 2],
}

/// The identifiers of a namespace, out of the page of descriptors.
pub fn descriptors(page: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = page;
    core::iter::from_fn(move || {
        let (head, after) = Descriptor::ref_from_prefix(rest).ok()?;
        let id = after.get(..usize::from(head.nidl)).filter(|id| !id.is_empty())?;
        rest = &after[id.len()..];
        Some((head.nidt, id))
    })
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<IdentifyController>() == PAGE);
    assert!(offset_of!(IdentifyController, oacs) == 256);
    assert!(offset_of!(IdentifyController, kas) == 320);
    assert!(offset_of!(IdentifyController, anagrpmax) == 344);
    assert!(offset_of!(IdentifyController, sqes) == 512);
    assert!(offset_of!(IdentifyController, sgls) == 536);
    assert!(offset_of!(IdentifyController, subnqn) == 768);
    assert!(offset_of!(IdentifyController, ioccsz) == 1792);
    assert!(offset_of!(IdentifyController, power_states) == 2048);
    assert!(size_of::<IdentifyNamespace>() == PAGE);
    assert!(offset_of!(IdentifyNamespace, nvmcap) == 48);
    assert!(offset_of!(IdentifyNamespace, anagrpid) == 92);
    assert!(offset_of!(IdentifyNamespace, nguid) == 104);
    assert!(offset_of!(IdentifyNamespace, formats) == 128);
};
