//! What a store takes, the same for every store, so that what works on one works on all.
//!
//! etcd sets most of these numbers: by default it refuses requests above 1.5 MiB
//! (`--max-request-bytes`) and transactions above 128 operations (`--max-txn-ops`).

use core::time::Duration;
use std::collections::BTreeSet;

use ports::{Compare, Key, LeaseRequest, StoreError, Txn, Write};

/// Our keys are a kind and an id, far below this; etcd sets no limit of its own.
pub const KEY_BYTES_MAX: usize = 1024;

/// One record of ours takes about 2 KiB. 1 MiB leaves room for outliers and fits etcd's 1.5 MiB.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;

/// Keys and values of the writes, and keys of the compares twice (etcd reads them again when a
/// compare fails). 1.25 MiB leaves 256 KiB of etcd's 1.5 MiB for namespaces and encoding.
pub const TXN_BYTES_MAX: usize = 1024 * 1024 + 256 * 1024;

/// Compares and writes are counted apart. Below etcd's 128, so that a guard can still be added.
pub const TXN_COMPARES_MAX: usize = 100;
pub const TXN_WRITES_MAX: usize = 100;

/// A read of several keys is one transaction in etcd.
pub const READ_KEYS_MAX: usize = 100;

/// A longer page is cut to this: 500 usual records are 1 MiB, 500 of the largest 500 MiB.
pub const PAGE_ENTRIES_MAX: usize = 500;

/// Revisions of history handed to one watch at a time; the rest follows with the next call.
pub const WATCH_REVISIONS_MAX: usize = 100;

/// A shorter lease could not be renewed in time over a network.
pub const LEASE_TTL_MIN: Duration = Duration::from_millis(100);
pub const LEASE_TTL_MAX: Duration = Duration::from_hours(24);

/// Refuses what no store would take.
pub fn check_txn(txn: &Txn) -> Result<(), StoreError> {
    check_size("the number of compares", txn.compares.len(), TXN_COMPARES_MAX)?;
    check_size("the number of writes", txn.writes.len(), TXN_WRITES_MAX)?;
    let mut bytes = 0;
    for Compare { key, .. } in &txn.compares {
        check_key(key)?;
        bytes += 2 * key.len();
    }
    let mut written = BTreeSet::new();
    for write in &txn.writes {
        let key = match write {
            Write::Put { key, value, .. } => {
                check_key(key)?;
                if value.len() > VALUE_BYTES_MAX {
                    let what = format!("the value of {key}");
                    return check_size(&what, value.len(), VALUE_BYTES_MAX);
                }
                bytes += key.len() + value.len();
                key
            }
            Write::Delete { key } => {
                check_key(key)?;
                bytes += key.len();
                key
            }
        };
        if !written.insert(key) {
            let reason = format!("{key} is written twice in one transaction");
            return Err(StoreError::Invalid { reason });
        }
    }
    check_size("the transaction", bytes, TXN_BYTES_MAX)
}

pub fn check_read(keys: &[Key]) -> Result<(), StoreError> {
    check_size("the number of keys to read", keys.len(), READ_KEYS_MAX)?;
    keys.iter().try_for_each(|key| check_key(key))
}

pub fn check_lease(request: LeaseRequest) -> Result<(), StoreError> {
    match request {
        LeaseRequest::Grant { ttl } if !(LEASE_TTL_MIN..=LEASE_TTL_MAX).contains(&ttl) => {
            let reason =
                format!("a lease of {ttl:?} is not within {LEASE_TTL_MIN:?} and {LEASE_TTL_MAX:?}");
            Err(StoreError::Invalid { reason })
        }
        _ => Ok(()),
    }
}

/// The entries that a page of `limit` really holds.
pub fn page_entries(limit: usize) -> usize {
    limit.clamp(1, PAGE_ENTRIES_MAX)
}

fn check_key(key: &str) -> Result<(), StoreError> {
    if key.is_empty() {
        return Err(StoreError::Invalid { reason: "a key is empty".to_owned() });
    }
    check_size("a key", key.len(), KEY_BYTES_MAX)
}

fn check_size(what: &str, size: usize, limit: usize) -> Result<(), StoreError> {
    if size > limit {
        return Err(StoreError::TooLarge { what: what.to_owned(), size, limit });
    }
    Ok(())
}
