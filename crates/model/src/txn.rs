//! What a store holds and how it changes: entries, and transactions whose compares all hold and
//! whose writes all happen, or nothing does.
//!
//! A transaction is of typed records where it is decided (`Txn`), and of bytes where it is stored
//! (`Txn<String, Vec<u8>>`); `encode` is the one way from the one to the other.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};

use crate::{Key, Record, Revision};

/// A lease: keys bound to it go when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// One stored key, as bytes: what does not decode must still reach the planner, which quarantines
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: Vec<u8>,
    /// The revision of the transaction that created the key (since it was last absent).
    pub created: Revision,
    /// The revision of the transaction that last wrote the key.
    pub modified: Revision,
    pub lease: Option<LeaseId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put(Entry),
    Deleted { key: String, modified: Revision },
}

/// All compares hold and all writes happen at one revision, or nothing happens. A key is written at
/// most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Txn<K = Key, V = Record> {
    pub compares: Vec<Compare<K>>,
    pub writes: Vec<Write<K, V>>,
}

/// What must be true of a key for a transaction to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare<K = Key> {
    pub key: K,
    pub expect: Expect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    /// Present, and last written by exactly this revision.
    ModifiedAt(Revision),
    /// Present, and created by exactly this revision: the guard of a leader, whose key is renewed
    /// (and so modified) but never created twice.
    CreatedAt(Revision),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write<K = Key, V = Record> {
    Put {
        key: K,
        value: V,
        lease: Option<LeaseId>,
    },
    /// Deleting an absent key is no error.
    Delete {
        key: K,
    },
}

impl<K, V> Default for Txn<K, V> {
    fn default() -> Self {
        Self { compares: Vec::new(), writes: Vec::new() }
    }
}

impl<K: Clone, V> Txn<K, V> {
    /// Writes a record that must still be as it was read; a revision of zero means it must be
    /// absent.
    #[must_use]
    pub fn put(self, key: K, value: V, read_at: Revision) -> Self {
        self.guard(Compare::at(key.clone(), read_at)).put_blind(key, value)
    }

    /// Removes a record that must still be as it was read.
    #[must_use]
    pub fn delete(self, key: K, read_at: Revision) -> Self {
        let mut txn = self.guard(Compare::at(key.clone(), read_at));
        txn.writes.push(Write::delete(key));
        txn
    }

    /// Writes a record whatever is there: for keys that only name themselves (tombstones, events).
    #[must_use]
    pub fn put_blind(mut self, key: K, value: V) -> Self {
        self.writes.push(Write::put(key, value));
        self
    }

    #[must_use]
    pub fn guard(mut self, compare: Compare<K>) -> Self {
        self.compares.push(compare);
        self
    }
}

impl Txn {
    /// The same transaction as the store takes it.
    pub fn encode(&self) -> Txn<String, Vec<u8>> {
        let compares = self.compares.iter().map(|compare| {
            let Compare { key, expect } = compare;
            Compare { key: key.to_string(), expect: *expect }
        });
        let writes = self.writes.iter().map(|write| match write {
            Write::Put { key, value, lease } => {
                Write::Put { key: key.to_string(), value: value.encode(), lease: *lease }
            }
            Write::Delete { key } => Write::delete(key.to_string()),
        });
        Txn { compares: compares.collect(), writes: writes.collect() }
    }
}

impl<K> Compare<K> {
    pub fn at(key: K, read_at: Revision) -> Self {
        let expect =
            if read_at == Revision::ZERO { Expect::Absent } else { Expect::ModifiedAt(read_at) };
        Self { key, expect }
    }
}

impl Expect {
    /// Whether it is true of what is there.
    pub fn holds(self, found: Option<&Entry>) -> bool {
        match (self, found) {
            (Self::Absent, found) => found.is_none(),
            (Self::ModifiedAt(revision), found) => found.is_some_and(|e| e.modified == revision),
            (Self::CreatedAt(revision), found) => found.is_some_and(|e| e.created == revision),
        }
    }
}

impl<K, V> Write<K, V> {
    pub const fn put(key: K, value: V) -> Self {
        Self::Put { key, value, lease: None }
    }

    pub const fn delete(key: K) -> Self {
        Self::Delete { key }
    }

    pub const fn key(&self) -> &K {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// What became of a transaction whose answer did not come, from what the store shows.
impl Txn<String, Vec<u8>> {
    /// Every key that it compares or writes.
    pub fn keys(&self) -> Vec<String> {
        let compared = self.compares.iter().map(|compare| &compare.key);
        let mut keys: Vec<_> =
            compared.chain(self.writes.iter().map(Write::key)).cloned().collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Whether its compares hold among the entries of its keys.
    pub fn holds(&self, entries: &[Entry]) -> bool {
        let find = |key: &str| entries.iter().find(|entry| entry.key == key);
        self.compares.iter().all(|compare| compare.expect.holds(find(&compare.key)))
    }

    /// The revision at which every write happened, if the entries show it.
    pub fn written_at(&self, entries: &[Entry]) -> Option<Revision> {
        let mut at = None;
        for write in &self.writes {
            let found = entries.iter().find(|entry| entry.key == *write.key());
            match (write, found) {
                (Write::Put { value, .. }, Some(entry)) if entry.value == *value => {
                    if at.is_some_and(|at| at != entry.modified) {
                        return None;
                    }
                    at = Some(entry.modified);
                }
                (Write::Delete { .. }, None) => {}
                _ => return None,
            }
        }
        // The bytes may have been there before: only a revision past the compared ones proves it.
        let compared = self.compares.iter().filter_map(|compare| match compare.expect {
            Expect::ModifiedAt(at) => Some(at),
            Expect::Absent | Expect::CreatedAt(_) => None,
        });
        at.filter(|at| compared.max().is_none_or(|newest| newest < *at))
    }

    /// Whether the changes of one revision are another's, and touch what it compares: it cannot
    /// happen after them as it was meant, though its compares may come to hold again.
    pub fn is_overtaken_by(&self, changes: &[Change]) -> bool {
        let is_compared = |change: &Change| {
            let (Change::Put(Entry { key, .. }) | Change::Deleted { key, .. }) = change;
            // What was created once is the same record, whatever is written to it.
            let as_read = |expect| !matches!(expect, Expect::CreatedAt(_));
            self.compares.iter().any(|compare| compare.key == *key && as_read(compare.expect))
        };
        changes.iter().any(is_compared) && !self.is_shown(changes)
    }

    /// Whether one revision's changes show every write.
    pub fn is_shown(&self, changes: &[Change]) -> bool {
        let is_it = |write: &Write<_, _>, change: &Change| match (write, change) {
            (Write::Put { key, value, .. }, Change::Put(entry)) => {
                entry.key == *key && entry.value == *value
            }
            (Write::Delete { key }, Change::Deleted { key: gone, .. }) => key == gone,
            _ => false,
        };
        let shown = |write: &Write<_, _>| changes.iter().any(|change| is_it(write, change));
        !self.writes.is_empty() && self.writes.iter().all(shown)
    }
}
