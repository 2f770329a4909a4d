//! Properties: what registers are to a controller on a bus.

use super::{
    core::{Answer, Core, Later},
    session::SessionId,
};
use crate::{
    limits,
    status::Code,
    wire::{
        command::Sqe,
        fabrics::{cc, csts, property},
    },
};

/// NVMe 1.4: newer versions make hosts ask for more pages, which say nothing new here.
pub(crate) const VERSION: u32 = 0x0001_0400;

/// Entries less one; contiguous queues; ready within 10 s; the NVM command set.
fn capabilities() -> u64 {
    u64::from(limits::QUEUE_ENTRIES - 1) | 1 << 16 | 20 << 24 | 1 << 37
}

impl Core {
    pub(crate) fn property_get(&mut self, id: SessionId, sqe: &Sqe) -> Answer {
        let Some(session) = self.session(id) else { return Code::InternalError.into() };
        let is_wide = sqe.word(10) & 7 == property::WIDE;
        match (sqe.word(11), is_wide) {
            (property::CAP, true) => Answer::value(capabilities()),
            (property::VS, false) => Answer::value(VERSION.into()),
            (property::CC, false) => Answer::value(session.cc.into()),
            (property::CSTS, false) => Answer::value(session.csts.into()),
            _ => Code::InvalidField.into(),
        }
    }

    pub(crate) fn property_set(&mut self, id: SessionId, sqe: &Sqe) -> Answer {
        if sqe.word(11) != property::CC || sqe.word(10) & 7 == property::WIDE {
            return Code::InvalidField.into();
        }
        self.configure(id, sqe.word(12));
        Answer::fine()
    }

    fn configure(&mut self, id: SessionId, new: u32) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let old = core::mem::replace(&mut session.cc, new);
        let (was_on, is_on) = (old & cc::ENABLE != 0, new & cc::ENABLE != 0);
        if !was_on && is_on {
            let is_known =
                new & cc::ENTRY_SIZES_MASK == cc::ENTRY_SIZES && new & cc::KIND_MASK == 0;
            session.csts = if is_known { csts::READY } else { csts::FATAL };
        }
        if was_on && !is_on {
            // A reset: I/O queues are gone, the association stays for whoever reads properties.
            session.csts = 0;
            let admin = session.admin();
            if let Some(conn) = admin {
                let slots = core::mem::take(&mut session.events.requests);
                self.later.push(Later::Drop { conn, slots });
            }
            let others = session.conns.iter().copied().filter(|conn| Some(*conn) != admin);
            self.later.extend(others.map(Later::Close));
        }
        if old & cc::SHUTDOWN == 0 && new & cc::SHUTDOWN != 0 {
            session.csts |= csts::SHUTDOWN_DONE;
        }
    }
}
