//! NBD's numbers and layouts. Everything is big-endian.

use block::BLOCK;

const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const SIMPLE_REPLY: u32 = 0x6744_6698;

const FIXED_NEWSTYLE: u16 = 1;
/// Of the server's flags and of the client's.
pub const NO_ZEROES: u32 = 2;

/// It has flags; flush, FUA, trim and writing zeroes are understood. Several connections of one
/// client are consistent: they end in one target.
const TRANSMISSION: u16 = 1 | 4 | 8 | 0x20 | 0x40 | 0x100;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;

const ABOUT_EXPORT: u16 = 0;
const ABOUT_BLOCK_SIZE: u16 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opt {
    ExportName,
    Abort,
    List,
    Ask,
    Go,
    Other,
}

impl From<u32> for Opt {
    fn from(option: u32) -> Self {
        match option {
            1 => Self::ExportName,
            2 => Self::Abort,
            3 => Self::List,
            6 => Self::Ask,
            7 => Self::Go,
            _ => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Rep {
    Ack = 1,
    Server = 2,
    About = 3,
    Unsupported = 0x8000_0001,
    Invalid = 0x8000_0003,
}

/// Of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 2;

    pub const fn contains(self, flag: u16) -> bool {
        self.0 & flag != 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub flags: Flags,
    pub kind: u16,
    pub cookie: u64,
    pub offset: u64,
    pub len: u32,
}

pub fn greeting(out: &mut Vec<u8>) {
    out.extend_from_slice(&NBDMAGIC.to_be_bytes());
    out.extend_from_slice(&IHAVEOPT.to_be_bytes());
    out.extend_from_slice(&(FIXED_NEWSTYLE | 2).to_be_bytes());
}

/// The number and the size of an option.
pub fn option(head: &[u8; 16]) -> Option<(u32, u32)> {
    let [magic @ .., o0, o1, o2, o3, l0, l1, l2, l3] = *head;
    let size = u32::from_be_bytes([l0, l1, l2, l3]);
    (u64::from_be_bytes(magic) == IHAVEOPT).then_some((u32::from_be_bytes([o0, o1, o2, o3]), size))
}

pub fn answer(out: &mut Vec<u8>, option: u32, rep: Rep, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&(rep as u32).to_be_bytes());
    out.extend_from_slice(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(data);
}

/// The end of the old way to begin, which has no answer of its own.
pub fn export(out: &mut Vec<u8>, size: u64, no_zeroes: bool) {
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&TRANSMISSION.to_be_bytes());
    if !no_zeroes {
        out.extend_from_slice(&[0; 124]);
    }
}

pub fn about_export(size: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(&ABOUT_EXPORT.to_be_bytes());
    bytes[2..10].copy_from_slice(&size.to_be_bytes());
    bytes[10..].copy_from_slice(&TRANSMISSION.to_be_bytes());
    bytes
}

pub fn about_block_size(max: u32) -> [u8; 14] {
    let block = u32::try_from(BLOCK).unwrap_or(u32::MAX).to_be_bytes();
    let mut bytes = [0; 14];
    bytes[..2].copy_from_slice(&ABOUT_BLOCK_SIZE.to_be_bytes());
    // Any byte may be asked for; whole blocks are served without reading them first.
    bytes[2..6].copy_from_slice(&1_u32.to_be_bytes());
    bytes[6..10].copy_from_slice(&block);
    bytes[10..].copy_from_slice(&max.to_be_bytes());
    bytes
}

/// Whether the data of INFO or GO asks for block sizes; `None` if it is malformed.
pub fn asks_for_block_size(data: &[u8]) -> Option<bool> {
    let (size, rest) = data.split_first_chunk()?;
    let name = usize::try_from(u32::from_be_bytes(*size)).ok()?;
    let (count, asks) = rest.get(name..)?.split_first_chunk()?;
    let count = usize::from(u16::from_be_bytes(*count));
    let (asks, []) = asks.as_chunks::<2>() else { return None };
    (asks.len() == count)
        .then(|| asks.iter().any(|ask| u16::from_be_bytes(*ask) == ABOUT_BLOCK_SIZE))
}

pub fn request(head: &[u8; 28]) -> Option<Head> {
    let (magic, rest) = head.split_first_chunk()?;
    let (flags, rest) = rest.split_first_chunk()?;
    let (kind, rest) = rest.split_first_chunk()?;
    let (cookie, rest) = rest.split_first_chunk()?;
    let (offset, rest) = rest.split_first_chunk()?;
    let len = rest.try_into().ok()?;
    (u32::from_be_bytes(*magic) == REQUEST).then(|| Head {
        flags: Flags(u16::from_be_bytes(*flags)),
        kind: u16::from_be_bytes(*kind),
        cookie: u64::from_be_bytes(*cookie),
        offset: u64::from_be_bytes(*offset),
        len: u32::from_be_bytes(len),
    })
}

pub fn reply(out: &mut Vec<u8>, error: u32, cookie: u64) {
    out.extend_from_slice(&SIMPLE_REPLY.to_be_bytes());
    out.extend_from_slice(&error.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
}

/// Of the client's half: the server's greeting, and that it is the new style.
pub fn is_greeting(bytes: &[u8; 18]) -> bool {
    let mut expected = Vec::new();
    greeting(&mut expected);
    bytes[..16] == expected[..16] && u16::from_be_bytes([bytes[16], bytes[17]]) & 1 != 0
}

/// Flags, and GO for whatever export there is.
pub fn ask_go(out: &mut Vec<u8>) {
    out.extend_from_slice(&(u32::from(FIXED_NEWSTYLE) | NO_ZEROES).to_be_bytes());
    out.extend_from_slice(&IHAVEOPT.to_be_bytes());
    out.extend_from_slice(&7_u32.to_be_bytes());
    // No name, nothing asked for.
    out.extend_from_slice(&6_u32.to_be_bytes());
    out.extend_from_slice(&[0; 6]);
}

/// Whether an option's answer is the last one, and how many bytes follow.
pub fn answered(head: &[u8; 20]) -> Option<(bool, usize)> {
    let [magic @ .., _, _, _, _, r0, r1, r2, r3, l0, l1, l2, l3] = *head;
    let rep = u32::from_be_bytes([r0, r1, r2, r3]);
    let len = u32::from_be_bytes([l0, l1, l2, l3]);
    let is_known = rep == Rep::Ack as u32 || rep == Rep::About as u32;
    (u64::from_be_bytes(magic) == OPTION_REPLY && is_known && len <= 64 * 1024)
        .then_some((rep == Rep::Ack as u32, usize::try_from(len).ok()?))
}

/// The size of the export, if that is what this tells.
pub fn size_told(data: &[u8]) -> Option<u64> {
    let (kind, rest) = data.split_first_chunk()?;
    let (size, _) = rest.split_first_chunk()?;
    (u16::from_be_bytes(*kind) == ABOUT_EXPORT).then(|| u64::from_be_bytes(*size))
}

pub fn ask(out: &mut Vec<u8>, kind: u16, flags: u16, cookie: u64, offset: u64, len: u32) {
    out.extend_from_slice(&REQUEST.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}

/// The error, 0 for none, and whose answer it is.
pub fn replied(head: &[u8; 16]) -> Option<(u32, u64)> {
    let (magic, rest) = head.split_first_chunk()?;
    let (error, cookie) = rest.split_first_chunk()?;
    let cookie = cookie.try_into().ok()?;
    (u32::from_be_bytes(*magic) == SIMPLE_REPLY)
        .then(|| (u32::from_be_bytes(*error), u64::from_be_bytes(cookie)))
}
