//! Every stored record, typed and by kind, kept from the committed writes alone.

use alloc::{boxed::Box, collections::BTreeMap, string::String};

use model::{
    Buried, Cluster, Host, HostId, InstanceId, Key, Membership, Node, NodeId, Pool, PoolId, Record,
    ReplicaId, Revision, Severity, Snapshot, SnapshotId, Term, Tombstone, Volume, VolumeId, Write,
};

use crate::{Author, Commit};

/// What the store holds, and the little history that promises are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Of the newest commit.
    pub revision: Revision,
    pub cluster: Option<Cluster>,
    pub leader: Option<Leader>,
    pub terms: BTreeMap<u64, Term>,
    pub nodes: BTreeMap<NodeId, Box<Node>>,
    pub pools: BTreeMap<PoolId, Box<Pool>>,
    pub volumes: BTreeMap<VolumeId, Box<Volume>>,
    pub memberships: BTreeMap<VolumeId, Box<Membership>>,
    pub snapshots: BTreeMap<SnapshotId, Box<Snapshot>>,
    pub hosts: BTreeMap<HostId, Box<Host>>,
    pub tombstones: BTreeMap<(NodeId, Buried), Box<Tombstone>>,
    /// From kind and name to the id that holds it, as text.
    pub names: BTreeMap<(String, String), String>,
    /// Of events only how much they matter: nothing else of them is promised.
    pub events: BTreeMap<u64, Severity>,
    /// Every replica that was ever placed, the retired ones too.
    pub births: BTreeMap<ReplicaId, Birth>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    pub instance: InstanceId,
    /// The revision that made the key, since it was last absent.
    pub created: Revision,
}

/// Where a replica id first appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    pub volume: VolumeId,
    pub pool: PoolId,
    pub revision: Revision,
}

impl Records {
    /// Records of a store whose history nobody watched, as listed at `revision`. The leader's key
    /// counts as created then.
    pub fn loaded(revision: Revision, writes: &[Write]) -> Self {
        let mut records = Self::default();
        records.apply(revision, Author::Recovery, writes);
        records
    }

    /// Takes one committed transaction in, and tells what was there before it.
    pub fn apply(&mut self, revision: Revision, author: Author, writes: &[Write]) -> Commit {
        let mut commit = Commit::new(revision, author, self);
        for write in writes {
            let (key, record) = match write {
                Write::Put { key, value: record, .. } => (key, Some(record.clone())),
                Write::Delete { key } => (key, None),
            };
            commit.keys.push(key.clone());
            self.write(&mut commit, key, record);
        }
        self.revision = revision;
        for id in commit.volumes.keys() {
            let Some(volume) = self.volumes.get(id) else { continue };
            for replica in &volume.layout.replicas {
                let birth = Birth { volume: *id, pool: replica.pool, revision };
                self.births.entry(replica.id).or_insert(birth);
            }
        }
        commit
    }

    /// The key of every record that a promise can be about; a membership stands under its volume.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let volumes = self.volumes.keys().chain(self.memberships.keys());
        let names = self.names.keys().map(|(kind, name)| Key::name(kind, name));
        (self.nodes.keys().map(|id| Key::Node(*id)))
            .chain(self.pools.keys().map(|id| Key::Pool(*id)))
            .chain(volumes.map(|id| Key::Volume(*id)))
            .chain(self.snapshots.keys().map(|id| Key::Snapshot(*id)))
            .chain(self.hosts.keys().map(|id| Key::Host(*id)))
            .chain(self.tombstones.keys().map(|(node, buried)| Key::Tombstone(*node, *buried)))
            .chain(names)
    }

    /// A volume with its membership, where both are there.
    pub fn volume(&self, id: VolumeId) -> Option<(&Volume, &Membership)> {
        Some((self.volumes.get(&id)?, self.memberships.get(&id)?))
    }

    /// A person said that it will never return, or its record went for that reason.
    pub fn is_written_off(&self, pool: PoolId, node: NodeId) -> bool {
        self.pools.get(&pool).is_none_or(|pool| pool.spec.forgotten)
            || self.is_node_written_off(node)
    }

    pub fn is_node_written_off(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_none_or(|node| node.spec.forgotten)
    }

    fn write(&mut self, commit: &mut Commit, key: &Key, mut record: Option<Record>) {
        if let Some(record) = &mut record {
            record.set_revision(commit.revision);
        }
        if record.as_ref().and_then(Record::key).is_some_and(|own| own != *key) {
            commit.misfiled.push(key.clone());
            return;
        }
        macro_rules! swap {
            ($kind:ident, $table:ident, $id:expr) => {
                match record {
                    Some(Record::$kind(value)) => {
                        let old = self.$table.insert($id, value);
                        commit.$table.entry($id).or_insert(old);
                    }
                    None => {
                        let old = self.$table.remove(&$id);
                        commit.$table.entry($id).or_insert(old);
                    }
                    Some(_) => commit.misfiled.push(key.clone()),
                }
            };
        }
        match key {
            Key::Node(id) => swap!(Node, nodes, *id),
            Key::Pool(id) => swap!(Pool, pools, *id),
            Key::Volume(id) => swap!(Volume, volumes, *id),
            Key::Membership(id) => swap!(Membership, memberships, *id),
            Key::Snapshot(id) => swap!(Snapshot, snapshots, *id),
            Key::Host(id) => swap!(Host, hosts, *id),
            Key::Tombstone(node, buried) => swap!(Tombstone, tombstones, (*node, *buried)),
            Key::Name(kind, name) => swap!(Name, names, (kind.clone(), name.clone())),
            Key::Cluster | Key::Leader | Key::Term(_) | Key::Event(_) => {
                self.write_other(commit, key, record);
            }
        }
    }

    /// Records that are no resource.
    fn write_other(&mut self, commit: &mut Commit, key: &Key, record: Option<Record>) {
        match (key, record) {
            (Key::Cluster, None) => self.cluster = None,
            (Key::Cluster, Some(Record::Cluster(cluster))) => self.cluster = Some(cluster),
            (Key::Leader, None) => self.leader = None,
            (Key::Leader, Some(Record::Leader(instance))) => {
                // A renewed key is modified, and stays the one that was created.
                let created = self.leader.map_or(commit.revision, |leader| leader.created);
                self.leader = Some(Leader { instance, created });
            }
            (Key::Term(number), None) => {
                self.terms.remove(number);
            }
            (Key::Term(number), Some(Record::Term(term))) => {
                self.terms.insert(*number, term);
            }
            (Key::Event(number), None) => {
                let old = self.events.remove(number);
                commit.events.entry(*number).or_insert(old);
            }
            (Key::Event(number), Some(Record::Event(event))) => {
                let old = self.events.insert(*number, event.severity);
                commit.events.entry(*number).or_insert(old);
            }
            _ => commit.misfiled.push(key.clone()),
        }
    }
}
