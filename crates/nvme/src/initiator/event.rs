//! What the controller tells without having been asked just then.

use block::Buffer;
use zerocopy::FromBytes;

use super::{
    attach::{Step, log_page},
    queue::Data,
    session::{Event, Out, Owner, Session},
};
use crate::wire::{
    command::{Sqe, admin},
    log::{ReservationNotice, id},
};

impl Session {
    /// One request for an event is always with the controller.
    pub(super) fn listen(&mut self) {
        self.admin(Owner::Event, Sqe::new(admin::ASYNC_EVENT), Data::None);
    }

    /// There was an event: its log says what, and reading it lets the next one come.
    pub(super) fn heard(&mut self, value: u32) {
        let [_, _, log, _] = value.to_le_bytes();
        let bytes = match log {
            id::CHANGED_NAMESPACES | id::ANA => 4096,
            id::RESERVATION => size_of::<ReservationNotice>(),
            _ => 0,
        };
        if bytes > 0 {
            let (sqe, data) = log_page(log, bytes);
            self.admin(Owner::Log(log), sqe, data);
        }
        self.listen();
    }

    pub(super) fn read_log(&mut self, log: u8, data: Option<&Buffer>) {
        let bytes = data.map_or(&[][..], |data| data.bytes());
        match log {
            id::CHANGED_NAMESPACES => {
                let command = Step::Namespace.command(&self.attached, 1);
                if let Some((sqe, data)) = command {
                    self.admin(Owner::Refresh, sqe, data);
                }
            }
            id::ANA => {
                let before = self.attached.ana;
                self.attached.learn_ana(bytes);
                if self.attached.ana != before {
                    self.outs.push_back(Out::Event(Event::Ana(self.attached.ana)));
                }
            }
            id::RESERVATION => {
                if let Ok((notice, _)) = ReservationNotice::ref_from_prefix(bytes)
                    && notice.kind != 0
                {
                    self.outs.push_back(Out::Event(Event::Reservation { kind: notice.kind }));
                }
            }
            _ => {}
        }
    }

    pub(super) fn refreshed(&mut self, data: Option<&Buffer>) {
        let before = self.attached.blocks;
        let bytes = data.map_or(&[][..], |data| data.bytes());
        let is_known = self.attached.learn_namespace(bytes).is_ok();
        let blocks = self.attached.blocks;
        if is_known && blocks != before {
            self.outs.push_back(Out::Event(Event::Resized { blocks }));
        }
    }
}
