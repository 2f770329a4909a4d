//! Asynchronous events: what a host is told of without having asked just then.

use super::session::Session;
use crate::{limits, reservation::Notice, wire::log};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Namespace,
    Ana,
    Discovery,
    Reservation,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Namespace, Self::Ana, Self::Discovery, Self::Reservation];

    const fn bit(self) -> u8 {
        match self {
            Self::Namespace => 1,
            Self::Ana => 2,
            Self::Discovery => 4,
            Self::Reservation => 8,
        }
    }

    /// Its bit in feature 0Bh and in what the controller offers; reservations have a feature of
    /// their own.
    pub(crate) const fn feature_bit(self) -> u32 {
        match self {
            Self::Namespace => 1 << 8,
            Self::Ana => 1 << 11,
            Self::Discovery => 1 << 31,
            Self::Reservation => 0,
        }
    }

    const fn log(self) -> u8 {
        match self {
            Self::Namespace => log::id::CHANGED_NAMESPACES,
            Self::Ana => log::id::ANA,
            Self::Discovery => log::id::DISCOVERY,
            Self::Reservation => log::id::RESERVATION,
        }
    }

    /// What the request for an event completes with: type, kind within it, and the log to read.
    fn result(self) -> u64 {
        let (kind, detail): (u64, u64) = match self {
            Self::Namespace => (2, 0x00),
            Self::Ana => (2, 0x03),
            Self::Discovery => (2, 0xf0),
            Self::Reservation => (6, 0x00),
        };
        kind | detail << 8 | u64::from(self.log()) << 16
    }
}

impl Session {
    /// Notes an event; true if the host may have to be told.
    pub(crate) fn raise(&mut self, kind: Kind) -> bool {
        if kind == Kind::Namespace {
            self.events.is_namespace_changed = true;
        }
        let is_wanted =
            kind == Kind::Reservation || self.features.wanted_events & kind.feature_bit() != 0;
        if is_wanted {
            self.events.pending |= kind.bit();
        }
        is_wanted && !self.events.requests.is_empty()
    }

    /// Notes what happened to a reservation; true if the host may have to be told.
    pub(crate) fn notify(&mut self, notice: Notice) -> bool {
        if self.features.masked_notices & 1 << notice.number() != 0 {
            return false;
        }
        if self.events.notices.len() == limits::NOTICES {
            self.events.notices.pop_front();
        }
        self.events.notices.push_back(notice);
        self.raise(Kind::Reservation)
    }

    /// The next event to tell and the request to tell it with, if there are both.
    pub(crate) fn next_event(&mut self) -> Option<(u16, u64)> {
        let due = self.events.pending & !self.events.masked;
        let kind = Kind::ALL.into_iter().find(|kind| due & kind.bit() != 0)?;
        let slot = self.events.requests.pop_front()?;
        self.events.pending &= !kind.bit();
        self.events.masked |= kind.bit();
        Some((slot, kind.result()))
    }

    /// The host has read a log: it may be told of the next such event.
    pub(crate) fn unmask(&mut self, log: u8) {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.log() == log) {
            self.events.masked &= !kind.bit();
        }
    }
}
