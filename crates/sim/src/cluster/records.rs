//! What the store says, decoded once when it changes: for judges.

use std::collections::{BTreeMap, BTreeSet};

use model::{Era, Key, Membership, Record, Revision, Volume, VolumeId, Write};
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
    /// Volumes whose membership the store lost the newest history of, until the era changes.
    pub set_back: BTreeSet<VolumeId>,
    /// Keys that changed since they were last taken.
    pub changed: BTreeSet<Key>,
    pub revision: Revision,
    /// What was committed since it was last taken, for the promises.
    pub commits: Vec<Committed>,
    incarnation: u32,
    era: Option<Era>,
}

/// One revision of the store.
#[derive(Debug)]
pub struct Committed {
    pub revision: Revision,
    pub writes: Vec<Write>,
    /// Some of it does not decode.
    pub is_garbled: bool,
    /// It is the whole content of another store.
    pub is_whole: bool,
}

impl Committed {
    fn new(revision: Revision) -> Self {
        Self { revision, writes: Vec::new(), is_garbled: false, is_whole: false }
    }
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
            let mut committed = Committed::new(event.revision);
            for change in event.changes {
                match change {
                    Change::Put(entry) => self.put(&entry, &mut committed),
                    Change::Deleted { key, .. } => self.delete(&key, &mut committed),
                }
            }
            self.commits.push(committed);
        }
        self.revision = core.revision();
    }

    /// The store is another one: nothing of it was deleted, it just is not there.
    fn reload(&mut self, core: &Core, incarnation: u32) {
        let before = core::mem::take(&mut self.by_key);
        self.changed.extend(before.keys().cloned());
        self.incarnation = incarnation;
        self.revision = core.revision();
        let mut committed = Committed::new(self.revision);
        committed.is_whole = true;
        let mut after: Option<String> = None;
        while let Ok(page) = core.list("", after.as_deref(), usize::MAX, None) {
            page.entries.iter().for_each(|entry| self.put(entry, &mut committed));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.commits.push(committed);
        for (key, record) in before {
            if let Key::Membership(volume) = key
                && self.by_key.get(&key) != Some(&record)
            {
                self.set_back.insert(volume);
            }
        }
    }

    /// A recovery ends with a new era: from then on the records are to be believed.
    fn follow_era(&mut self, record: &Record) {
        if let Record::Cluster(cluster) = record {
            let before = self.era.replace(cluster.era);
            if before.is_some_and(|before| before != cluster.era) {
                let volumes = core::mem::take(&mut self.set_back);
                self.changed.extend(volumes.into_iter().map(Key::Membership));
            }
        }
    }

    fn put(&mut self, entry: &Entry, committed: &mut Committed) {
        let Ok(key) = entry.key.parse::<Key>() else { return };
        if let Key::Tombstone(..) = key {
            self.buried.insert(key.clone());
        }
        if let Ok(record) = Record::decode(&key, &entry.value, entry.modified) {
            self.undecodable.remove(&entry.key);
            self.follow_era(&record);
            committed.writes.push(Write::put(key.clone(), record.clone()));
            self.by_key.insert(key.clone(), record);
        } else {
            committed.is_garbled = true;
            self.undecodable.insert(entry.key.clone());
        }
        self.changed.insert(key);
    }

    fn delete(&mut self, key: &str, committed: &mut Committed) {
        self.undecodable.remove(key);
        let Ok(key) = key.parse::<Key>() else { return };
        if let Key::Volume(volume) = key {
            self.deleted.insert(volume);
        }
        self.by_key.remove(&key);
        committed.writes.push(Write::delete(key.clone()));
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
