//! The machine behind the store port: for tests and for a process that keeps nothing.

use core::time::Duration;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
};

use ports::{
    Entry, Kept, Key, LeaseRequest, Page, Revision, Store, StoreError, Txn, TxnOutcome, Watch,
    WatchEvent,
};
use tokio::{
    sync::watch,
    time::{self, Instant},
};

use super::{Bounds, Core};
use crate::limits;

/// A store that is gone with the process. Clones share it.
#[derive(Clone, Debug)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    core: Mutex<Core>,
    founded: Instant,
    /// Counts what watches may want to look at: changes, and leases that end sooner than others.
    touched: watch::Sender<u64>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl Memory {
    pub fn new(bounds: Bounds) -> Self {
        let core = Mutex::new(Core::new(bounds));
        let (touched, _) = watch::channel(0);
        Self { shared: Arc::new(Shared { core, founded: Instant::now(), touched }) }
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.founded.elapsed()
    }

    /// The machine, with every lease ended that is over by now.
    fn core(&self) -> MutexGuard<'_, Core> {
        let mut core = self.core.lock().expect("nothing panics while it holds the machine");
        if !core.advance(self.now()).is_empty() {
            self.touched.send_modify(|count| *count += 1);
        }
        core
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut Core) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let changed = change(&mut self.core());
        self.touched.send_modify(|count| *count += 1);
        changed
    }
}

impl Store for Memory {
    type Watch = MemoryWatch;

    async fn read(&self, keys: &[Key]) -> Result<(Vec<Entry>, Revision), StoreError> {
        self.shared.core().read(keys)
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<Revision>,
    ) -> Result<Page, StoreError> {
        self.shared.core().list(prefix, after, limit, at)
    }

    async fn commit(&self, txn: &Txn) -> Result<TxnOutcome, StoreError> {
        self.shared.change(|core| core.commit(txn))
    }

    async fn watch(&self, prefix: &str, from: Revision) -> Result<MemoryWatch, StoreError> {
        let touched = self.shared.touched.subscribe();
        // A watch from a forgotten revision is refused here and not only by its first event.
        self.shared.core().changes(prefix, from, 1)?;
        Ok(MemoryWatch {
            shared: self.shared.clone(),
            touched,
            prefix: prefix.to_owned(),
            next: from,
            ready: VecDeque::new(),
        })
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Kept, StoreError> {
        self.shared.change(|core| core.lease(self.shared.now(), request))
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        self.shared.change(|core| core.compact(before))
    }
}

#[derive(Debug)]
pub struct MemoryWatch {
    shared: Arc<Shared>,
    touched: watch::Receiver<u64>,
    prefix: String,
    next: Revision,
    ready: VecDeque<WatchEvent>,
}

impl MemoryWatch {
    /// Fetches what happened, and tells when a lease may end that nobody asks about.
    fn look(&mut self) -> Result<Option<Instant>, StoreError> {
        self.touched.mark_unchanged();
        let core = self.shared.core();
        let changes = core.changes(&self.prefix, self.next, limits::WATCH_REVISIONS_MAX)?;
        self.next = changes.next;
        self.ready.extend(changes.events);
        Ok(core.next_expiry().map(|expiry| self.shared.founded + expiry))
    }
}

impl Watch for MemoryWatch {
    async fn next(&mut self) -> Result<WatchEvent, StoreError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            let expiry = self.look()?;
            if !self.ready.is_empty() {
                continue;
            }
            // The sender lives in `shared`, so the channel cannot close while the watch lives.
            match expiry {
                Some(expiry) => {
                    let _ = time::timeout_at(expiry, self.touched.changed()).await;
                }
                None => {
                    let _ = self.touched.changed().await;
                }
            }
        }
    }
}
