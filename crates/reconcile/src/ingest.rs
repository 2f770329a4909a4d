//! From the store's bytes to the world.

use alloc::{collections::BTreeSet, string::ToString, vec::Vec};

use model::{Change, Entry, Key, NodeId, Record, Revision, Subject, Undecodable, VolumeId};
use plan::{Planner, World};

use crate::{Effect, Reconciler};

impl<P: Planner> Reconciler<P> {
    /// The whole store. Observations are kept: the machines have not changed because we read again.
    pub(crate) fn loaded(&mut self, entries: Vec<Entry>, revision: Revision) {
        self.resign();
        let old = core::mem::take(&mut self.world);
        self.world.now = self.now;
        self.world.revision = revision;
        self.delivery.clear();
        self.waiting.clear();
        self.queue.clear();
        for entry in entries {
            self.put(&entry);
        }
        self.follow_records(&old);
        self.registry.doubt(&self.world);
        for view in old.nodes.into_values() {
            if let Some(inventory) = view.inventory {
                self.world.observe(inventory);
            }
        }
        for view in old.hosts.into_values() {
            if let Some(inventory) = view.inventory {
                self.world.observe_host(inventory);
            }
        }
        self.lead.set_loaded();
        self.judge_again();
        let nodes = self.world.nodes.keys().copied().collect();
        self.replay_early(nodes);
        self.touch_everything();
    }

    /// Who registered while nothing was heard of the store: whatever was heard of their
    /// predecessors is old, or this controller would put these on record again.
    fn follow_records(&mut self, old: &World) {
        for (id, view) in &old.nodes {
            let Some(new) = self.world.node(*id) else { continue };
            let (past, now) = (view.record.layout.instance, new.record.layout.instance);
            if let Some(past) = past.filter(|past| Some(*past) != now) {
                self.registry.follow_node(*id, past, now);
            }
        }
        for (id, view) in &old.hosts {
            let Some(new) = self.world.hosts.get(id) else { continue };
            let (past, now) = (view.record.layout.instance, new.record.layout.instance);
            if let Some(past) = past.filter(|past| Some(*past) != now) {
                self.registry.follow_host(*id, past, now);
            }
        }
    }

    pub(crate) fn changed(&mut self, revision: Revision, changes: Vec<Change>) {
        if !self.lead.is_loaded() || revision <= self.world.revision {
            return;
        }
        self.world.revision = revision;
        let mut registered: Vec<NodeId> = Vec::new();
        for change in changes {
            match change {
                Change::Put(entry) => {
                    if let Ok(Key::Node(id)) = entry.key.parse() {
                        registered.push(id);
                    }
                    self.put(&entry);
                }
                Change::Deleted { key, .. } => self.delete(&key),
            }
        }
        self.land();
        self.replay_early(registered);
    }

    pub(crate) fn watch_lost(&mut self) {
        self.resign();
        self.lead.set_unloaded();
        self.effects.push(Effect::Load);
    }

    fn put(&mut self, entry: &Entry) {
        let Ok(key) = entry.key.parse::<Key>() else {
            // A key of a newer version: not ours to read, and nothing of ours depends on it.
            return;
        };
        match Record::decode(&key, &entry.value, entry.modified) {
            Ok(record) => {
                let was_unreadable = self.world.quarantined.remove(&entry.key).is_some();
                self.note_key(&key, &record, entry.created);
                self.mark_configs(&key);
                let touched = self.world.load(&key, record, entry.created, entry.modified);
                self.mark_configs(&key);
                self.touch(touched);
                if was_unreadable {
                    self.touch_everything();
                }
            }
            Err(undecodable) => self.quarantine(&key, undecodable),
        }
    }

    fn quarantine(&mut self, key: &Key, undecodable: Undecodable) {
        let words = undecodable.to_string();
        self.world.quarantined.insert(undecodable.key.clone(), undecodable);
        self.effects.push(Effect::Note { words });
        self.queue.push(key.subject().unwrap_or(Subject::Cluster));
    }

    fn delete(&mut self, text: &str) {
        let was_unreadable = self.world.quarantined.remove(text).is_some();
        let Ok(key) = text.parse::<Key>() else { return };
        if key == Key::Leader {
            self.leader_gone();
        }
        self.mark_configs(&key);
        let touched = self.world.remove(&key);
        self.mark_configs(&key);
        if let Key::Node(id) = key {
            self.delivery.forget_node(id);
            self.registry.forget_node(id);
        }
        if let Key::Node(_) | Key::Host(_) = key {
            self.delivery.mark_every_node(&key);
        }
        self.touch(touched);
        if was_unreadable {
            self.touch_everything();
        }
    }

    /// Whatever a record that did not decode might have named waited for it.
    fn touch_everything(&mut self) {
        let all: BTreeSet<Subject> = self.world.subjects().collect();
        self.touch(all);
    }

    fn note_key(&mut self, key: &Key, record: &Record, created: Revision) {
        match (key, record) {
            (Key::Leader, _) => self.leader_seen(created),
            (Key::Event(number), Record::Event(event)) => {
                self.journal.seen(*number, event.severity);
            }
            (Key::Node(id), Record::Node(node)) => {
                let known = self.world.node(*id).and_then(|view| view.record.layout.instance);
                if let Some(known) = known.filter(|known| Some(*known) != node.layout.instance) {
                    self.registry.follow_node(*id, known, node.layout.instance);
                    self.delivery.node_returned(*id);
                }
                if known.is_none() {
                    self.judge_again();
                }
                let address = |view: &plan::NodeView| view.record.spec.address.clone();
                if self.world.node(*id).map(address).as_ref() != Some(&node.spec.address) {
                    self.delivery.mark_every_node(key);
                }
            }
            (Key::Host(id), Record::Host(host)) => {
                let known = self.world.hosts.get(id).and_then(|v| v.record.layout.instance);
                if let Some(known) = known.filter(|known| Some(*known) != host.layout.instance) {
                    self.registry.follow_host(*id, known, host.layout.instance);
                    self.delivery.host_returned(*id);
                }
                if known.is_none() {
                    self.judge_again();
                }
                let nqn = self.world.hosts.get(id).map(|view| &view.record.spec.nqn);
                if nqn != Some(&host.spec.nqn) {
                    self.delivery.mark_every_node(key);
                }
            }
            (Key::Cluster, _) => self.delivery.all_whole(),
            _ => {}
        }
    }

    /// Marks the configs that a record is part of, as it is now; called before and after a change,
    /// so that who loses a part hears of it too.
    fn mark_configs(&mut self, key: &Key) {
        match key {
            Key::Volume(id) => self.mark_volume(*id),
            Key::Snapshot(id) => {
                if let Some(snapshot) = self.world.snapshots.get(id) {
                    self.mark_volume(snapshot.spec.volume);
                }
            }
            Key::Pool(id) => {
                if let Some(view) = self.world.pools.get(id) {
                    self.delivery.mark_node(view.record.spec.node, key.clone());
                }
            }
            Key::Tombstone(node, _) => self.delivery.mark_node(*node, key.clone()),
            _ => {}
        }
    }

    fn mark_volume(&mut self, id: VolumeId) {
        let Some(view) = self.world.volume(id) else { return };
        for node in plan::nodes_of(&view.record) {
            self.delivery.mark_node(node, Key::Volume(id));
        }
        for host in plan::hosts_of(&view.record) {
            self.delivery.mark_host(host, Key::Volume(id));
        }
    }
}
