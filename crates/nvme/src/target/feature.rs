//! Features: what a host sets, and gets back.

use core::time::Duration;

use super::{
    core::{Answer, Core, Later},
    session::SessionId,
    subsystem::{Kind, NSID},
};
use crate::{
    limits,
    status::{Code, Status},
    wire::command::Sqe,
};

mod id {
    pub const ARBITRATION: u8 = 0x01;
    pub const POWER: u8 = 0x02;
    pub const TEMPERATURE: u8 = 0x04;
    pub const ERROR_RECOVERY: u8 = 0x05;
    pub const WRITE_CACHE: u8 = 0x06;
    pub const QUEUES: u8 = 0x07;
    pub const ATOMICITY: u8 = 0x0a;
    pub const EVENTS: u8 = 0x0b;
    pub const KEEP_ALIVE: u8 = 0x0f;
    pub const HOST_BEHAVIOR: u8 = 0x16;
    pub const HOST_ID: u8 = 0x81;
    pub const NOTICE_MASK: u8 = 0x82;
    pub const PERSISTENCE: u8 = 0x83;
}

/// Feature 07h before a host sets it: as many queues as there may be, less one, of both kinds.
pub(crate) const QUEUES_MOST: u32 = {
    let [low, high] = (limits::IO_QUEUES - 1).to_le_bytes();
    u32::from_le_bytes([low, high, low, high])
};

/// Bytes of the host's behaviour.
const BEHAVIOR: usize = 512;
/// The first word's bit that asks for a value to be kept over power loss.
const SAVE: u32 = 1 << 31;

/// How many bytes a host sends with Set Features.
pub(crate) fn data_len(sqe: &Sqe) -> usize {
    let [what, ..] = sqe.word(10).to_le_bytes();
    if what == id::HOST_BEHAVIOR { BEHAVIOR } else { 0 }
}

impl Core {
    pub(crate) fn set_feature(&mut self, id: SessionId, sqe: &Sqe, data: &[u8]) -> Answer {
        if sqe.word(10) & SAVE != 0 {
            return Code::FeatureNotSaveable.into();
        }
        match self.try_set(id, sqe, data) {
            Ok(value) => Answer::value(value.into()),
            Err(status) => status.into(),
        }
    }

    fn try_set(&mut self, id: SessionId, sqe: &Sqe, data: &[u8]) -> Result<u32, Status> {
        let session = self.sessions.get_mut(id.0).ok_or(Code::InternalError)?;
        let [what, ..] = sqe.word(10).to_le_bytes();
        let value = sqe.word(11);
        let is_discovery = session.subsystem.is_none();
        match what {
            id::KEEP_ALIVE => session.keep_alive = Duration::from_millis(value.into()),
            id::EVENTS => {
                session.features.wanted_events = value;
                self.later.push(Later::Events(id));
            }
            _ if is_discovery => return Err(Code::InvalidField.into()),
            id::QUEUES => {
                session.features.queues = queues(value)?;
                return Ok(session.features.queues);
            }
            id::WRITE_CACHE => session.features.is_write_cache_on = value & 1 != 0,
            id::HOST_BEHAVIOR => {
                let bytes = data.first_chunk().ok_or(Code::SglLengthInvalid)?;
                session.features.host_behavior = *bytes;
            }
            // Given once, by Connect.
            id::HOST_ID => return Err(Code::CommandSequence.into()),
            id::NOTICE_MASK => {
                check_namespace(sqe)?;
                session.features.masked_notices = value;
            }
            // Set by Register, whose state is durable when it is answered.
            id::PERSISTENCE => return Err(Code::FeatureNotChangeable.into()),
            id::POWER if value & 0x1f != 0 => return Err(Code::InvalidField.into()),
            id::ARBITRATION | id::POWER | id::TEMPERATURE | id::ERROR_RECOVERY | id::ATOMICITY => {
                session.features.idle.insert(what, value);
            }
            _ => return Err(Code::InvalidField.into()),
        }
        Ok(0)
    }

    pub(crate) fn get_feature(&self, id: SessionId, sqe: &Sqe) -> Answer {
        let Some(session) = self.session(id) else { return Code::InternalError.into() };
        let [what, ..] = sqe.word(10).to_le_bytes();
        let is_discovery = session.subsystem.is_none();
        let features = &session.features;
        let value = match what {
            id::KEEP_ALIVE => u32::try_from(session.keep_alive.as_millis()).unwrap_or(u32::MAX),
            id::EVENTS => features.wanted_events,
            _ if is_discovery => return Code::InvalidField.into(),
            id::QUEUES => features.queues,
            id::WRITE_CACHE => features.is_write_cache_on.into(),
            id::HOST_BEHAVIOR => {
                let mut page = super::identify::zeros(BEHAVIOR);
                page[..4].copy_from_slice(&features.host_behavior);
                return Answer::data(&page);
            }
            // Over fabrics identifiers have 128 bits, and the host must know.
            id::HOST_ID if sqe.word(11) & 1 == 0 => return Code::InvalidField.into(),
            id::HOST_ID => return Answer::data(&session.host_id),
            id::NOTICE_MASK if check_namespace(sqe).is_ok() => features.masked_notices,
            id::PERSISTENCE if check_namespace(sqe).is_ok() => self.persists(id).into(),
            id::NOTICE_MASK | id::PERSISTENCE => return Code::InvalidNamespace.into(),
            id::ARBITRATION | id::POWER | id::TEMPERATURE | id::ERROR_RECOVERY | id::ATOMICITY => {
                features.idle.get(&what).copied().unwrap_or_default()
            }
            _ => return Code::InvalidField.into(),
        };
        Answer::value(value.into())
    }

    fn persists(&self, id: SessionId) -> bool {
        match self.exported(id).map(|(_, exported)| &exported.subsystem.kind) {
            Some(Kind::Volume { reservations, .. }) => reservations.persists(),
            // A replica's reservation is its epoch, which always lasts.
            Some(Kind::Replica) => true,
            None => false,
        }
    }
}

fn check_namespace(sqe: &Sqe) -> Result<(), Status> {
    let is_ours = [NSID, super::identify::ALL_NAMESPACES].contains(&sqe.nsid.get());
    if is_ours { Ok(()) } else { Err(Code::InvalidNamespace.into()) }
}

/// As many queues as were asked for, or as there may be.
fn queues(asked: u32) -> Result<u32, Status> {
    let [a, b, c, d] = asked.to_le_bytes();
    let (submission, completion) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    if submission == u16::MAX || completion == u16::MAX {
        return Err(Code::InvalidField.into());
    }
    let given = submission.min(completion).min(limits::IO_QUEUES - 1);
    Ok(u32::from(given) | u32::from(given) << 16)
}
