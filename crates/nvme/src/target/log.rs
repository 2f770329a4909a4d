//! Get Log Page.

use alloc::vec::Vec;

use zerocopy::{
    FromZeros, IntoBytes,
    little_endian::{U16, U32, U64},
};

use super::{
    core::{Answer, Core},
    identify::{ANA_GROUP, zeros},
    session::{Session, SessionId},
    subsystem::{Exported, NSID},
};
use crate::{
    limits,
    status::Code,
    wire::{
        command::{Sqe, admin, io},
        log::{
            AnaGroup, AnaHeader, Effects, Firmware, Health, RETAIN_EVENT, ReservationNotice, id,
        },
    },
};

/// In the specific field of the accessibility log: groups without their namespaces.
const GROUPS_ONLY: u32 = 1 << 8;

impl Core {
    pub(crate) fn log_page(&mut self, session: SessionId, sqe: &Sqe) -> Answer {
        let word = sqe.word(10);
        let [what, ..] = word.to_le_bytes();
        let dwords = u64::from(word >> 16) | u64::from(sqe.word(11) & 0xffff) << 16;
        let offset = u64::from(sqe.word(12)) | u64::from(sqe.word(13)) << 32;
        let Some(len) = usize::try_from((dwords + 1) * 4)
            .ok()
            .filter(|len| *len <= limits::TRANSFER_MAX && offset.is_multiple_of(4))
        else {
            return Code::InvalidField.into();
        };
        let page = match self.page(session, what, sqe) {
            Ok(page) => page,
            Err(code) => return code.into(),
        };
        let Some(rest) = usize::try_from(offset).ok().and_then(|offset| page.get(offset..)) else {
            return Code::InvalidField.into();
        };
        let mut answer = rest[..rest.len().min(len)].to_vec();
        answer.resize(len, 0);
        if word & RETAIN_EVENT == 0 {
            self.log_was_read(session, what);
        }
        Answer::data(&answer)
    }

    fn page(&mut self, id: SessionId, what: u8, sqe: &Sqe) -> Result<Vec<u8>, Code> {
        let session = self.session(id).ok_or(Code::InternalError)?;
        if session.subsystem.is_none() {
            return match what {
                id::DISCOVERY => Ok(self.discovery_page(&session.host_nqn)),
                id::ERROR => Ok(zeros(64)),
                id::HEALTH => Ok(health()),
                _ => Err(Code::InvalidLogPage),
            };
        }
        let (session, exported) = self.exported(id).ok_or(Code::InternalError)?;
        match what {
            id::ERROR => Ok(zeros(64)),
            id::HEALTH => Ok(health()),
            id::FIRMWARE => Ok(firmware()),
            id::CHANGED_NAMESPACES => Ok(changed(session)),
            id::EFFECTS => Ok(effects()),
            id::ANA => Ok(ana(exported, sqe.word(10) & GROUPS_ONLY != 0)),
            id::RESERVATION => Ok(notice(session)),
            _ => Err(Code::InvalidLogPage),
        }
    }

    fn log_was_read(&mut self, id: SessionId, what: u8) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        match what {
            id::CHANGED_NAMESPACES => session.events.is_namespace_changed = false,
            id::RESERVATION if session.events.notices.pop_front().is_some() => {
                session.events.notices_counted += 1;
            }
            _ => {}
        }
        session.unmask(what);
        self.later.push(super::core::Later::Events(id));
    }
}

fn health() -> Vec<u8> {
    let mut page = Health::new_zeroed();
    page.spare = 100;
    page.spare_threshold = 10;
    page.as_bytes().to_vec()
}

fn firmware() -> Vec<u8> {
    let mut page = Firmware::new_zeroed();
    page.active = 1;
    page.slots[0] = *b"1       ";
    page.as_bytes().to_vec()
}

fn changed(session: &Session) -> Vec<u8> {
    let mut page = zeros(4096);
    if session.events.is_namespace_changed {
        page[..4].copy_from_slice(&NSID.to_le_bytes());
    }
    page
}

/// The commands that there are; those that change blocks say so.
fn effects() -> Vec<u8> {
    const SUPPORTED: u32 = 1;
    const CHANGES_BLOCKS: u32 = 1 << 1;
    let mut page = Effects::new_zeroed();
    let admin = [
        admin::GET_LOG_PAGE,
        admin::IDENTIFY,
        admin::ABORT,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::ASYNC_EVENT,
        admin::KEEP_ALIVE,
    ];
    for opcode in admin {
        page.admin[usize::from(opcode)] = U32::new(SUPPORTED);
    }
    let reading = [
        io::FLUSH,
        io::READ,
        io::COMPARE,
        io::VERIFY,
        io::RESERVATION_REGISTER,
        io::RESERVATION_REPORT,
        io::RESERVATION_ACQUIRE,
        io::RESERVATION_RELEASE,
    ];
    for opcode in reading {
        page.io[usize::from(opcode)] = U32::new(SUPPORTED);
    }
    for opcode in [io::WRITE, io::WRITE_ZEROES, io::DATASET] {
        page.io[usize::from(opcode)] = U32::new(SUPPORTED | CHANGES_BLOCKS);
    }
    page.as_bytes().to_vec()
}

fn ana(exported: &Exported, groups_only: bool) -> Vec<u8> {
    let changes = U64::new(exported.ana_changes);
    let mut header = AnaHeader::new_zeroed();
    header.changes = changes;
    header.groups = U16::new(1);
    let mut group = AnaGroup::new_zeroed();
    group.group = U32::new(ANA_GROUP);
    group.changes = changes;
    group.state = exported.subsystem.namespace.ana.number();
    group.namespaces = U32::new(u32::from(!groups_only));
    let mut page = header.as_bytes().to_vec();
    page.extend_from_slice(group.as_bytes());
    if !groups_only {
        page.extend_from_slice(&NSID.to_le_bytes());
    }
    page
}

fn notice(session: &Session) -> Vec<u8> {
    let mut page = ReservationNotice::new_zeroed();
    if let Some(notice) = session.events.notices.front() {
        page.count = U64::new(session.events.notices_counted + 1);
        page.kind = notice.number();
        let waiting = session.events.notices.len() - 1;
        page.waiting = u8::try_from(waiting).unwrap_or(u8::MAX);
        page.nsid = U32::new(NSID);
    }
    page.as_bytes().to_vec()
}
