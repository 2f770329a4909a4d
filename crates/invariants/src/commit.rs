//! One committed transaction, as the values that were there before it.

use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};

use model::{
    Buried, Era, Host, HostId, Key, Membership, Node, NodeId, Pool, PoolId, Revision, Severity,
    Snapshot, SnapshotId, Tombstone, Volume, VolumeId,
};

use crate::{Author, Leader, Records};

/// By kind, each touched key with its old value; the new one is in the records after it. Together
/// they are both sides of the transition, without a copy of everything that did not change.
#[derive(Clone, Debug)]
pub struct Commit {
    pub revision: Revision,
    pub author: Author,
    /// Every written key, in order.
    pub keys: Vec<Key>,
    pub era_before: Option<Era>,
    pub leader_before: Option<Leader>,
    pub nodes: BTreeMap<NodeId, Option<Box<Node>>>,
    pub pools: BTreeMap<PoolId, Option<Box<Pool>>>,
    pub volumes: BTreeMap<VolumeId, Option<Box<Volume>>>,
    pub memberships: BTreeMap<VolumeId, Option<Box<Membership>>>,
    pub snapshots: BTreeMap<SnapshotId, Option<Box<Snapshot>>>,
    pub hosts: BTreeMap<HostId, Option<Box<Host>>>,
    pub tombstones: BTreeMap<(NodeId, Buried), Option<Box<Tombstone>>>,
    pub names: BTreeMap<(String, String), Option<String>>,
    pub events: BTreeMap<u64, Option<Severity>>,
    /// Keys under which the record of another key or kind was put; it was not taken in.
    pub misfiled: Vec<Key>,
}

impl Commit {
    pub(crate) fn new(revision: Revision, author: Author, before: &Records) -> Self {
        Self {
            revision,
            author,
            keys: Vec::new(),
            era_before: before.cluster.as_ref().map(|cluster| cluster.era),
            leader_before: before.leader,
            nodes: BTreeMap::new(),
            pools: BTreeMap::new(),
            volumes: BTreeMap::new(),
            memberships: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            hosts: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            names: BTreeMap::new(),
            events: BTreeMap::new(),
            misfiled: Vec::new(),
        }
    }
}
