//! What the store says, decoded once when it changes: for judges.

use std::collections::{BTreeMap, BTreeSet};

use model::{Key, Membership, Record, Revision, Volume, VolumeId};
use ports::{Change, Entry};
use store::memory::Core;

#[derive(Debug, Default)]
pub struct Records {
    pub by_key: BTreeMap<Key, Record>,
    /// Keys whose bytes do not decode.
    pub undecodable: BTreeSet<String>,
    /// Every tombstone that ever was.
    pub buried: BTreeSet<Key>,
    /// Volumes that a transaction removed.
    pub deleted: BTreeSet<VolumeId>,
    /// Keys that changed since they were last taken.
    pub changed: BTreeSet<Key>,
    pub revision: Revision,
    incarnation: u32,
}

impl Records {
    /// Takes over what happened since the last time.
    pub fn follow(&mut self, core: &Core, incarnation: u32) {
        if self.incarnation != incarnation {
            self.reload(core, incarnation);
            return;
        }
        if self.revision >= core.revision() {
            return;
        }
        let Ok(changes) = core.changes("", self.revision.next(), usize::MAX) else {
            self.reload(core, incarnation);
            return;
        };
        for event in changes.events {
            for change in event.changes {
                match change {
                    Change::Put(entry) => self.put(&entry),
                    Change::Deleted { key, .. } => self.delete(&key),
                }
            }
        }
        self.revision = core.revision();
    }

    /// The store is another one: nothing of it was deleted, it just is not there.
    fn reload(&mut self, core: &Core, incarnation: u32) {
        let before = core::mem::take(&mut self.by_key);
        self.changed.extend(before.into_keys());
        self.incarnation = incarnation;
        self.revision = core.revision();
        let mut after: Option<String> = None;
        while let Ok(page) = core.list("", after.as_deref(), usize::MAX, None) {
            page.entries.iter().for_each(|entry| self.put(entry));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }

    fn put(&mut self, entry: &Entry) {
        let Ok(key) = entry.key.parse::<Key>() else { return };
        if let Key::Tombstone(..) = key {
            self.buried.insert(key.clone());
        }
        match Record::decode(&key, &entry.value, entry.modified) {
            Ok(record) => {
                self.undecodable.remove(&entry.key);
                self.by_key.insert(key.clone(), record);
            }
            Err(_) => {
                self.undecodable.insert(entry.key.clone());
            }
        }
        self.changed.insert(key);
    }

    fn delete(&mut self, key: &str) {
        self.undecodable.remove(key);
        let Ok(key) = key.parse::<Key>() else { return };
        if let Key::Volume(volume) = key {
            self.deleted.insert(volume);
        }
        self.by_key.remove(&key);
        self.changed.insert(key);
    }

    pub fn membership(&self, volume: VolumeId) -> Option<&Membership> {
        match self.by_key.get(&Key::Membership(volume)) {
            Some(Record::Membership(record)) => Some(record),
            _ => None,
        }
    }

    pub fn volume(&self, volume: VolumeId) -> Option<&Volume> {
        match self.by_key.get(&Key::Volume(volume)) {
            Some(Record::Volume(record)) => Some(record),
            _ => None,
        }
    }

    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.by_key.values().filter_map(|record| match record {
            Record::Volume(volume) => Some(volume.as_ref()),
            _ => None,
        })
    }
}
