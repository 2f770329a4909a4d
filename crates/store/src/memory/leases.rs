//! Which leases live, until when, and which keys go with them.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use ports::{Entry, Kept, Key, LeaseId, StoreError};

#[derive(Clone, Debug, Default)]
pub(super) struct Leases {
    alive: BTreeMap<LeaseId, Lease>,
    /// Ids are never reused, also not those of leases that ended long ago.
    last: u64,
}

#[derive(Clone, Debug)]
struct Lease {
    ttl: Duration,
    ends: Duration,
    keys: BTreeSet<Key>,
}

impl Leases {
    /// The id that the next lease gets.
    pub(super) fn next_id(&self) -> LeaseId {
        LeaseId(self.last + 1)
    }

    pub(super) fn grant(&mut self, now: Duration, lease: LeaseId, ttl: Duration) {
        self.last = self.last.max(lease.0);
        let ends = now.saturating_add(ttl);
        self.alive.insert(lease, Lease { ttl, ends, keys: BTreeSet::new() });
    }

    pub(super) fn renew(&mut self, now: Duration, lease: LeaseId) -> Result<Kept, StoreError> {
        let kept = self.alive.get_mut(&lease).ok_or(StoreError::LeaseEnded { lease })?;
        kept.ends = now.saturating_add(kept.ttl);
        Ok(Kept { lease, ttl: kept.ttl })
    }

    /// Every lease counts its full time again from `now`.
    pub(super) fn restart(&mut self, now: Duration) {
        for lease in self.alive.values_mut() {
            lease.ends = now.saturating_add(lease.ttl);
        }
    }

    /// Ends a lease and names the keys that go with it, in order.
    pub(super) fn end(&mut self, lease: LeaseId) -> BTreeSet<Key> {
        self.alive.remove(&lease).map(|ended| ended.keys).unwrap_or_default()
    }

    pub(super) fn is_alive(&self, lease: LeaseId) -> bool {
        self.alive.contains_key(&lease)
    }

    /// The first lease that is over at `now`; of several the one granted first.
    pub(super) fn over(&self, now: Duration) -> Option<LeaseId> {
        self.alive.iter().find(|(_, lease)| lease.ends <= now).map(|(id, _)| *id)
    }

    pub(super) fn next_end(&self) -> Option<Duration> {
        self.alive.values().map(|lease| lease.ends).min()
    }

    pub(super) fn bind(&mut self, entry: &Entry) {
        if let Some(lease) = entry.lease.and_then(|id| self.alive.get_mut(&id)) {
            lease.keys.insert(entry.key.clone());
        }
    }

    pub(super) fn release(&mut self, entry: &Entry) {
        if let Some(lease) = entry.lease.and_then(|id| self.alive.get_mut(&id)) {
            lease.keys.remove(&entry.key);
        }
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn reserve(&mut self, last: u64) {
        self.last = self.last.max(last);
    }

    pub(super) fn granted(&self) -> impl Iterator<Item = Kept> {
        self.alive.iter().map(|(lease, kept)| Kept { lease: *lease, ttl: kept.ttl })
    }
}
