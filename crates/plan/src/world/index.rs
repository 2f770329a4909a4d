//! Indexes over the records: who touches whom, and what space is promised.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};
use core::cmp::Reverse;

use model::{
    Buried, Bytes, Host, HostId, Key, Liveness, Membership, Node, NodeId, Observed, Pool,
    PoolHealth, PoolId, Record, Replica, ReplicaId, Snapshot, SnapshotId, SnapshotStage, Subject,
    Tombstone, Txn, Volume, VolumeId, Write,
};

use super::{HostView, NodeView, PoolView, Touched, VolumeView, World};
use crate::placement::scores;

#[derive(Clone, Debug, Default)]
pub struct Indexes {
    pub pools: BTreeMap<PoolId, PoolIndex>,
    /// Pools that are observed online, best first: placement walks it and stops early.
    pub order: BTreeSet<(Reverse<i64>, PoolId)>,
    pub replica_home: BTreeMap<ReplicaId, VolumeId>,
    by_node: BTreeMap<NodeId, BTreeSet<VolumeId>>,
    by_host: BTreeMap<HostId, BTreeSet<VolumeId>>,
    pub targets_on: BTreeMap<NodeId, usize>,
    pub groups: BTreeMap<String, BTreeSet<VolumeId>>,
    pub snapshots_of: BTreeMap<VolumeId, BTreeSet<SnapshotId>>,
    pub clones_of: BTreeMap<SnapshotId, BTreeSet<VolumeId>>,
    /// Replicas that hold a rebuild slot, in all and by node.
    pub rebuilds: usize,
    pub rebuilds_into: BTreeMap<NodeId, usize>,
    pub pools_of: BTreeMap<NodeId, BTreeSet<PoolId>>,
    /// Membership records that came before their volume's, or without one.
    pub strays: BTreeMap<VolumeId, Membership>,
    /// Tombstones of nodes whose records came later, or do not decode.
    stray_tombstones: BTreeMap<NodeId, BTreeMap<Buried, Tombstone>>,
    /// Slots that commits in flight will take, by node.
    pledged_rebuilds: BTreeMap<NodeId, usize>,
}

/// What is promised in one pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolIndex {
    pub thick: Bytes,
    pub thin: Bytes,
    /// Promised by commits whose outcome is not known yet.
    pub pledged_thick: Bytes,
    pub pledged_thin: Bytes,
    pub replicas: usize,
    /// The score under which it stands in `order`.
    score: Option<i64>,
}

impl PoolIndex {
    /// Something may be placed here by a commit whose outcome is not known yet.
    pub fn is_pledged(&self) -> bool {
        self.pledged_thick > Bytes::ZERO || self.pledged_thin > Bytes::ZERO
    }
}

/// Space and slots that a commit in flight takes, until its outcome is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pledge {
    pools: Vec<(PoolId, Bytes, Bytes)>,
    /// Nodes into which a copy will be rebuilt.
    rebuilds: Vec<NodeId>,
}

impl Indexes {
    /// Rebuilds that hold a slot or are about to.
    pub fn rebuilds_taken(&self) -> usize {
        self.rebuilds + self.pledged_rebuilds.values().sum::<usize>()
    }

    /// Of them, those into this node.
    pub fn rebuilds_taken_into(&self, node: NodeId) -> usize {
        let count = |map: &BTreeMap<NodeId, usize>| map.get(&node).copied().unwrap_or(0);
        count(&self.rebuilds_into) + count(&self.pledged_rebuilds)
    }

    pub fn volumes_on(&self, node: NodeId) -> impl Iterator<Item = Subject> + '_ {
        self.by_node.get(&node).into_iter().flatten().copied().map(Subject::Volume)
    }

    pub fn volumes_of_host(&self, host: HostId) -> impl Iterator<Item = Subject> + '_ {
        self.by_host.get(&host).into_iter().flatten().copied().map(Subject::Volume)
    }

    pub fn volume_ids_on(&self, node: NodeId) -> impl Iterator<Item = VolumeId> + '_ {
        self.by_node.get(&node).into_iter().flatten().copied()
    }

    pub fn volume_ids_of_host(&self, host: HostId) -> impl Iterator<Item = VolumeId> + '_ {
        self.by_host.get(&host).into_iter().flatten().copied()
    }

    fn tally(&mut self, volume: &Volume, sign: Sign) {
        let id = volume.meta.id;
        for replica in &volume.layout.replicas {
            self.tally_replica(volume, replica, sign);
        }
        for node in nodes_of(volume) {
            sign.change_set(&mut self.by_node, node, id);
        }
        for host in hosts_of(volume) {
            sign.change_set(&mut self.by_host, host, id);
        }
        if let Some(target) = &volume.layout.target {
            sign.change_count(&mut self.targets_on, target.node);
        }
        if let Some(group) = &volume.spec.affinity_group {
            sign.change_set(&mut self.groups, group.clone(), id);
        }
        if let Some(origin) = volume.spec.origin {
            sign.change_set(&mut self.clones_of, origin, id);
        }
    }

    fn tally_replica(&mut self, volume: &Volume, replica: &Replica, sign: Sign) {
        let pool = self.pools.entry(replica.pool).or_default();
        let promised = if volume.spec.thin { &mut pool.thin } else { &mut pool.thick };
        match sign {
            Sign::Add => {
                promised.0 += volume.layout.size.0;
                pool.replicas += 1;
                self.replica_home.insert(replica.id, volume.meta.id);
            }
            Sign::Subtract => {
                promised.0 -= volume.layout.size.0;
                pool.replicas -= 1;
                self.replica_home.remove(&replica.id);
            }
        }
        if replica.rebuilding {
            sign.change_count(&mut self.rebuilds_into, replica.node);
            match sign {
                Sign::Add => self.rebuilds += 1,
                Sign::Subtract => self.rebuilds -= 1,
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Sign {
    Add,
    Subtract,
}

impl Sign {
    fn change_set<K: Ord, V: Ord>(self, map: &mut BTreeMap<K, BTreeSet<V>>, key: K, value: V) {
        match self {
            Self::Add => {
                map.entry(key).or_default().insert(value);
            }
            Self::Subtract => {
                if let Some(set) = map.get_mut(&key) {
                    set.remove(&value);
                    if set.is_empty() {
                        map.remove(&key);
                    }
                }
            }
        }
    }

    fn change_count<K: Ord>(self, map: &mut BTreeMap<K, usize>, key: K) {
        match self {
            Self::Add => *map.entry(key).or_default() += 1,
            Self::Subtract => {
                if let Some(count) = map.get_mut(&key) {
                    *count -= 1;
                    if *count == 0 {
                        map.remove(&key);
                    }
                }
            }
        }
    }
}

/// Every node whose config or inventory concerns the volume, each at least once.
pub fn nodes_of(volume: &Volume) -> impl Iterator<Item = NodeId> + '_ {
    let layout = &volume.layout;
    let replicas = layout.replicas.iter().map(|replica| replica.node);
    let targets = layout.target.iter().map(|target| target.node);
    replicas.chain(targets).chain(layout.old_targets.iter().map(|target| target.node))
}

/// Every host whose config or inventory concerns the volume, each at least once.
pub fn hosts_of(volume: &Volume) -> impl Iterator<Item = HostId> + '_ {
    let wished = volume.spec.publish.iter().flat_map(|publish| publish.hosts.iter().copied());
    let consumers = volume.spec.share.iter().flat_map(|share| share.consumers.iter().copied());
    let server = volume.layout.share.iter().map(|share| share.server);
    volume.layout.hosts.keys().copied().chain(wished).chain(consumers).chain(server)
}

impl World {
    pub(super) fn put_node(&mut self, node: Node, touched: &mut Touched) {
        let id = node.meta.id;
        let strays = self.index.stray_tombstones.remove(&id).unwrap_or_default();
        let view = self.nodes.entry(id).or_insert_with(|| NodeView {
            record: node.clone(),
            liveness: Liveness::Unknown,
            inventory: None,
            tombstones: strays,
            orphans: BTreeMap::new(),
        });
        let other = view.record.layout.instance != node.layout.instance;
        view.record = node;
        if other {
            // What another process reported says nothing about this one.
            view.inventory = None;
            view.orphans.clear();
            self.forget_pools_seen(id);
        }
        self.touch_all_on(id, touched);
        self.reorder_pools_of(id);
    }

    pub(super) fn put_tombstone(&mut self, tombstone: Tombstone) {
        let Tombstone { node, buried, .. } = tombstone;
        let Some(view) = self.nodes.get_mut(&node) else {
            let strays = self.index.stray_tombstones.entry(node).or_default();
            strays.insert(buried, tombstone);
            return;
        };
        view.orphans.remove(&buried);
        view.tombstones.insert(buried, tombstone);
    }

    pub(super) fn remove_tombstone(&mut self, node: NodeId, buried: Buried) {
        if let Some(view) = self.nodes.get_mut(&node) {
            view.tombstones.remove(&buried);
        }
        if let Some(strays) = self.index.stray_tombstones.get_mut(&node) {
            strays.remove(&buried);
        }
    }

    /// What a node has yet to destroy, also while the node's own record does not decode.
    pub fn tombstones_of(&self, node: NodeId) -> &BTreeMap<Buried, Tombstone> {
        const NONE: &BTreeMap<Buried, Tombstone> = &BTreeMap::new();
        let known = self.nodes.get(&node).map(|view| &view.tombstones);
        known.or_else(|| self.index.stray_tombstones.get(&node)).unwrap_or(NONE)
    }

    /// What any node has yet to destroy, and which node.
    pub fn tombstones(&self) -> impl Iterator<Item = (NodeId, &Tombstone)> + '_ {
        let known = self.nodes.values().flat_map(|view| view.tombstones.values());
        let strays = self.index.stray_tombstones.values().flat_map(BTreeMap::values);
        known.chain(strays).map(|tombstone| (tombstone.node, tombstone))
    }

    /// Everything that looks at a node: the volumes on it with their snapshots, its pools, and the
    /// volumes of hosts on the same machine, whose servers move with a drain.
    pub(super) fn touch_all_on(&self, node: NodeId, touched: &mut Touched) {
        for volume in self.index.volume_ids_on(node) {
            touched.insert(Subject::Volume(volume));
            self.touch_snapshots(volume, touched);
        }
        let pools = self.index.pools_of.get(&node).into_iter().flatten();
        touched.extend(pools.map(|pool| Subject::Pool(*pool)));
        let here = self.hosts.iter().filter(|(_, view)| view.record.spec.node == Some(node));
        touched.extend(here.flat_map(|(host, _)| self.index.volumes_of_host(*host)));
    }

    pub(super) fn touch_snapshots(&self, volume: VolumeId, touched: &mut Touched) {
        let snapshots = self.index.snapshots_of.get(&volume).into_iter().flatten();
        touched.extend(snapshots.map(|snapshot| Subject::Snapshot(*snapshot)));
    }

    pub(super) fn put_pool(&mut self, pool: Pool, touched: &mut Touched) {
        let id = pool.meta.id;
        let node = pool.spec.node;
        self.index.pools_of.entry(node).or_default().insert(id);
        touched.insert(Subject::Node(node));
        if let Some(view) = self.pools.get_mut(&id) {
            view.record = pool;
        } else {
            let inventory = self.nodes.get(&node).and_then(|view| view.inventory.as_ref());
            let seen = inventory.and_then(|inventory| inventory.pools.get(&id)).cloned();
            self.pools.insert(id, PoolView { record: pool, seen });
        }
        self.reorder_pool(id);
    }

    pub(super) fn remove_pool(&mut self, id: PoolId, touched: &mut Touched) {
        if let Some(view) = self.pools.remove(&id) {
            let node = view.record.spec.node;
            Sign::Subtract.change_set(&mut self.index.pools_of, node, id);
            touched.insert(Subject::Node(node));
        }
        self.reorder_pool(id);
    }

    pub(super) fn put_volume(&mut self, volume: Volume, touched: &mut Touched) {
        let id = volume.meta.id;
        if let Some(view) = self.volumes.get(&id) {
            if view.record.meta.revision > volume.meta.revision {
                return;
            }
            let old = view.record.clone();
            self.retally(&old, Sign::Subtract, touched);
        }
        self.retally(&volume, Sign::Add, touched);
        let stray = self.index.strays.remove(&id);
        match self.volumes.get_mut(&id) {
            Some(view) => {
                view.record = volume;
                view.membership = view.membership.take().or(stray);
            }
            None => {
                self.volumes.insert(id, VolumeView { record: volume, membership: stray });
            }
        }
        for snapshot in self.index.snapshots_of.get(&id).into_iter().flatten() {
            touched.insert(Subject::Snapshot(*snapshot));
        }
    }

    pub(super) fn remove_volume(&mut self, id: VolumeId, touched: &mut Touched) {
        if let Some(view) = self.volumes.remove(&id) {
            self.retally(&view.record, Sign::Subtract, touched);
            let snapshots = self.index.snapshots_of.get(&id).into_iter().flatten();
            touched.extend(snapshots.map(|snapshot| Subject::Snapshot(*snapshot)));
        }
    }

    /// Moves a volume's weight in or out of the indexes.
    fn retally(&mut self, volume: &Volume, sign: Sign, touched: &mut Touched) {
        self.index.tally(volume, sign);
        for replica in &volume.layout.replicas {
            self.reorder_pool(replica.pool);
            self.review_orphan(replica.node, replica.id);
            // A pool or node that is on its way out waits for its last replica.
            let leaving = |view: &PoolView| {
                let home = self.nodes.get(&view.record.spec.node);
                let with_node = home.is_none_or(|home| home.record.spec.forgotten);
                view.record.spec.deleting || view.record.spec.forgotten || with_node
            };
            if self.pools.get(&replica.pool).is_some_and(leaving) {
                touched.insert(Subject::Pool(replica.pool));
            }
        }
        for node in nodes_of(volume) {
            self.review_stray(node, volume.meta.id);
            let leaving = |view: &NodeView| view.record.spec.forgotten;
            if self.nodes.get(&node).is_some_and(leaving) {
                touched.insert(Subject::Node(node));
            }
        }
    }

    pub(super) fn put_snapshot(&mut self, snapshot: Snapshot, touched: &mut Touched) {
        let (id, volume) = (snapshot.meta.id, snapshot.spec.volume);
        Sign::Add.change_set(&mut self.index.snapshots_of, volume, id);
        touched.insert(Subject::Volume(volume));
        self.snapshots.insert(id, snapshot);
        // A controller may hear of what is on a disk before it hears of the record that names it.
        let view = self.volumes.get(&volume);
        let replicas = view.iter().flat_map(|view| &view.record.layout.replicas);
        let replicas: Vec<_> = replicas.map(|replica| (replica.node, replica.id)).collect();
        for (node, replica) in replicas {
            self.review_orphan(node, replica);
        }
    }

    pub(super) fn remove_snapshot(&mut self, id: SnapshotId, touched: &mut Touched) {
        if let Some(snapshot) = self.snapshots.remove(&id) {
            Sign::Subtract.change_set(&mut self.index.snapshots_of, snapshot.spec.volume, id);
            touched.insert(Subject::Volume(snapshot.spec.volume));
        }
    }

    pub(super) fn put_host(&mut self, host: Host, touched: &mut Touched) {
        let id = host.meta.id;
        touched.extend(self.index.volumes_of_host(id));
        if let Some(view) = self.hosts.get_mut(&id) {
            if view.record.layout.instance != host.layout.instance {
                view.inventory = None;
            }
            view.record = host;
        } else {
            let view = HostView { record: host, liveness: Liveness::Unknown, inventory: None };
            self.hosts.insert(id, view);
        }
    }

    /// Snapshots of a volume that a target must take now.
    pub fn snapshots_wanted(&self, volume: VolumeId) -> impl Iterator<Item = &Snapshot> + '_ {
        self.index
            .snapshots_of
            .get(&volume)
            .into_iter()
            .flatten()
            .filter_map(|id| self.snapshots.get(id))
            .filter(|snapshot| {
                snapshot.layout.stage == SnapshotStage::Taking && !snapshot.spec.deleting
            })
    }

    /// The pools with a replica that holds a snapshot.
    pub fn pools_holding(&self, snapshot: SnapshotId) -> BTreeSet<PoolId> {
        let Some(snapshot) = self.snapshots.get(&snapshot) else { return BTreeSet::new() };
        let volume = self.volumes.get(&snapshot.spec.volume);
        let replicas = volume.into_iter().flat_map(|view| &view.record.layout.replicas);
        let held = replicas.filter(|replica| snapshot.layout.copies.contains(&replica.id));
        held.map(|replica| replica.pool).collect()
    }

    /// The space a transaction would promise beyond what is promised already. It counts from now on
    /// until `release`, so that two commits in flight never spend the same space.
    pub fn pledge(&mut self, txn: &Txn) -> Pledge {
        let mut pledge = Pledge::default();
        for write in &txn.writes {
            let Write::Put { key: Key::Volume(id), value: Record::Volume(volume), .. } = write
            else {
                continue;
            };
            let known = self.volumes.get(id).map(|view| &view.record);
            for replica in &volume.layout.replicas {
                let old = known.filter(|known| known.replica(replica.id).is_some());
                let before = old.map_or(Bytes::ZERO, |old| old.layout.size);
                let more = volume.layout.size.saturating_sub(before);
                let (thick, thin) =
                    if volume.spec.thin { (Bytes::ZERO, more) } else { (more, Bytes::ZERO) };
                if more > Bytes::ZERO {
                    pledge.pools.push((replica.pool, thick, thin));
                }
                let held = old.and_then(|old| old.replica(replica.id));
                if replica.rebuilding && !held.is_some_and(|held| held.rebuilding) {
                    pledge.rebuilds.push(replica.node);
                }
            }
        }
        for (pool, thick, thin) in &pledge.pools {
            let index = self.index.pools.entry(*pool).or_default();
            index.pledged_thick.0 += thick.0;
            index.pledged_thin.0 += thin.0;
            self.reorder_pool(*pool);
        }
        for node in &pledge.rebuilds {
            Sign::Add.change_count(&mut self.index.pledged_rebuilds, *node);
        }
        pledge
    }

    pub fn release(&mut self, pledge: &Pledge) {
        for (pool, thick, thin) in &pledge.pools {
            let index = self.index.pools.entry(*pool).or_default();
            index.pledged_thick.0 -= thick.0;
            index.pledged_thin.0 -= thin.0;
            self.reorder_pool(*pool);
        }
        for node in &pledge.rebuilds {
            Sign::Subtract.change_count(&mut self.index.pledged_rebuilds, *node);
        }
    }

    /// Bytes of a pool that nobody was promised.
    pub fn room(&self, pool: PoolId) -> Bytes {
        let Some(seen) = self.pools.get(&pool).and_then(|view| view.seen.as_ref()) else {
            return Bytes::ZERO;
        };
        let index = self.index.pools.get(&pool);
        let promised = index.map_or(Bytes::ZERO, |i| i.thick.saturating_add(i.pledged_thick));
        let thin_data = seen.used.saturating_sub(seen.reserved);
        // What the engine has reserved may exceed what is promised now: leftovers to be wiped.
        let thick = promised.max(seen.reserved);
        seen.capacity.saturating_sub(thin_data).saturating_sub(thick)
    }

    /// Bytes that thin volumes were promised in a pool, on top of the thick ones.
    pub fn committed(&self, pool: PoolId) -> Bytes {
        self.index.pools.get(&pool).map_or(Bytes::ZERO, |i| {
            Bytes(i.thick.0 + i.thin.0 + i.pledged_thick.0 + i.pledged_thin.0)
        })
    }

    pub(super) fn reorder_pools_of(&mut self, node: NodeId) {
        let pools = self.index.pools_of.get(&node).cloned().unwrap_or_default();
        for pool in pools {
            self.reorder_pool(pool);
        }
    }

    pub(super) fn reorder_pool(&mut self, id: PoolId) {
        let online = matches!(self.pool_seen(id), Observed::Present(seen)
            if seen.health == PoolHealth::Online);
        let score = online.then(|| scores::total(self, id));
        let entry = self.index.pools.entry(id).or_default();
        if entry.score == score {
            return;
        }
        if let Some(old) = entry.score.take() {
            self.index.order.remove(&(Reverse(old), id));
        }
        if let Some(new) = score {
            self.index.order.insert((Reverse(new), id));
        }
        if let Some(entry) = self.index.pools.get_mut(&id) {
            entry.score = score;
        }
    }
}
