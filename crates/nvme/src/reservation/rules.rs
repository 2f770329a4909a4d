//! What each reservation command does.

use alloc::vec::Vec;

use super::{Acquire, Command, Effects, Held, HostId, Key, Kind, Notice, Register, Reservations};
use crate::{limits, status::Code};

impl Reservations {
    /// What the command makes of it and what else follows; the state itself does not change, so
    /// that the next one can be made durable first.
    pub fn decide(&self, host: &HostId, command: &Command) -> Result<(Self, Effects), Code> {
        let mut next = self.clone();
        let effects = match *command {
            Command::Register { action, ignores_key, current, new, persist } => {
                let current = (!ignores_key).then_some(current);
                let effects = match action {
                    Register::Register => next.register(*host, new)?,
                    Register::Unregister => next.unregister(*host, current)?,
                    Register::Replace => next.replace(*host, current, new)?,
                };
                next.persists = persist.unwrap_or(next.persists);
                effects
            }
            Command::Acquire { ignores_key: true, .. }
            | Command::Release { ignores_key: true, .. }
            | Command::Clear { ignores_key: true, .. } => return Err(Code::InvalidField),
            Command::Acquire { action, kind, current, other, .. } => {
                let kind = Kind::from_number(kind).ok_or(Code::InvalidField)?;
                next.check_key(host, current)?;
                next.acquire(*host, action, kind, other)?
            }
            Command::Release { kind, current, .. } => {
                next.check_key(host, current)?;
                next.release(host, kind)?
            }
            Command::Clear { current, .. } => {
                next.check_key(host, current)?;
                next.clear(host)
            }
            Command::Report { .. } => Effects::default(),
        };
        Ok((next, effects))
    }

    fn check_key(&self, host: &HostId, key: Key) -> Result<(), Code> {
        if self.key_of(host) == Some(key) { Ok(()) } else { Err(Code::ReservationConflict) }
    }

    fn register(&mut self, host: HostId, key: Key) -> Result<Effects, Code> {
        if key == 0 {
            return Err(Code::InvalidField);
        }
        if self.key_of(&host).is_some_and(|registered| registered != key) {
            return Err(Code::ReservationConflict);
        }
        if self.registrants.len() >= limits::REGISTRANTS {
            return Err(Code::InternalError);
        }
        self.registrants.insert(host, key);
        self.count();
        Ok(Effects::default())
    }

    fn replace(&mut self, host: HostId, current: Option<Key>, key: Key) -> Result<Effects, Code> {
        if key == 0 {
            return Err(Code::InvalidField);
        }
        let registered = self.registrants.get_mut(&host).ok_or(Code::ReservationConflict)?;
        if current.is_some_and(|current| current != *registered) {
            return Err(Code::ReservationConflict);
        }
        *registered = key;
        self.count();
        Ok(Effects::default())
    }

    fn unregister(&mut self, host: HostId, current: Option<Key>) -> Result<Effects, Code> {
        let registered = self.key_of(&host).ok_or(Code::ReservationConflict)?;
        if current.is_some_and(|current| current != registered) {
            return Err(Code::ReservationConflict);
        }
        let was_holder = self.is_holder(&host);
        self.registrants.remove(&host);
        self.count();
        let Some(held) = self.held.filter(|_| was_holder) else { return Ok(Effects::default()) };
        // Held by all, it ends with the last of them.
        if held.kind.is_held_by_all() && !self.registrants.is_empty() {
            return Ok(Effects::default());
        }
        self.held = None;
        Ok(self.released(held.kind, &host))
    }

    fn acquire(
        &mut self,
        host: HostId,
        action: Acquire,
        kind: Kind,
        other: Key,
    ) -> Result<Effects, Code> {
        if action == Acquire::Acquire {
            return match self.held {
                None => {
                    self.held = Some(Held { kind, by: host });
                    Ok(Effects::default())
                }
                Some(held) if self.is_holder(&host) && held.kind == kind => Ok(Effects::default()),
                Some(_) => Err(Code::ReservationConflict),
            };
        }
        let mut effects = self.preempt(host, kind, other)?;
        if action == Acquire::PreemptAndAbort {
            let unregistered = effects.notices.iter();
            effects.aborted = unregistered
                .filter(|(_, notice)| *notice == Notice::RegistrationPreempted)
                .map(|(host, _)| *host)
                .collect();
        }
        Ok(effects)
    }

    fn preempt(&mut self, host: HostId, kind: Kind, other: Key) -> Result<Effects, Code> {
        let takes_over = match self.held {
            None => false,
            Some(held) if held.kind.is_held_by_all() => other == 0,
            Some(held) => self.key_of(&held.by) == Some(other),
        };
        if other == 0 && !takes_over {
            return Err(Code::InvalidField);
        }
        let is_hit = |key: Key| other == 0 || key == other;
        let gone: Vec<_> = self
            .registrants
            .iter()
            .filter(|(registrant, key)| **registrant != host && is_hit(**key))
            .map(|(registrant, _)| *registrant)
            .collect();
        if gone.is_empty() && !takes_over && self.key_of(&host) != Some(other) {
            return Err(Code::ReservationConflict);
        }
        let mut effects = Effects::default();
        for registrant in gone {
            self.registrants.remove(&registrant);
            effects.notices.push((registrant, Notice::RegistrationPreempted));
        }
        if takes_over {
            let before = self.held.replace(Held { kind, by: host });
            if let Some(before) = before.filter(|before| before.kind != kind) {
                effects.notices.extend(self.released(before.kind, &host).notices);
            }
        }
        self.count();
        Ok(effects)
    }

    fn release(&mut self, host: &HostId, kind: u8) -> Result<Effects, Code> {
        let Some(held) = self.held.filter(|_| self.is_holder(host)) else {
            return Ok(Effects::default());
        };
        if held.kind.number() != kind {
            return Err(Code::InvalidField);
        }
        self.held = None;
        Ok(self.released(held.kind, host))
    }

    fn clear(&mut self, host: &HostId) -> Effects {
        let others = self.registrants.keys().filter(|registrant| *registrant != host);
        let notices = others.map(|other| (*other, Notice::ReservationPreempted)).collect();
        self.registrants.clear();
        self.held = None;
        self.count();
        Effects { notices, ..Effects::default() }
    }

    /// Registrants that were let in by it are told when it goes.
    fn released(&self, kind: Kind, by: &HostId) -> Effects {
        if !kind.lets_registrants_in() {
            return Effects::default();
        }
        let others = self.registrants.keys().filter(|registrant| *registrant != by);
        let notices = others.map(|other| (*other, Notice::ReservationReleased)).collect();
        Effects { notices, ..Effects::default() }
    }

    fn count(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}
