//! Reservation commands and reports on the wire, and the state as bytes to keep.

use alloc::vec::Vec;

use zerocopy::{
    FromBytes, FromZeros, IntoBytes,
    little_endian::{U16, U32, U64},
};

use super::{Acquire, Command, Held, HostId, Kind, Register, Reservations};
use crate::{
    limits,
    status::Code,
    wire::{
        command::{Sqe, io},
        reservation::{Keys, ReportController, ReportHeader},
    },
};

const IGNORE_KEY: u32 = 1 << 3;
/// Report in its extended form, the only one that carries 128-bit host identifiers.
const EXTENDED: u32 = 1;
/// Of the bytes to keep.
const VERSION: u8 = 1;

impl Command {
    /// How many bytes of data the host sends with it.
    pub(crate) fn data_len(opcode: u8) -> usize {
        match opcode {
            io::RESERVATION_REGISTER | io::RESERVATION_ACQUIRE => 16,
            io::RESERVATION_RELEASE => 8,
            _ => 0,
        }
    }

    pub(crate) fn parse(sqe: &Sqe, data: &[u8]) -> Result<Self, Code> {
        let word = sqe.word(10);
        let ignores_key = word & IGNORE_KEY != 0;
        let [action, kind, ..] = word.to_le_bytes();
        let action = action & 7;
        let keys = || Keys::read_from_prefix(data).map_err(|_| Code::SglLengthInvalid);
        match sqe.opcode {
            io::RESERVATION_REGISTER => {
                let (Keys { current, other }, _) = keys()?;
                let action = match action {
                    0 => Register::Register,
                    1 => Register::Unregister,
                    2 => Register::Replace,
                    _ => return Err(Code::InvalidField),
                };
                let persist = match word >> 30 {
                    0 => None,
                    2 => Some(false),
                    3 => Some(true),
                    _ => return Err(Code::InvalidField),
                };
                let (current, new) = (current.get(), other.get());
                Ok(Self::Register { action, ignores_key, current, new, persist })
            }
            io::RESERVATION_ACQUIRE => {
                let (Keys { current, other }, _) = keys()?;
                let action = match action {
                    0 => Acquire::Acquire,
                    1 => Acquire::Preempt,
                    2 => Acquire::PreemptAndAbort,
                    _ => return Err(Code::InvalidField),
                };
                let (current, other) = (current.get(), other.get());
                Ok(Self::Acquire { action, ignores_key, kind, current, other })
            }
            io::RESERVATION_RELEASE => {
                let (current, _) =
                    U64::read_from_prefix(data).map_err(|_| Code::SglLengthInvalid)?;
                let current = current.get();
                match action {
                    0 => Ok(Self::Release { ignores_key, kind, current }),
                    1 => Ok(Self::Clear { ignores_key, current }),
                    _ => Err(Code::InvalidField),
                }
            }
            io::RESERVATION_REPORT => Self::parse_report(sqe),
            _ => Err(Code::InvalidOpcode),
        }
    }

    fn parse_report(sqe: &Sqe) -> Result<Self, Code> {
        if sqe.word(11) & EXTENDED == 0 {
            return Err(Code::HostIdInconsistent);
        }
        let bytes = u64::from(sqe.word(10)).saturating_add(1).saturating_mul(4);
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= limits::TRANSFER_MAX);
        Ok(Self::Report { bytes: bytes.ok_or(Code::InvalidField)? })
    }

    /// The command, without its data's place, and the data that goes with it.
    pub(crate) fn encode(&self) -> (Sqe, Vec<u8>) {
        let ignore = |ignores: bool| if ignores { IGNORE_KEY } else { 0 };
        let keys = |current: u64, other: u64| {
            Keys { current: U64::new(current), other: U64::new(other) }.as_bytes().to_vec()
        };
        match *self {
            Self::Register { action, ignores_key, current, new, persist } => {
                let action = match action {
                    Register::Register => 0,
                    Register::Unregister => 1,
                    Register::Replace => 2,
                };
                let persist = persist.map_or(0, |persist| 2 + u32::from(persist));
                let word = action | ignore(ignores_key) | persist << 30;
                (Sqe::new(io::RESERVATION_REGISTER).words([word]), keys(current, new))
            }
            Self::Acquire { action, ignores_key, kind, current, other } => {
                let action = match action {
                    Acquire::Acquire => 0,
                    Acquire::Preempt => 1,
                    Acquire::PreemptAndAbort => 2,
                };
                let word = action | ignore(ignores_key) | u32::from(kind) << 8;
                (Sqe::new(io::RESERVATION_ACQUIRE).words([word]), keys(current, other))
            }
            Self::Release { ignores_key, kind, current } => {
                let word = ignore(ignores_key) | u32::from(kind) << 8;
                let data = current.to_le_bytes().to_vec();
                (Sqe::new(io::RESERVATION_RELEASE).words([word]), data)
            }
            Self::Clear { ignores_key, current } => {
                let data = current.to_le_bytes().to_vec();
                (Sqe::new(io::RESERVATION_RELEASE).words([1 | ignore(ignores_key)]), data)
            }
            Self::Report { bytes } => {
                let words = u32::try_from(bytes / 4).unwrap_or(u32::MAX).saturating_sub(1);
                (Sqe::new(io::RESERVATION_REPORT).words([words, EXTENDED]), Vec::new())
            }
        }
    }
}

/// A live controller of a host, for the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    pub cntlid: u16,
    pub host: HostId,
}

/// What Report answers, in its extended form. A registered host that has no controller now is
/// listed with a controller of all ones.
pub fn report(state: &Reservations, controllers: &[Controller]) -> Vec<u8> {
    let mut rows = Vec::new();
    for (host, key) in &state.registrants {
        let of_host = controllers.iter().filter(|controller| controller.host == *host);
        let mut cntlids: Vec<_> = of_host.map(|controller| controller.cntlid).collect();
        if cntlids.is_empty() {
            cntlids.push(u16::MAX);
        }
        for cntlid in cntlids {
            let mut row = ReportController::new_zeroed();
            row.cntlid = U16::new(cntlid);
            row.status = u8::from(state.is_holder(host));
            row.key = U64::new(*key);
            row.host_id = *host;
            rows.extend_from_slice(row.as_bytes());
        }
    }
    let mut header = ReportHeader::new_zeroed();
    header.generation = U32::new(state.generation);
    header.kind = state.kind().map_or(0, Kind::number);
    let registered = rows.len() / size_of::<ReportController>();
    header.registered = U16::new(u16::try_from(registered).unwrap_or(u16::MAX));
    header.persists = u8::from(state.persists);
    let mut page = header.as_bytes().to_vec();
    page.extend_from_slice(&rows);
    page
}

impl Reservations {
    /// For keeping; `from_bytes` reads it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let kind = self.held.map_or(0, |held| held.kind.number());
        let by = self.held.map_or([0; 16], |held| held.by);
        let mut bytes = [VERSION, u8::from(self.persists), kind, 0].to_vec();
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&by);
        for (host, key) in &self.registrants {
            bytes.extend_from_slice(host);
            bytes.extend_from_slice(&key.to_le_bytes());
        }
        bytes
    }

    /// `None` if these bytes are no such state.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first_chunk::<24>()?;
        let [version, persists, kind, zero, a, b, c, d, by @ ..] = *first;
        let (rows, tail) = rest.as_chunks::<24>();
        let is_known = version == VERSION && persists <= 1 && zero == 0 && tail.is_empty();
        if !is_known || rows.len() > limits::REGISTRANTS {
            return None;
        }
        let mut state = Self {
            generation: u32::from_le_bytes([a, b, c, d]),
            persists: persists == 1,
            ..Self::default()
        };
        for row in rows {
            let (host, key) = row.split_first_chunk::<16>()?;
            let key = u64::from_le_bytes(key.try_into().ok()?);
            state.registrants.insert(*host, key);
        }
        if kind != 0 {
            state.held = Some(Held { kind: Kind::from_number(kind)?, by });
        }
        // A holder is always registered; a state that says otherwise was not written by us.
        let is_sound = match state.held {
            None => by == [0; 16],
            Some(held) if held.kind.is_held_by_all() => !state.registrants.is_empty(),
            Some(held) => state.registrants.contains_key(&held.by),
        };
        (is_sound && state.registrants.len() == rows.len()).then_some(state)
    }
}
