//! Connect's data and the properties that stand in for a controller's registers.

use alloc::string::String;
use core::str;

use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned, little_endian::U16,
};

/// The name that every discovery service answers to.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// Asks for a controller to be made.
pub const ANY_CONTROLLER: u16 = 0xffff;

/// Connect without flow control by the head of the submission queue.
pub const NO_FLOW_CONTROL: u8 = 1 << 2;

/// Bytes of a name's field; the name itself is shorter, for a zero must follow it.
pub const NAME_FIELD: usize = 256;
/// The longest name.
pub const NAME_MAX: usize = 223;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ConnectData {
    pub host_id: [u8; 16],
    pub cntlid: U16,
    pub reserved: [u8; 238],
    pub subnqn: [u8; NAME_FIELD],
    pub hostnqn: [u8; NAME_FIELD],
    pub reserved_end: [u8; 256],
}

impl ConnectData {
    pub const HOST_ID_AT: u16 = 0;
    pub const CNTLID_AT: u16 = 16;
    pub const SUBNQN_AT: u16 = 256;
    pub const HOSTNQN_AT: u16 = 512;

    pub fn new(host_id: [u8; 16], cntlid: u16, subnqn: &str, hostnqn: &str) -> Self {
        let mut data = Self::new_zeroed();
        data.host_id = host_id;
        data.cntlid = U16::new(cntlid);
        put_name(&mut data.subnqn, subnqn);
        put_name(&mut data.hostnqn, hostnqn);
        data
    }
}

/// Where Connect's own fields lie in its command, for naming one that is wrong.
pub mod connect_at {
    pub const QID: u16 = 42;
    pub const SQSIZE: u16 = 44;
    pub const KATO: u16 = 48;
}

/// Writes a name and zeros after it; one that is too long is cut.
pub fn put_name(field: &mut [u8; NAME_FIELD], name: &str) {
    let len = name.len().min(NAME_MAX);
    field.fill(0);
    field[..len].copy_from_slice(&name.as_bytes()[..len]);
}

/// `None` if it is empty, too long, no text, or has no end.
pub fn name_of(field: &[u8; NAME_FIELD]) -> Option<String> {
    let len = field.iter().position(|byte| *byte == 0)?;
    let name = str::from_utf8(&field[..len]).ok()?;
    let is_plain = name.chars().all(|letter| !letter.is_control());
    (!name.is_empty() && len <= NAME_MAX && is_plain).then(|| name.into())
}

/// Offsets of the properties.
pub mod property {
    pub const CAP: u32 = 0x00;
    pub const VS: u32 = 0x08;
    pub const CC: u32 = 0x14;
    pub const CSTS: u32 = 0x1c;
    /// The first word's bit of Property Get that asks for eight bytes.
    pub const WIDE: u32 = 1;
}

/// Controller configuration.
pub mod cc {
    pub const ENABLE: u32 = 1;
    pub const SHUTDOWN: u32 = 3 << 14;
    /// Entries of 64 and 16 bytes.
    pub const ENTRY_SIZES: u32 = 6 << 16 | 4 << 20;
    pub const ENTRY_SIZES_MASK: u32 = 0xff << 16;
    /// Command set, page size and arbitration: all zero here.
    pub const KIND_MASK: u32 = 0x7 << 4 | 0xf << 7 | 0x7 << 11;
}

/// Controller status.
pub mod csts {
    pub const READY: u32 = 1;
    pub const FATAL: u32 = 2;
    pub const SHUTDOWN_DONE: u32 = 2 << 2;
}

const _: () = assert!(size_of::<ConnectData>() == 1024);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_needs_letters_and_an_end() {
        let mut field = [0; NAME_FIELD];
        assert_eq!(name_of(&field), None);
        put_name(&mut field, "nqn.a");
        assert_eq!(name_of(&field).as_deref(), Some("nqn.a"));
        assert_eq!(name_of(&[b'a'; NAME_FIELD]), None);
        field[2] = 0xff;
        assert_eq!(name_of(&field), None);
    }
}
