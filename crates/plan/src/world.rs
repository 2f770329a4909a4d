//! The world: every record and every observation, with the indexes that rules need.
//!
//! Records come from the store, observations from engines and hosts. `put`, `remove` and the
//! `observe` functions return the subjects whose plans may have changed; nothing else may change
//! it, so that the indexes stay true. It is not serialisable: it is gathered anew after a restart.

mod history;
mod index;
mod look;
mod observe;
mod unreadable;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
};

use model::{
    Buried, Cluster, Host, HostId, HostInventory, Inventory, Key, Liveness, Mark, Membership, Node,
    NodeId, Pool, PoolId, PoolSeen, Record, Revision, SCHEMA, Snapshot, SnapshotId, Subject, Time,
    Tombstone, Undecodable, Volume, VolumeId,
};

pub use self::{
    history::{History, Verdict},
    index::{Pledge, hosts_of, nodes_of},
    look::{Loss, Standing},
    observe::Gap,
};

/// Subjects to plan again.
pub type Touched = BTreeSet<Subject>;

#[derive(Clone, Debug, Default)]
pub struct World {
    /// Wall time of the event being handled.
    pub now: Time,
    /// The newest store revision that is reflected here.
    pub revision: Revision,
    pub cluster: Option<Cluster>,
    pub history: History,
    /// Makes new ids: random, given by the leader's term, so that a store set back in time never
    /// makes the same id twice.
    pub salt: u128,
    pub nodes: BTreeMap<NodeId, NodeView>,
    pub pools: BTreeMap<PoolId, PoolView>,
    pub volumes: BTreeMap<VolumeId, VolumeView>,
    pub snapshots: BTreeMap<SnapshotId, Snapshot>,
    pub hosts: BTreeMap<HostId, HostView>,
    pub names: BTreeMap<(String, String), String>,
    /// Records that do not decode, by key.
    pub quarantined: BTreeMap<String, Undecodable>,
    /// Pools that have seen a history which this store does not have, and why.
    pub disputes: BTreeMap<PoolId, Dispute>,
    pub index: index::Indexes,
    /// Revisions of records that have no place of their own for it.
    pub cluster_revision: Revision,
    name_revisions: BTreeMap<(String, String), Revision>,
}

#[derive(Clone, Debug)]
pub struct NodeView {
    pub record: Node,
    pub liveness: Liveness,
    /// Of the registered instance; older ones are thrown away.
    pub inventory: Option<Inventory>,
    pub tombstones: BTreeMap<Buried, Tombstone>,
    /// Reported by the engine, named by no record and no tombstone.
    pub orphans: BTreeMap<Buried, Orphan>,
}

/// A pool that has seen a history which this store does not have. It is judged again whenever the
/// history that is known here grows, whether or not the pool is heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispute {
    pub mark: Mark,
    pub why: String,
}

/// When an orphan was first seen, and in which inventory: collecting it needs a second look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    pub since: Time,
    pub first_sequence: u64,
}

#[derive(Clone, Debug)]
pub struct PoolView {
    pub record: Pool,
    pub seen: Option<PoolSeen>,
}

#[derive(Clone, Debug)]
pub struct VolumeView {
    pub record: Volume,
    pub membership: Option<Membership>,
}

#[derive(Clone, Debug)]
pub struct HostView {
    pub record: Host,
    pub liveness: Liveness,
    pub inventory: Option<HostInventory>,
}

impl World {
    pub fn node(&self, id: NodeId) -> Option<&NodeView> {
        self.nodes.get(&id)
    }

    pub fn volume(&self, id: VolumeId) -> Option<&VolumeView> {
        self.volumes.get(&id)
    }

    /// The revision of a record as this world knows it; zero if it is absent.
    pub fn revision_of(&self, key: &Key) -> Revision {
        let revision = match key {
            Key::Cluster => self.cluster.as_ref().map(|_| self.cluster_revision),
            Key::Node(id) => self.nodes.get(id).map(|view| view.record.meta.revision),
            Key::Pool(id) => self.pools.get(id).map(|view| view.record.meta.revision),
            Key::Volume(id) => self.volumes.get(id).map(|view| view.record.meta.revision),
            Key::Membership(id) => self
                .volumes
                .get(id)
                .and_then(|view| view.membership.as_ref())
                .map(|membership| membership.revision),
            Key::Snapshot(id) => self.snapshots.get(id).map(|record| record.meta.revision),
            Key::Host(id) => self.hosts.get(id).map(|view| view.record.meta.revision),
            Key::Tombstone(node, buried) => {
                self.tombstones_of(*node).get(buried).map(|tombstone| tombstone.revision)
            }
            Key::Name(kind, name) => {
                self.name_revisions.get(&(kind.clone(), name.clone())).copied()
            }
            Key::Leader | Key::Term(_) | Key::Event(_) => None,
        };
        revision.unwrap_or(Revision::ZERO)
    }

    /// Takes a record in that was written at the newest revision.
    pub fn put(&mut self, key: &Key, record: Record, created: Revision) -> Touched {
        self.load(key, record, created, self.revision)
    }

    /// Takes a record in that was created and last written at these revisions.
    pub fn load(
        &mut self,
        key: &Key,
        record: Record,
        created: Revision,
        modified: Revision,
    ) -> Touched {
        let mut touched = Touched::new();
        touched.extend(key.subject());
        match record {
            Record::Cluster(cluster) => {
                self.cluster = Some(cluster);
                self.cluster_revision = modified;
                self.review_marks(&mut touched);
            }
            Record::Term(term) => {
                if let Key::Term(number) = key {
                    self.history.add(created, *number, term.leader);
                }
                self.review_marks(&mut touched);
            }
            Record::Node(node) => self.put_node(*node, &mut touched),
            Record::Pool(pool) => self.put_pool(*pool, &mut touched),
            Record::Volume(volume) => self.put_volume(*volume, &mut touched),
            Record::Membership(membership) => {
                // Which copies of a snapshot count follows from which copies are healthy.
                self.touch_snapshots(membership.volume, &mut touched);
                if let Some(view) = self.volumes.get_mut(&membership.volume) {
                    view.membership = Some(*membership);
                } else {
                    self.index.strays.insert(membership.volume, *membership);
                }
            }
            Record::Snapshot(snapshot) => self.put_snapshot(*snapshot, &mut touched),
            Record::Host(host) => self.put_host(*host, &mut touched),
            Record::Tombstone(tombstone) => {
                self.put_tombstone(*tombstone);
                touch_mourners(key, &mut touched);
            }
            Record::Name(id) => {
                if let Key::Name(kind, name) = key {
                    let key = (kind.clone(), name.clone());
                    self.name_revisions.insert(key.clone(), modified);
                    self.names.insert(key, id);
                }
            }
            Record::Leader(_) | Record::Event(_) => {}
        }
        touched
    }

    pub fn remove(&mut self, key: &Key) -> Touched {
        let mut touched = Touched::new();
        touched.extend(key.subject());
        match key {
            Key::Cluster => self.cluster = None,
            Key::Term(number) => self.history.prune(*number),
            Key::Node(id) => {
                self.nodes.remove(id);
                self.touch_all_on(*id, &mut touched);
            }
            Key::Pool(id) => self.remove_pool(*id, &mut touched),
            Key::Volume(id) => self.remove_volume(*id, &mut touched),
            Key::Membership(id) => {
                self.index.strays.remove(id);
                if let Some(view) = self.volumes.get_mut(id) {
                    view.membership = None;
                }
            }
            Key::Snapshot(id) => self.remove_snapshot(*id, &mut touched),
            Key::Host(id) => {
                self.hosts.remove(id);
                touched.extend(self.index.volumes_of_host(*id));
            }
            Key::Tombstone(node, buried) => {
                self.remove_tombstone(*node, *buried);
                touch_mourners(key, &mut touched);
            }
            Key::Name(kind, name) => {
                let key = (kind.clone(), name.clone());
                self.names.remove(&key);
                self.name_revisions.remove(&key);
            }
            Key::Leader | Key::Event(_) => {}
        }
        touched
    }

    /// Why nothing may be decided, if so: this store is not the one that the pools have seen.
    pub fn read_only(&self) -> Option<&str> {
        self.disputes.values().next().map(|dispute| dispute.why.as_str())
    }

    /// Why this build must not decide here: its records are those of a later one.
    pub fn too_new(&self) -> Option<String> {
        let schema = self.cluster.as_ref()?.schema;
        (schema > SCHEMA).then(|| {
            format!(
                "the records are of schema {schema}, this controller knows {SCHEMA}: upgrade it"
            )
        })
    }

    /// Recorded healthy copies of a volume: the fewer, the more urgent.
    pub fn redundancy(&self, volume: VolumeId) -> usize {
        let membership = self.volumes.get(&volume).and_then(|view| view.membership.as_ref());
        membership.map_or(0, |membership| membership.healthy().count())
    }

    /// All subjects there are.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> + '_ {
        core::iter::once(Subject::Cluster)
            .chain(self.nodes.keys().copied().map(Subject::Node))
            .chain(self.pools.keys().copied().map(Subject::Pool))
            .chain(self.hosts.keys().copied().map(Subject::Host))
            .chain(self.volumes.keys().copied().map(Subject::Volume))
            .chain(self.snapshots.keys().copied().map(Subject::Snapshot))
    }
}

/// A pool on its way out waits for the tombstones in it, and a promoted volume for its old targets.
fn touch_mourners(key: &Key, touched: &mut Touched) {
    match key {
        Key::Tombstone(_, Buried::Target { volume, .. }) => {
            touched.insert(Subject::Volume(*volume));
        }
        Key::Tombstone(_, buried) => touched.extend(buried.pool().map(Subject::Pool)),
        _ => {}
    }
}
