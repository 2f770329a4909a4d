//! Records that do not decode. One of them is quarantined, never taken for absent: what it says is
//! unknown, and it may name anything.
//!
//! A record that was read before its bytes went bad is still in the world as it was. What never
//! changes in it (a snapshot's volume, a pool's node) is known then; a layout is not.

use alloc::string::ToString;

use model::{Key, PoolId, SnapshotId, Subject, Undecodable, VolumeId};

use super::World;

impl World {
    /// Why a record says nothing now, if its bytes do not decode.
    pub fn unreadable(&self, key: &Key) -> Option<&Undecodable> {
        if self.quarantined.is_empty() {
            return None;
        }
        self.quarantined.get(&key.to_string())
    }

    /// Why a subject is left alone: its own record does not decode, or one without which it cannot
    /// be judged.
    pub fn quarantine(&self, subject: Subject) -> Option<&Undecodable> {
        if self.quarantined.is_empty() {
            return None;
        }
        let of_volume = |id| {
            self.unreadable(&Key::Volume(id)).or_else(|| self.unreadable(&Key::Membership(id)))
        };
        match subject {
            Subject::Volume(id) => of_volume(id),
            Subject::Node(id) => self.unreadable(&Key::Node(id)),
            Subject::Pool(id) => self.unreadable(&Key::Pool(id)).or_else(|| {
                let node = self.pools.get(&id)?.record.spec.node;
                self.unreadable(&Key::Node(node))
            }),
            Subject::Snapshot(id) => self
                .unreadable(&Key::Snapshot(id))
                .or_else(|| of_volume(self.snapshots.get(&id)?.spec.volume)),
            Subject::Host(id) => self.unreadable(&Key::Host(id)),
            Subject::Cluster => self.unreadable(&Key::Cluster),
        }
    }

    /// A volume's record that does not decode: it may have a replica in any pool and a target on
    /// any node.
    pub fn unreadable_volume(&self) -> Option<&Undecodable> {
        self.find_unreadable(|key| matches!(key, Key::Volume(_)))
    }

    /// A record that may put something onto a node: a volume's, or that of a pool whose node nobody
    /// has read.
    pub fn unreadable_on_nodes(&self) -> Option<&Undecodable> {
        let is_unknown = |id: &PoolId| !self.pools.contains_key(id);
        self.unreadable_volume()
            .or_else(|| self.find_unreadable(|key| matches!(key, Key::Pool(id) if is_unknown(id))))
    }

    /// A snapshot's record that nobody has read: it may be one of any volume.
    pub fn unreadable_snapshot(&self) -> Option<&Undecodable> {
        let is_unknown = |id: &SnapshotId| !self.snapshots.contains_key(id);
        self.find_unreadable(|key| matches!(key, Key::Snapshot(id) if is_unknown(id)))
    }

    /// A volume's record that nobody has read: it may be a clone of any snapshot.
    pub fn unreadable_clone(&self) -> Option<&Undecodable> {
        let is_unknown = |id: &VolumeId| !self.volumes.contains_key(id);
        self.find_unreadable(|key| matches!(key, Key::Volume(id) if is_unknown(id)))
    }

    fn find_unreadable(&self, is_it: impl Fn(&Key) -> bool) -> Option<&Undecodable> {
        self.quarantined.values().find(|found| found.key.parse().is_ok_and(|key| is_it(&key)))
    }
}
