//! The store as a machine: it decides, and then applies what was decided.
//!
//! ```text
//!   commit, lease, advance, compact ──▶ decide (&self) ──▶ Record ──▶ apply (&mut self)
//!                                                            └──▶ the embedded store's file
//! ```
//! It has no clock (`now` is given, on any time line that does not run backwards), no thread and no
//! randomness. A clone is a snapshot: entries and history are shared, not copied.

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use ports::{
    Compare, Entry, Kept, Key, LeaseId, LeaseRequest, Page, Revision, StoreError, Txn, TxnOutcome,
    WatchEvent, Write,
};

use super::{
    history::{Bounds, FOUNDED, History},
    leases::Leases,
    record::{Changed, Record},
};
use crate::limits;

/// All of a store's state.
///
/// A driver with simulated time calls `advance(now)` before anything else that happens at `now`, so
/// that a lease that is over is gone before a write that it guards is judged.
#[derive(Clone, Debug)]
pub struct Core {
    revision: Revision,
    pub(super) entries: BTreeMap<Key, Arc<Entry>>,
    pub(super) history: History,
    pub(super) leases: Leases,
}

/// What happened under a prefix since a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    pub events: Vec<WatchEvent>,
    /// Ask from here next time. It moves on also where nothing under the prefix changed, so that a
    /// quiet watch does not fall behind the oldest revision.
    pub next: Revision,
}

impl Default for Core {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl Core {
    /// An empty store at revision 1.
    pub fn new(bounds: Bounds) -> Self {
        Self::founded_at(FOUNDED, bounds)
    }

    /// An empty store that counts on from `revision`.
    pub(super) fn founded_at(revision: Revision, bounds: Bounds) -> Self {
        Self {
            revision,
            entries: BTreeMap::new(),
            history: History::after(revision, bounds),
            leases: Leases::default(),
        }
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The first revision that a watch may start from.
    pub fn oldest(&self) -> Revision {
        self.history.oldest()
    }

    /// See `ports::Store::read`.
    pub fn read(&self, keys: &[Key]) -> Result<(Vec<Entry>, Revision), StoreError> {
        limits::check_read(keys)?;
        let found = keys.iter().filter_map(|key| self.get(key).cloned()).collect();
        Ok((found, self.revision))
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key).map(AsRef::as_ref)
    }

    /// See `ports::Store::list`.
    pub fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<Revision>,
    ) -> Result<Page, StoreError> {
        let revision = at.unwrap_or(self.revision);
        if revision > self.revision {
            return Err(StoreError::Future { asked: revision, newest: self.revision });
        }
        if revision.next() < self.oldest() {
            return Err(StoreError::Compacted { oldest: self.oldest() });
        }
        let limit = limits::page_entries(limit);
        let undone = self.history.undone_to(revision, prefix)?;
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let unchanged = self
            .entries
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| !undone.contains_key(key.as_str()))
            .map(|(key, entry)| (key.as_str(), entry));
        let restored = undone
            .range::<str, _>((start, Bound::Unbounded))
            .filter_map(|(key, entry)| entry.map(|entry| (*key, entry)));
        // One more of each than the page holds, so that it shows whether another page follows.
        let found: BTreeMap<_, _> =
            unchanged.take(limit + 1).chain(restored.take(limit + 1)).collect();
        let more = found.len() > limit;
        let entries: Vec<_> = found.into_values().take(limit).map(|e| Entry::clone(e)).collect();
        let next = entries.last().filter(|_| more).map(|entry| entry.key.clone());
        Ok(Page { entries, revision, next })
    }

    /// What happened under `prefix` from revision `from` on, at most `limit` revisions of it.
    /// A `from` in the future is no error: nothing is returned until it is reached.
    pub fn changes(
        &self,
        prefix: &str,
        from: Revision,
        limit: usize,
    ) -> Result<Changes, StoreError> {
        let mut events = Vec::new();
        for (revision, step) in self.history.since(from)? {
            if events.len() == limit.max(1) {
                return Ok(Changes { events, next: revision });
            }
            events.extend(step.event(revision, prefix));
        }
        Ok(Changes { events, next: from.max(self.revision.next()) })
    }

    /// See `ports::Store::commit`.
    pub fn commit(&mut self, txn: &Txn) -> Result<TxnOutcome, StoreError> {
        let (outcome, record) = self.decide_commit(txn)?;
        self.apply_all(Duration::ZERO, record.as_slice());
        Ok(outcome)
    }

    /// See `ports::Store::lease`.
    pub fn lease(&mut self, now: Duration, request: LeaseRequest) -> Result<Kept, StoreError> {
        let (kept, record) = self.decide_lease(now, request)?;
        self.apply_all(now, record.as_slice());
        Ok(kept)
    }

    /// Ends every lease that is over at `now`, each at a revision of its own if it has keys.
    pub fn advance(&mut self, now: Duration) -> Vec<LeaseId> {
        let mut ended = Vec::new();
        while let Some(lease) = self.leases.over(now) {
            self.apply(now, &Record::Ended { lease });
            ended.push(lease);
        }
        ended
    }

    /// When the next lease is over, if nobody renews it.
    pub fn next_expiry(&self) -> Option<Duration> {
        self.leases.next_end()
    }

    /// See `ports::Store::compact`.
    pub fn compact(&mut self, before: Revision) -> Result<(), StoreError> {
        let record = self.decide_compact(before)?;
        self.apply_all(Duration::ZERO, record.as_slice());
        Ok(())
    }

    pub(crate) fn decide_commit(
        &self,
        txn: &Txn,
    ) -> Result<(TxnOutcome, Option<Record>), StoreError> {
        limits::check_txn(txn)?;
        for Compare { key, expect } in &txn.compares {
            let found = self.get(key);
            if !expect.holds(found) {
                let found = found.cloned();
                let refused =
                    TxnOutcome::Refused { key: key.clone(), found, revision: self.revision };
                return Ok((refused, None));
            }
        }
        let revision = self.revision.next();
        let changes = txn
            .writes
            .iter()
            .filter_map(|write| self.decide_write(write, revision).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        if changes.is_empty() {
            return Ok((TxnOutcome::Committed { revision: self.revision }, None));
        }
        Ok((TxnOutcome::Committed { revision }, Some(Record::Changed { revision, changes })))
    }

    fn decide_write(
        &self,
        write: &Write,
        modified: Revision,
    ) -> Result<Option<Changed>, StoreError> {
        match write {
            Write::Put { lease: Some(lease), .. } if !self.leases.is_alive(*lease) => {
                Err(StoreError::LeaseEnded { lease: *lease })
            }
            Write::Put { key, value, lease } => {
                let created = self.get(key).map_or(modified, |entry| entry.created);
                let (key, value) = (key.clone(), value.clone());
                let entry = Entry { key, value, created, modified, lease: *lease };
                Ok(Some(Changed::Put(Arc::new(entry))))
            }
            Write::Delete { key } => {
                Ok(self.entries.contains_key(key).then(|| Changed::Deleted(key.clone())))
            }
        }
    }

    /// A renewal changes nothing that must outlive the process, so it has no record and happens
    /// here.
    pub(crate) fn decide_lease(
        &mut self,
        now: Duration,
        request: LeaseRequest,
    ) -> Result<(Kept, Option<Record>), StoreError> {
        limits::check_lease(request)?;
        match request {
            LeaseRequest::Grant { ttl } => {
                let lease = self.leases.next_id();
                Ok((Kept { lease, ttl }, Some(Record::Granted { lease, ttl })))
            }
            LeaseRequest::Renew { lease } => Ok((self.leases.renew(now, lease)?, None)),
            LeaseRequest::Revoke { lease } if self.leases.is_alive(lease) => {
                Ok((Kept { lease, ttl: Duration::ZERO }, Some(Record::Ended { lease })))
            }
            LeaseRequest::Revoke { lease } => Err(StoreError::LeaseEnded { lease }),
        }
    }

    /// The lease that is over at `now`, as the record that ends it.
    pub(crate) fn decide_expiry(&self, now: Duration) -> Option<Record> {
        self.leases.over(now).map(|lease| Record::Ended { lease })
    }

    pub(crate) fn decide_compact(&self, before: Revision) -> Result<Option<Record>, StoreError> {
        let (asked, newest) = (before, self.revision);
        if asked > newest.next() {
            return Err(StoreError::Future { asked, newest });
        }
        Ok((before > self.oldest()).then_some(Record::Compacted { before }))
    }

    fn apply_all(&mut self, now: Duration, records: &[Record]) {
        for record in records {
            self.apply(now, record);
        }
    }

    /// Does what was decided. A record that does not follow on this machine is a bug or a damaged
    /// file; who reads records from a file checks with `follows` first.
    pub(crate) fn apply(&mut self, now: Duration, record: &Record) {
        assert!(self.follows(record), "{record:?} does not follow revision {}", self.revision);
        match record {
            Record::Changed { changes, .. } => self.apply_changes(changes.iter().cloned()),
            Record::Granted { lease, ttl } => self.leases.grant(now, *lease, *ttl),
            Record::Ended { lease } => {
                let keys: BTreeSet<Key> = self.leases.end(*lease);
                if !keys.is_empty() {
                    self.apply_changes(keys.into_iter().map(Changed::Deleted));
                }
            }
            Record::Compacted { before } => self.history.forget_before(*before),
        }
    }

    /// Whether a record can come next.
    pub(crate) fn follows(&self, record: &Record) -> bool {
        match record {
            Record::Changed { revision, changes } => {
                *revision == self.revision.next()
                    && !changes.is_empty()
                    && changes.iter().all(|change| self.change_follows(change))
            }
            Record::Granted { lease, .. } => *lease == self.leases.next_id(),
            Record::Ended { lease } => self.leases.is_alive(*lease),
            Record::Compacted { before } => *before <= self.revision.next(),
        }
    }

    fn change_follows(&self, change: &Changed) -> bool {
        match change {
            Changed::Put(entry) => {
                let created = self.get(&entry.key).map_or(entry.modified, |found| found.created);
                entry.modified == self.revision.next() && entry.created == created
            }
            Changed::Deleted(key) => self.entries.contains_key(key),
        }
    }

    fn apply_changes(&mut self, changes: impl Iterator<Item = Changed>) {
        self.revision = self.revision.next();
        let mut step = Vec::new();
        for change in changes {
            let replaced = match &change {
                Changed::Put(entry) => self.entries.insert(entry.key.clone(), entry.clone()),
                Changed::Deleted(key) => self.entries.remove(key),
            };
            if let Some(replaced) = &replaced {
                self.leases.release(replaced);
            }
            if let Changed::Put(entry) = &change {
                self.leases.bind(entry);
            }
            step.push((change, replaced));
        }
        self.history.push(step);
    }
}
