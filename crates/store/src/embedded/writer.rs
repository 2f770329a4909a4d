//! The one thread that changes the store.
//!
//! ```text
//!   wait ──▶ decide every waiting request on `working` ──▶ append ──▶ sync, mark
//!    ▲                                                                   │
//!    └──── rewrite the file if it grew ◀── answer ◀── show to readers ◀──┘
//! ```
//! There are two machines: `working` is ahead by the batch under way, and readers see only the
//! other, so that nothing is read that a crash could take back. Their entries are shared.

use core::time::Duration;
use std::{
    io,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Instant,
};

use ports::{Kept, LeaseRequest, Revision, StoreError, Txn, TxnOutcome};
use tokio::sync::{oneshot, watch};
use tracing::{error, warn};

use super::{file::StoreFile, lock::Lock};
use crate::memory::{Core, record::Record};

/// Requests decided at most before the next sync: enough for every waiter that the queue holds.
const BATCH_MAX: usize = 256;

#[derive(Debug)]
pub(super) enum Request {
    Commit(Txn, Reply<TxnOutcome>),
    Lease(LeaseRequest, Reply<Kept>),
    Compact(Revision, Reply<()>),
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// A request that is decided, but not yet synced.
enum Decided {
    Commit(Result<TxnOutcome, StoreError>, Reply<TxnOutcome>),
    Lease(Result<Kept, StoreError>, Reply<Kept>),
    Compact(Result<(), StoreError>, Reply<()>),
}

pub(super) struct Writer {
    pub(super) working: Core,
    pub(super) shown: Arc<Mutex<Core>>,
    pub(super) file: StoreFile,
    pub(super) requests: Receiver<Request>,
    /// Dropped with the writer, which ends the watches.
    pub(super) touched: watch::Sender<u64>,
    pub(super) opened: Instant,
    pub(super) rewrite_slack_bytes: u64,
    pub(super) rewrite_at: u64,
    /// Why nothing can be written any more.
    pub(super) failed: Option<StoreError>,
    /// Held until the thread is done with the file.
    pub(super) lock: Lock,
}

/// The length at which a file of this machine is rewritten.
pub(super) fn rewrite_at(core: &Core, slack_bytes: u64) -> u64 {
    2 * core.bytes() + slack_bytes
}

impl Writer {
    /// Runs until nobody can send requests any more.
    pub(super) fn run(mut self) {
        self.working.restart_leases(self.opened.elapsed());
        while let Some(batch) = self.wait() {
            self.serve(batch);
            self.rewrite_if_grown();
        }
        if let Err(error) = self.file.close() {
            warn!(%error, "store not synced at its end");
        }
        drop(self.lock);
    }

    /// The requests that wait; none if a lease is over instead; `None` at the end.
    fn wait(&self) -> Option<Vec<Request>> {
        let received = match self.working.next_expiry().filter(|_| self.failed.is_none()) {
            Some(expiry) => {
                self.requests.recv_timeout(expiry.saturating_sub(self.opened.elapsed()))
            }
            None => self.requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(first) => {
                let others = self.requests.try_iter().take(BATCH_MAX - 1);
                Some(std::iter::once(first).chain(others).collect())
            }
            Err(RecvTimeoutError::Timeout) => Some(vec![]),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn serve(&mut self, batch: Vec<Request>) {
        let now = self.opened.elapsed();
        let mut records = Vec::new();
        if self.failed.is_none() {
            while let Some(over) = self.working.decide_expiry(now) {
                self.keep(now, over, &mut records);
            }
        }
        let decided: Vec<_> =
            batch.into_iter().map(|request| self.decide(now, request, &mut records)).collect();
        let synced = self.sync(&records);
        if synced.is_ok() && !records.is_empty() {
            self.show(now, &records);
        }
        for decided in decided {
            decided.answer(synced.as_ref().err());
        }
    }

    fn decide(&mut self, now: Duration, request: Request, records: &mut Vec<Record>) -> Decided {
        if let Some(failed) = self.failed.clone() {
            return match request {
                Request::Commit(_, reply) => Decided::Commit(Err(failed), reply),
                Request::Lease(_, reply) => Decided::Lease(Err(failed), reply),
                Request::Compact(_, reply) => Decided::Compact(Err(failed), reply),
            };
        }
        match request {
            Request::Commit(txn, reply) => {
                let decided = self.working.decide_commit(&txn);
                Decided::Commit(self.keep_decided(now, decided, records), reply)
            }
            Request::Lease(request, reply) => {
                let decided = self.working.decide_lease(now, request);
                Decided::Lease(self.keep_decided(now, decided, records), reply)
            }
            Request::Compact(before, reply) => {
                let decided = self.working.decide_compact(before).map(|record| ((), record));
                Decided::Compact(self.keep_decided(now, decided, records), reply)
            }
        }
    }

    fn keep_decided<T>(
        &mut self,
        now: Duration,
        decided: Result<(T, Option<Record>), StoreError>,
        records: &mut Vec<Record>,
    ) -> Result<T, StoreError> {
        let (answer, record) = decided?;
        if let Some(record) = record {
            self.keep(now, record, records);
        }
        Ok(answer)
    }

    fn keep(&mut self, now: Duration, record: Record, records: &mut Vec<Record>) {
        self.working.apply(now, &record);
        records.push(record);
    }

    /// Puts the records on disk. After an error nothing of them is shown.
    fn sync(&mut self, records: &[Record]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let appended = match self.file.append(records) {
            Ok(appended) => appended,
            Err(error) => return Err(self.take_back(&error)),
        };
        if let Err(error) = self.file.sync(appended) {
            // After a failed sync nobody knows what is on disk, and asking again may lie.
            self.fail("sync", &error);
            return Err(StoreError::Unknown { waited: started.elapsed() });
        }
        Ok(())
    }

    /// A full disk must not end the store: what was not written is forgotten, and it goes on.
    fn take_back(&mut self, error: &io::Error) -> StoreError {
        warn!(%error, "store records not written");
        let reason = format!("cannot write {}: {error}", self.file.path().display());
        match self.file.take_back() {
            Ok(()) => {
                let shown = self.shown.lock().expect("nothing panics while it holds the machine");
                self.working = shown.clone();
                drop(shown);
                self.working.restart_leases(self.opened.elapsed());
            }
            Err(error) => self.fail("cut", &error),
        }
        StoreError::Unavailable { reason }
    }

    fn fail(&mut self, doing: &str, error: &io::Error) {
        error!(%error, doing, "store closed for writes");
        let path = self.file.path().display();
        let reason = format!("{path} takes no more writes, could not {doing} it: {error}");
        self.failed = Some(StoreError::Unavailable { reason });
    }

    fn show(&mut self, now: Duration, records: &[Record]) {
        let mut shown = self.shown.lock().expect("nothing panics while it holds the machine");
        for record in records {
            shown.apply(now, record);
        }
        drop(shown);
        self.touched.send_modify(|count| *count += 1);
    }

    fn rewrite_if_grown(&mut self) {
        if self.file.length() < self.rewrite_at || self.failed.is_some() {
            return;
        }
        match self.file.rewrite(&self.working) {
            Ok(aside) => {
                if let Err(error) = self.file.switch_to(aside) {
                    self.fail("replace", &error);
                }
                self.rewrite_at = rewrite_at(&self.working, self.rewrite_slack_bytes);
            }
            Err(error) => {
                warn!(%error, "store not rewritten");
                self.rewrite_at = self.file.length() + self.rewrite_slack_bytes;
            }
        }
    }
}

impl Decided {
    /// Who no longer waits for the answer does not get it.
    fn answer(self, failed: Option<&StoreError>) {
        match self {
            Self::Commit(outcome, reply) => drop(reply.send(unless(failed, outcome))),
            Self::Lease(kept, reply) => drop(reply.send(unless(failed, kept))),
            Self::Compact(done, reply) => drop(reply.send(unless(failed, done))),
        }
    }
}

fn unless<T>(failed: Option<&StoreError>, decided: Result<T, StoreError>) -> Result<T, StoreError> {
    failed.map_or(decided, |failed| Err(failed.clone()))
}
