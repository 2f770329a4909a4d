//! A transaction over typed records: all compares hold and all writes happen, or nothing does.

use alloc::vec::Vec;

use crate::{Key, Record, Revision};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    pub compares: Vec<Compare>,
    pub writes: Vec<Write>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    pub key: Key,
    pub expect: Expect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    ModifiedAt(Revision),
    /// The guard of a leader: its key is still the one it created.
    CreatedAt(Revision),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Put(Key, Record),
    Delete(Key),
}

impl Txn {
    /// Writes a record that must still be as it was read; a revision of zero means it must be
    /// absent.
    #[must_use]
    pub fn put(mut self, key: Key, record: Record, read_at: Revision) -> Self {
        self.compares.push(Compare::at(key.clone(), read_at));
        self.writes.push(Write::Put(key, record));
        self
    }

    /// Removes a record that must still be as it was read.
    #[must_use]
    pub fn delete(mut self, key: Key, read_at: Revision) -> Self {
        self.compares.push(Compare::at(key.clone(), read_at));
        self.writes.push(Write::Delete(key));
        self
    }

    /// Writes a record whatever is there: for keys that only name themselves (tombstones, events).
    #[must_use]
    pub fn put_blind(mut self, key: Key, record: Record) -> Self {
        self.writes.push(Write::Put(key, record));
        self
    }

    #[must_use]
    pub fn guard(mut self, compare: Compare) -> Self {
        self.compares.push(compare);
        self
    }
}

impl Compare {
    pub fn at(key: Key, read_at: Revision) -> Self {
        let expect =
            if read_at == Revision::ZERO { Expect::Absent } else { Expect::ModifiedAt(read_at) };
        Self { key, expect }
    }
}
