//! What is exported, and to whom.

use alloc::{collections::BTreeSet, string::String};

use uuid::Uuid;

use crate::{reservation::Reservations, slab::Key, wire::log::Ana};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubsystemId(pub(crate) Key);

/// One subsystem with one namespace, number 1.
#[derive(Clone, Debug)]
pub struct Subsystem {
    pub nqn: String,
    /// Stable for the volume, whoever serves it.
    pub serial: String,
    pub hosts: Hosts,
    pub namespace: Namespace,
    /// Controllers get numbers from here on. Targets that serve one volume, one after the other or
    /// both for a moment, must have ranges that do not meet, because a host refuses a second
    /// controller of the same number.
    pub first_cntlid: u16,
    /// How many numbers there are.
    pub cntlids: u16,
    pub kind: Kind,
}

/// Who may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    Any,
    Only(BTreeSet<String>),
}

impl Hosts {
    pub fn admit(&self, nqn: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(hosts) => hosts.contains(nqn),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub uuid: Uuid,
    pub nguid: [u8; 16],
    pub blocks: u64,
    /// Space is taken when it is first written.
    pub is_thin: bool,
    pub ana: Ana,
}

/// Who decides about reservations, and whether our own commands are understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For hosts. Reservations are decided here; changes go out as `Op::Persist`. Only where they
    /// can last may a host ask that they outlive a loss of power.
    Volume { reservations: Reservations, can_last: bool },
    /// For targets. Reservations and vendor commands are handed out and decided by the replica,
    /// below every way to reach it.
    Replica,
}

impl Kind {
    pub(crate) fn can_last(&self) -> bool {
        match self {
            Self::Volume { can_last, .. } => *can_last,
            // A replica's reservation is its epoch, which always lasts.
            Self::Replica => true,
        }
    }
}

/// An address that hosts are told of by the discovery service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    pub family: Family,
    pub address: String,
    pub service: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// The one namespace's number.
pub(crate) const NSID: u32 = 1;

/// A subsystem as a port keeps it.
#[derive(Debug)]
pub(crate) struct Exported {
    pub subsystem: Subsystem,
    /// The next controller number to try, counted from the first.
    pub next_cntlid: u16,
    /// How often the accessibility changed.
    pub ana_changes: u64,
    /// A reservation command that changes the state is being made durable: others wait.
    pub is_persisting: bool,
}

impl Exported {
    pub(crate) fn new(subsystem: Subsystem) -> Self {
        Self { subsystem, next_cntlid: 0, ana_changes: 1, is_persisting: false }
    }
}
