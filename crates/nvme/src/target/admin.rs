//! Commands of the admin queue.

use block::Buffer;

use super::{
    core::{Answer, Core, Role},
    feature,
    port::ConnId,
    session::SessionId,
    subsystem::Kind,
};
use crate::{
    limits,
    op::{Op, Vendor, VendorData},
    status::{Code, Status},
    wire::command::{FABRICS, Sqe, admin, fabrics},
};

/// How much data the host sends along.
pub(crate) fn host_bytes(sqe: &Sqe) -> usize {
    match sqe.opcode {
        FABRICS if sqe.fabrics_kind() == fabrics::CONNECT => 1024,
        admin::SET_FEATURES => feature::data_len(sqe),
        admin::VENDOR_FIRST.. if sqe.is_to_controller() => {
            usize::try_from(sqe.sgl.length.get()).unwrap_or(usize::MAX)
        }
        _ => 0,
    }
}

/// What cannot be allowed whatever data comes: asked before any is sent for.
pub(crate) fn refusal(core: &Core, role: Role, sqe: &Sqe) -> Option<Status> {
    if sqe.opcode < admin::VENDOR_FIRST || sqe.opcode == FABRICS {
        return None;
    }
    let subsystem = role.session().and_then(|id| core.exported(id));
    let is_replica = subsystem.is_some_and(|(session, exported)| {
        session.is_enabled() && exported.subsystem.kind == Kind::Replica
    });
    (!is_replica).then_some(Code::InvalidOpcode.into())
}

impl Core {
    pub(crate) fn fabrics(
        &mut self,
        conn: ConnId,
        role: Role,
        sqe: &Sqe,
        data: Option<&Buffer>,
    ) -> Answer {
        match (sqe.fabrics_kind(), role) {
            (fabrics::CONNECT, Role::Stranger) => {
                self.connect(conn, sqe, data.map_or(&[], |data| data.bytes()))
            }
            (fabrics::CONNECT, _) | (_, Role::Stranger) => Code::CommandSequence.into(),
            (fabrics::PROPERTY_GET, Role::Admin(id)) => self.property_get(id, sqe),
            (fabrics::PROPERTY_SET, Role::Admin(id)) => self.property_set(id, sqe),
            (fabrics::DISCONNECT, Role::Io(_)) => match sqe.word(10) & 0xffff {
                0 => Answer::Disconnected,
                _ => Code::ConnectFormat.into(),
            },
            _ => Code::InvalidOpcode.into(),
        }
    }

    pub(crate) fn admin(&mut self, id: SessionId, sqe: &Sqe, data: Option<Buffer>) -> Answer {
        let Some(session) = self.sessions.get_mut(id.0) else {
            return Code::InternalError.into();
        };
        if !session.is_enabled() {
            return Code::CommandSequence.into();
        }
        let bytes = data.as_ref().map_or(&[][..], |data| data.bytes());
        let is_discovery = session.subsystem.is_none();
        match sqe.opcode {
            admin::KEEP_ALIVE => Answer::fine(),
            admin::ASYNC_EVENT if session.events.requests.len() >= limits::EVENT_REQUESTS => {
                Code::AsyncEventLimit.into()
            }
            admin::ASYNC_EVENT => Answer::Hold,
            admin::IDENTIFY => self.identify(id, sqe),
            admin::GET_LOG_PAGE => self.log_page(id, sqe),
            admin::SET_FEATURES => self.set_feature(id, sqe, bytes),
            admin::GET_FEATURES => self.get_feature(id, sqe),
            // Bit 0 of the answer: it was not aborted. The connection knows better if it was a
            // request for an event.
            admin::ABORT if !is_discovery => Answer::value(1),
            admin::VENDOR_FIRST.. => self.vendor(id, sqe, data),
            _ => Code::InvalidOpcode.into(),
        }
    }

    fn vendor(&self, id: SessionId, sqe: &Sqe, data: Option<Buffer>) -> Answer {
        if let Some(status) = refusal(self, Role::Admin(id), sqe) {
            return status.into();
        }
        let capacity = usize::try_from(sqe.sgl.length.get()).unwrap_or(usize::MAX);
        let words = sqe.words.map(zerocopy::little_endian::U32::get);
        let (data, reply_max) = match (sqe.opcode & 3, data) {
            (0, _) => (VendorData::None, 0),
            (1, Some(data)) => (VendorData::ToController(data), 0),
            (2, _) if capacity <= limits::TRANSFER_MAX => {
                (VendorData::FromController(capacity), capacity)
            }
            (1 | 2, _) => return Code::SglLengthInvalid.into(),
            _ => return Code::InvalidOpcode.into(),
        };
        Answer::Ask { op: Op::Vendor(Vendor { opcode: sqe.opcode, words, data }), reply_max }
    }
}
