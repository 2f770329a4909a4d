//! The store port: an ordered map from keys to bytes with revisions, transactions, watches, leases.
//!
//! The semantics are etcd's, cut down to what Holdfast needs. It knows no resource: keys and values
//! are bytes here, and `model` gives them their meaning.

use core::{future::Future, time::Duration};
use std::string::String;

pub use model::{Change, Entry, Expect, LeaseId, Revision};

/// A key: printable, `/`-separated, ordered by bytes.
pub type Key = String;

/// What is compared and written here is bytes; `model::Txn::encode` makes them of records.
pub type Compare = model::Compare<Key>;
pub type Write = model::Write<Key, Vec<u8>>;
pub type Txn = model::Txn<Key, Vec<u8>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOutcome {
    /// At the revision of its writes; where nothing changed, at the store's present one.
    Committed { revision: Revision },
    /// The first compare (in order) that did not hold, and what is there instead.
    Refused { key: Key, found: Option<Entry>, revision: Revision },
}

/// One page of a prefix listing. All pages of one listing are taken at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// The revision of the listing: a watch from `revision + 1` misses nothing.
    pub revision: Revision,
    /// Give it as `after` for the next page; `None` at the end.
    pub next: Option<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRequest {
    Grant { ttl: Duration },
    Renew { lease: LeaseId },
    Revoke { lease: LeaseId },
}

/// A lease that is alive, as answered by the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    pub lease: LeaseId,
    pub ttl: Duration,
}

/// What a watch yields: every change of one revision, in order of revisions, without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    pub revision: Revision,
    pub changes: Vec<Change>,
}

/// A running watch. Dropping it ends it.
pub trait Watch: Send {
    /// The next event, once there is one. Dropping the future loses no event. After an error the
    /// watch is over: `StoreError::Compacted` means list again; anything else means watch again
    /// from the last revision seen + 1.
    fn next(&mut self) -> impl Future<Output = Result<WatchEvent, StoreError>> + Send;
}

pub trait Store: Send + Sync {
    type Watch: Watch;

    /// The entries of these keys at one revision (absent keys are left out), and that revision.
    fn read(
        &self,
        keys: &[Key],
    ) -> impl Future<Output = Result<(Vec<Entry>, Revision), StoreError>> + Send;

    /// Keys under `prefix` beyond `after`, at most `limit` of them, at `at` (now if `None`).
    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        at: Option<Revision>,
    ) -> impl Future<Output = Result<Page, StoreError>> + Send;

    /// A timeout (`StoreError::Unknown`) leaves it open whether the transaction committed: read to
    /// find out.
    fn commit(&self, txn: &Txn) -> impl Future<Output = Result<TxnOutcome, StoreError>> + Send;

    /// Changes under `prefix` from revision `from` on, including those already in the past. `from`
    /// may lie in the future. That it is compacted is told here or by the first `next`.
    fn watch(
        &self,
        prefix: &str,
        from: Revision,
    ) -> impl Future<Output = Result<Self::Watch, StoreError>> + Send;

    /// Grants for at least the time asked for. Renewing or revoking a lease that is over, and
    /// binding a key to it, fails with `StoreError::LeaseEnded`.
    fn lease(&self, request: LeaseRequest)
    -> impl Future<Output = Result<Kept, StoreError>> + Send;

    /// Forgets the history before `before`; current entries stay. Watches from below, and listings
    /// at revisions below `before - 1`, fail with `StoreError::Compacted`. A store may forget more,
    /// unasked.
    fn compact(&self, before: Revision) -> impl Future<Output = Result<(), StoreError>> + Send;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written.
    #[error("the store cannot be reached: {reason}")]
    Unavailable { reason: String },
    /// The request was sent, but no answer came: it may or may not have happened.
    #[error("no answer from the store within {waited:?}: the outcome is unknown")]
    Unknown { waited: Duration },
    #[error("history before revision {oldest} is compacted: list again")]
    Compacted { oldest: Revision },
    #[error("revision {asked} is in the future: the store is at {newest}")]
    Future { asked: Revision, newest: Revision },
    #[error("lease {} has ended", .lease.0)]
    LeaseEnded { lease: LeaseId },
    #[error("{what} is {size}, more than the limit of {limit}")]
    TooLarge { what: String, size: usize, limit: usize },
    #[error("the store is damaged: {reason}")]
    Damaged { reason: String },
    #[error("the store refused the credentials: {reason}")]
    Forbidden { reason: String },
    #[error("{reason}")]
    Invalid { reason: String },
}
