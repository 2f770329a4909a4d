//! The outside world on one screen: what a process may ask of it.
//!
//! Each port is a trait of at most six methods with at least two implementors that pass one
//! conformance suite. Nothing here decides anything.
#![forbid(unsafe_code)]

mod engine;
mod membership;
mod store;

pub use engine::Engine;
pub use membership::{MembershipError, Memberships};
pub use model::EngineError;
pub use store::{
    Change, Compare, Entry, Expect, Kept, Key, LeaseId, LeaseRequest, Page, Revision, Store,
    StoreError, Txn, TxnOutcome, Watch, WatchEvent, Write,
};
