//! A controller and the host that it belongs to: what NVMe calls an association.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::String,
    vec::Vec,
};
use core::time::Duration;

use super::{port::ConnId, subsystem::SubsystemId};
use crate::{
    reservation::{HostId, Notice},
    slab::Key,
};

/// Never used again, so that whatever is still said of an old one is known to be late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub(crate) Key);

impl SessionId {
    /// A small number that no other session has at the same time.
    pub const fn index(self) -> usize {
        self.0.index()
    }
}

/// A host's session.
#[derive(Debug)]
pub struct Session {
    pub host_nqn: String,
    pub host_id: HostId,
    pub cntlid: u16,
    /// `None` for the discovery service.
    pub subsystem: Option<SubsystemId>,
    pub(crate) state: State,
    /// Queue 0 is the admin queue. A connection stays here until its last request is answered.
    pub(crate) conns: Vec<ConnId>,
    pub(crate) queues: BTreeMap<u16, ConnId>,
    pub(crate) cc: u32,
    pub(crate) csts: u32,
    /// Zero for none.
    pub(crate) keep_alive: Duration,
    pub(crate) heard: Duration,
    pub(crate) features: Features,
    pub(crate) events: Events,
    /// Requests of its I/O queues that the caller has not answered.
    pub(crate) io_in_flight: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Live,
    /// Its connections are being closed; it is gone when the last request is answered.
    Ending,
}

#[derive(Debug)]
pub(crate) struct Features {
    /// Feature 06h: off makes every write durable.
    pub is_write_cache_on: bool,
    /// Feature 07h: how many queues there may be, as it was answered.
    pub queues: u32,
    /// Feature 0Bh: of which events the host wants to hear.
    pub wanted_events: u32,
    /// Feature 82h: of which notices it does not.
    pub masked_notices: u32,
    /// Feature 16h.
    pub host_behavior: [u8; 4],
    /// Values that are kept and given back, and mean nothing here.
    pub idle: BTreeMap<u8, u32>,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            is_write_cache_on: true,
            queues: super::feature::QUEUES_MOST,
            wanted_events: 0,
            masked_notices: 0,
            host_behavior: [0; 4],
            idle: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Requests of the admin queue that wait for an event, as its slots.
    pub requests: VecDeque<u16>,
    /// Bits of `event::Kind` that the host has not been told of.
    pub pending: u8,
    /// Bits that it was told of and has not read the log for.
    pub masked: u8,
    /// The namespace changed since the host last read of it.
    pub is_namespace_changed: bool,
    pub notices: VecDeque<Notice>,
    pub notices_counted: u64,
}

impl Session {
    pub(crate) fn admin(&self) -> Option<ConnId> {
        self.queues.get(&0).copied()
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.csts & crate::wire::fabrics::csts::READY != 0
    }

    /// When it ends unless the host is heard of.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let is_watched = self.state == State::Live && !self.keep_alive.is_zero();
        is_watched.then(|| self.heard + self.keep_alive)
    }
}
