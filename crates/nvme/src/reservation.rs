//! Reservations: who may read and write a namespace that several hosts reach.
//!
//! Pure state: `decide` says what would become of it, and the caller makes that durable before it
//! takes it. Hosts are known by their 128-bit identifiers, whatever controller they come through.

mod codec;
mod rules;

use alloc::{collections::BTreeMap, vec::Vec};

pub use codec::{Controller, report};

pub type HostId = [u8; 16];
pub type Key = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    WriteExclusive = 1,
    ExclusiveAccess = 2,
    WriteExclusiveRegistrants = 3,
    ExclusiveAccessRegistrants = 4,
    WriteExclusiveAll = 5,
    ExclusiveAccessAll = 6,
}

impl Kind {
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::WriteExclusive),
            2 => Some(Self::ExclusiveAccess),
            3 => Some(Self::WriteExclusiveRegistrants),
            4 => Some(Self::ExclusiveAccessRegistrants),
            5 => Some(Self::WriteExclusiveAll),
            6 => Some(Self::ExclusiveAccessAll),
            _ => None,
        }
    }

    pub const fn number(self) -> u8 {
        match self {
            Self::WriteExclusive => 1,
            Self::ExclusiveAccess => 2,
            Self::WriteExclusiveRegistrants => 3,
            Self::ExclusiveAccessRegistrants => 4,
            Self::WriteExclusiveAll => 5,
            Self::ExclusiveAccessAll => 6,
        }
    }

    /// Every registrant holds it.
    pub const fn is_held_by_all(self) -> bool {
        matches!(self, Self::WriteExclusiveAll | Self::ExclusiveAccessAll)
    }

    const fn lets_registrants_in(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    const fn keeps_readers_out(self) -> bool {
        matches!(
            self,
            Self::ExclusiveAccess | Self::ExclusiveAccessRegistrants | Self::ExclusiveAccessAll
        )
    }
}

/// What a command does, as far as reservations care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// Judged by its own rules, or not at all.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    Register {
        action: Register,
        ignores_key: bool,
        current: Key,
        new: Key,
        persist: Option<bool>,
    },
    Acquire {
        action: Acquire,
        ignores_key: bool,
        kind: u8,
        current: Key,
        other: Key,
    },
    Release {
        ignores_key: bool,
        kind: u8,
        current: Key,
    },
    Clear {
        ignores_key: bool,
        current: Key,
    },
    /// At most so many bytes may be answered.
    Report {
        bytes: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Register {
    Register,
    Unregister,
    Replace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acquire {
    Acquire,
    Preempt,
    PreemptAndAbort,
}

/// What a registrant is told of, through the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Notice {
    RegistrationPreempted,
    ReservationReleased,
    ReservationPreempted,
}

impl Notice {
    /// As the log page has it; less one, its bit in the notification mask is to the left of bit 0.
    pub const fn number(self) -> u8 {
        match self {
            Self::RegistrationPreempted => 1,
            Self::ReservationReleased => 2,
            Self::ReservationPreempted => 3,
        }
    }
}

/// What else follows from a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Whose commands that are under way are to be aborted.
    pub aborted: Vec<HostId>,
    pub notices: Vec<(HostId, Notice)>,
}

/// The reservation and its registrants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reservations {
    generation: u32,
    persists: bool,
    registrants: BTreeMap<HostId, Key>,
    held: Option<Held>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    kind: Kind,
    /// Who acquired it; of a kind held by all, only the history.
    by: HostId,
}

impl Reservations {
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it outlives a loss of power.
    pub fn persists(&self) -> bool {
        self.persists
    }

    pub fn generation(&self) -> u32 {
        self.generation
    }

    pub fn kind(&self) -> Option<Kind> {
        self.held.map(|held| held.kind)
    }

    pub fn key_of(&self, host: &HostId) -> Option<Key> {
        self.registrants.get(host).copied()
    }

    pub fn is_holder(&self, host: &HostId) -> bool {
        let is_registered = self.registrants.contains_key(host);
        self.held
            .is_some_and(|held| is_registered && (held.kind.is_held_by_all() || held.by == *host))
    }

    /// Whether the host may do this now.
    pub fn allows(&self, host: &HostId, access: Access) -> bool {
        let Some(held) = self.held else { return true };
        let is_judged = match access {
            Access::Read => held.kind.keeps_readers_out(),
            Access::Write => true,
            Access::Other => false,
        };
        let is_in = self.is_holder(host)
            || (held.kind.lets_registrants_in() && self.registrants.contains_key(host));
        !is_judged || is_in
    }

    /// What is left after a loss of power.
    #[must_use]
    pub fn after_power_loss(self) -> Self {
        if self.persists { self } else { Self::default() }
    }
}

#[cfg(test)]
mod tests;
