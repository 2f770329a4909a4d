//! Reservations of volumes, decided here: one change at a time, durable before it counts.

use alloc::vec::Vec;

use super::{
    core::{Answer, Core, Later, Persisting, Quiet},
    port::ConnId,
    session::{SessionId, State},
    subsystem::{Kind, SubsystemId},
};
use crate::{
    reservation::{Command, Controller, Effects, report},
    status::Code,
};

impl Core {
    pub(crate) fn reserve(&mut self, id: SessionId, command: &Command) -> Answer {
        let Some((session, exported)) = self.exported(id) else {
            return Code::InternalError.into();
        };
        let (Kind::Volume { reservations, can_last }, Some(subsystem)) =
            (&exported.subsystem.kind, session.subsystem)
        else {
            return Code::InternalError.into();
        };
        if let Command::Report { bytes } = *command {
            let mut page = report(reservations, &self.controllers(subsystem));
            page.resize(bytes, 0);
            return Answer::data(&page);
        }
        if exported.is_persisting {
            return Answer::Turn { subsystem };
        }
        if !can_last && matches!(command, Command::Register { persist: Some(true), .. }) {
            return Code::InvalidField.into();
        }
        match reservations.decide(&session.host_id, command) {
            Ok((next, effects)) if next == *reservations && effects == Effects::default() => {
                Answer::fine()
            }
            Ok((next, effects)) => Answer::Persist { subsystem, next, effects },
            Err(code) => code.into(),
        }
    }

    /// The live controllers of a subsystem and their hosts.
    fn controllers(&self, subsystem: SubsystemId) -> Vec<Controller> {
        let of_it = self.sessions.iter().filter(|(_, session)| {
            session.subsystem == Some(subsystem) && session.state == State::Live
        });
        of_it
            .map(|(_, session)| Controller { cntlid: session.cntlid, host: session.host_id })
            .collect()
    }

    /// The change that this slot waits for, if it waits for one.
    pub(crate) fn persisting_of(&mut self, conn: ConnId, slot: u16) -> Option<Persisting> {
        let at = self.persisting.iter().position(|p| p.conn == conn && p.slot == slot)?;
        Some(self.persisting.swap_remove(at))
    }

    /// The change is durable, or could not be made so. Gives what the command must wait for yet.
    pub(crate) fn persisted(&mut self, change: Persisting, is_durable: bool) -> Option<Quiet> {
        let Persisting { subsystem, conn, slot, effects, next } = change;
        let exported = self.subsystems.get_mut(subsystem.0)?;
        exported.is_persisting = false;
        if !is_durable {
            return None;
        }
        if let Kind::Volume { reservations, .. } = &mut exported.subsystem.kind {
            *reservations = next;
        }
        for (key, session) in self.sessions.iter_mut() {
            let (host, of) = (session.host_id, session.subsystem);
            for (to, notice) in &effects.notices {
                if *to == host && of == Some(subsystem) && session.notify(*notice) {
                    self.later.push(Later::Events(SessionId(key)));
                }
            }
        }
        let quiet = Quiet { subsystem, hosts: effects.aborted, conn, slot };
        (!self.is_quiet(&quiet)).then_some(quiet)
    }

    /// Whether no command of these hosts is under way. New ones are refused by now.
    pub(crate) fn is_quiet(&self, quiet: &Quiet) -> bool {
        self.sessions.iter().all(|(_, session)| {
            session.subsystem != Some(quiet.subsystem)
                || session.io_in_flight == 0
                || !quiet.hosts.contains(&session.host_id)
        })
    }
}
