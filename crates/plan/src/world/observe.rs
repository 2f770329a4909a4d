//! Taking in what engines and hosts report.

use alloc::{collections::BTreeMap, vec::Vec};

use model::{
    Buried, Difference, HostId, HostInventory, Inventory, Liveness, Mark, NodeId, PoolId, PoolSeen,
    ReplicaId, ReplicaSeen, Subject, TargetRef, TargetSeen, VolumeId,
};

use super::{Dispute, Orphan, Touched, Verdict, World};

/// A difference that does not fit the inventory that is known: a whole one is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap;

impl World {
    /// Takes a whole inventory. One of another process than the registered one, or an older one
    /// than is known, changes nothing.
    pub fn observe(&mut self, mut inventory: Inventory) -> Touched {
        let mut touched = Touched::new();
        let id = inventory.node;
        let Some(view) = self.nodes.get_mut(&id) else { return touched };
        if view.record.layout.instance != Some(inventory.instance) {
            return touched;
        }
        let known = view.inventory.take();
        if let Some(known) = &known
            && known.sequence >= inventory.sequence
        {
            view.inventory = Some(known.clone());
            return touched;
        }
        touched.insert(Subject::Node(id));
        let caught_up = known.as_ref().is_none_or(|old| old.generation != inventory.generation);
        let empty = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (pools, replicas, targets) =
            known.map_or(empty, |known| (known.pools, known.replicas, known.targets));
        self.strip_carried(&mut inventory);
        let pools = changed(&pools, &inventory.pools);
        let replicas = changed(&replicas, &inventory.replicas);
        let targets = changed(&targets, &inventory.targets);
        if let Some(view) = self.nodes.get_mut(&id) {
            view.inventory = Some(inventory);
        }
        if caught_up {
            // Absence may count from now on, for whatever was decided up to this generation.
            self.touch_all_on(id, &mut touched);
        }
        self.note_pools(id, &pools, &mut touched);
        self.note_replicas(id, &replicas, &mut touched);
        self.note_targets(id, &targets, &mut touched);
        touched
    }

    /// Takes what changed since the inventory that is known.
    pub fn observe_difference(&mut self, difference: Difference) -> Result<Touched, Gap> {
        let id = difference.node;
        let Some(view) = self.nodes.get_mut(&id) else { return Err(Gap) };
        let registered = view.record.layout.instance == Some(difference.instance);
        let Some(known) = view.inventory.as_mut().filter(|_| registered) else { return Err(Gap) };
        if known.sequence >= difference.sequence {
            return Ok(Touched::new());
        }
        if known.sequence != difference.base {
            return Err(Gap);
        }
        let mut touched = Touched::from([Subject::Node(id)]);
        let caught_up = known.generation != difference.generation;
        known.generation = difference.generation;
        known.sequence = difference.sequence;
        let pools = merge(&mut known.pools, difference.pools);
        let replicas = merge(&mut known.replicas, difference.replicas);
        let targets = merge(&mut known.targets, difference.targets);
        if caught_up {
            self.touch_all_on(id, &mut touched);
        }
        self.note_pools(id, &pools, &mut touched);
        self.note_replicas(id, &replicas, &mut touched);
        self.note_targets(id, &targets, &mut touched);
        Ok(touched)
    }

    pub fn observe_host(&mut self, inventory: HostInventory) -> Touched {
        let mut touched = Touched::new();
        let id = inventory.host;
        let Some(view) = self.hosts.get_mut(&id) else { return touched };
        let stale = view.inventory.as_ref().is_some_and(|k| k.sequence >= inventory.sequence);
        if view.record.layout.instance != Some(inventory.instance) || stale {
            return touched;
        }
        touched.insert(Subject::Host(id));
        match &view.inventory {
            Some(known) if known.generation == inventory.generation => {
                let paths = changed(&known.paths, &inventory.paths);
                let shares = changed(&known.shares, &inventory.shares);
                touched.extend(paths.into_iter().chain(shares).map(Subject::Volume));
            }
            _ => touched.extend(self.index.volumes_of_host(id)),
        }
        view.inventory = Some(inventory);
        touched
    }

    /// Another process of the host than the registered one speaks: what that one reported is over,
    /// though the record does not say so yet.
    pub fn forget_host_seen(&mut self, id: HostId) -> Touched {
        let known = self.hosts.get_mut(&id).and_then(|view| view.inventory.take());
        known.into_iter().flat_map(|_| self.index.volumes_of_host(id)).collect()
    }

    /// As [`World::forget_host_seen`]: what a node's last process had admitted, and which config it
    /// had, says nothing about the one that runs.
    pub fn forget_node_seen(&mut self, id: NodeId) -> Touched {
        let mut touched = Touched::new();
        let view = self.nodes.get_mut(&id);
        if view.and_then(|view| view.inventory.take()).is_none() {
            return touched;
        }
        self.forget_pools_seen(id);
        touched.insert(Subject::Node(id));
        self.touch_all_on(id, &mut touched);
        self.reorder_pools_of(id);
        touched
    }

    /// Sets what is believed of a node's life.
    pub fn judge_node(&mut self, id: NodeId, liveness: Liveness) -> Touched {
        let mut touched = Touched::new();
        let Some(view) = self.nodes.get_mut(&id) else { return touched };
        if view.liveness == liveness {
            return touched;
        }
        view.liveness = liveness;
        touched.insert(Subject::Node(id));
        self.touch_all_on(id, &mut touched);
        self.reorder_pools_of(id);
        touched
    }

    pub fn judge_host(&mut self, id: HostId, liveness: Liveness) -> Touched {
        let mut touched = Touched::new();
        let Some(view) = self.hosts.get_mut(&id) else { return touched };
        if view.liveness != liveness {
            view.liveness = liveness;
            touched.insert(Subject::Host(id));
            touched.extend(self.index.volumes_of_host(id));
        }
        touched
    }

    /// What another process of the node reported says nothing about this one.
    pub(super) fn forget_pools_seen(&mut self, node: NodeId) {
        for pool in self.index.pools_of.get(&node).cloned().unwrap_or_default() {
            if let Some(view) = self.pools.get_mut(&pool) {
                view.seen = None;
            }
            self.reorder_pool(pool);
        }
    }

    fn note_pools(&mut self, node: NodeId, pools: &[PoolId], touched: &mut Touched) {
        for id in pools {
            let inventory = self.nodes.get(&node).and_then(|view| view.inventory.as_ref());
            let seen = inventory.and_then(|inventory| inventory.pools.get(id)).cloned();
            self.review_mark(*id, seen.as_ref(), touched);
            let Some(view) = self.pools.get_mut(id).filter(|v| v.record.spec.node == node) else {
                continue;
            };
            let health = |seen: &Option<PoolSeen>| seen.as_ref().map(|seen| seen.health.clone());
            let same_health = health(&view.seen) == health(&seen);
            view.seen = seen;
            touched.insert(Subject::Pool(*id));
            if !same_health {
                // Every copy in it stands differently now. More space alone concerns only those who
                // wait for room, and they are found by their wait.
                self.touch_all_on(node, touched);
            }
            self.reorder_pool(*id);
        }
    }

    fn note_replicas(&mut self, node: NodeId, replicas: &[ReplicaId], touched: &mut Touched) {
        for id in replicas {
            if let Some(volume) = self.index.replica_home.get(id) {
                touched.insert(Subject::Volume(*volume));
                let snapshots = self.index.snapshots_of.get(volume).into_iter().flatten();
                touched.extend(snapshots.map(|snapshot| Subject::Snapshot(*snapshot)));
            }
            self.review_orphan(node, *id);
        }
    }

    fn note_targets(&mut self, node: NodeId, volumes: &[VolumeId], touched: &mut Touched) {
        for id in volumes {
            touched.insert(Subject::Volume(*id));
            let snapshots = self.index.snapshots_of.get(id).into_iter().flatten();
            touched.extend(snapshots.map(|snapshot| Subject::Snapshot(*snapshot)));
        }
        for id in volumes {
            self.review_stray(node, *id);
        }
    }

    /// Whether a reported target is one that no layout and no tombstone names.
    pub(super) fn review_stray(&mut self, node: NodeId, volume: VolumeId) {
        let now = self.now;
        let layout = self.volumes.get(&volume).map(|view| &view.record.layout);
        let Some(view) = self.nodes.get_mut(&node) else { return };
        let Some(inventory) = &view.inventory else { return };
        let strays = |buried: &Buried| {
            matches!(buried, Buried::Target { volume: own, .. }
            if *own == volume)
        };
        let seen: Option<&TargetSeen> = inventory.targets.get(&volume);
        let named = seen.map(|seen| TargetRef { node, epoch: seen.epoch });
        let stray = named.filter(|named| {
            let wanted = layout.is_some_and(|layout| {
                layout.target.as_ref().is_some_and(|target| target.reference() == *named)
                    || layout.old_targets.contains(named)
            });
            let buried = Buried::Target { volume, epoch: named.epoch };
            !wanted && !view.tombstones.contains_key(&buried)
        });
        let stray = stray.map(|named| Buried::Target { volume, epoch: named.epoch });
        view.orphans.retain(|buried, _| !strays(buried) || Some(*buried) == stray);
        if let Some(buried) = stray {
            let first = Orphan { since: now, first_sequence: inventory.sequence };
            view.orphans.entry(buried).or_insert(first);
        }
    }

    /// Whether a reported replica is in no record and no tombstone.
    pub(super) fn review_orphan(&mut self, node: NodeId, replica: ReplicaId) {
        let homeless = !self.index.replica_home.contains_key(&replica);
        let now = self.now;
        let Some(view) = self.nodes.get_mut(&node) else { return };
        let Some(inventory) = &view.inventory else { return };
        let seen: Option<&ReplicaSeen> = inventory.replicas.get(&replica);
        // A snapshot that was deleted while a rebuild carried it along is an orphan too.
        let images = seen.filter(|_| !homeless).into_iter().flat_map(|seen| {
            let ids = seen.snapshots.keys().filter(|id| !self.snapshots.contains_key(id));
            ids.map(|id| Buried::Snapshot { snapshot: *id, replica, pool: seen.pool })
        });
        let images: Vec<Buried> =
            images.filter(|image| !view.tombstones.contains_key(image)).collect();
        let first = Orphan { since: now, first_sequence: inventory.sequence };
        view.orphans.retain(|buried, _| {
            let own = matches!(buried, Buried::Snapshot { replica: own, .. } if *own == replica);
            !own || images.contains(buried)
        });
        for image in images {
            view.orphans.entry(image).or_insert(first);
        }
        if let Some(seen) = seen {
            let buried = Buried::Replica { replica, pool: seen.pool };
            if homeless && !view.tombstones.contains_key(&buried) {
                view.orphans.entry(buried).or_insert(first);
            } else {
                view.orphans.remove(&buried);
            }
        } else {
            view.orphans.retain(|buried, _| match buried {
                Buried::Replica { replica: own, .. } => *own != replica,
                _ => true,
            });
        }
    }

    /// Judges every pool's mark again, after the store's history changed.
    pub(super) fn review_marks(&mut self, touched: &mut Touched) {
        let seen: Vec<(PoolId, PoolSeen)> = self
            .nodes
            .values()
            .filter_map(|view| view.inventory.as_ref())
            .flat_map(|inventory| inventory.pools.iter().map(|(id, seen)| (*id, seen.clone())))
            .collect();
        let disputed = self.disputes.iter().map(|(id, dispute)| (*id, dispute.mark));
        let disputed: Vec<(PoolId, Mark)> = disputed.collect();
        for (id, mark) in disputed {
            self.judge_mark(id, mark, touched);
        }
        for (id, seen) in seen {
            self.review_mark(id, Some(&seen), touched);
        }
    }

    fn review_mark(&mut self, pool: PoolId, seen: Option<&PoolSeen>, touched: &mut Touched) {
        // A pool that is not heard for now keeps the dispute it raised.
        if let Some(mark) = seen.and_then(|seen| seen.mark) {
            self.judge_mark(pool, mark, touched);
        }
    }

    fn judge_mark(&mut self, pool: PoolId, mark: Mark, touched: &mut Touched) {
        let Some(cluster) = &self.cluster else { return };
        let was = self.read_only().is_some();
        match self.history.judge(&mark, cluster) {
            Verdict::Foreign { why } => {
                let why = alloc::format!("pool {pool}: {why}");
                self.disputes.insert(pool, Dispute { mark, why });
            }
            Verdict::Proven | Verdict::Unproven { .. } => {
                self.disputes.remove(&pool);
            }
        }
        if was != self.read_only().is_some() {
            let all: Vec<Subject> = self.subjects().collect();
            touched.extend(all);
        }
    }

    /// Carried records matter only where they know more than the store: the rest would double the
    /// memory.
    fn strip_carried(&self, inventory: &mut Inventory) {
        for (id, seen) in &mut inventory.replicas {
            let home = self.index.replica_home.get(id).and_then(|home| self.volumes.get(home));
            let newer = |home: &super::VolumeView| match &seen.carried {
                Some((revision, _)) => *revision > home.record.meta.revision,
                None => false,
            };
            if home.is_some_and(|home| !newer(home)) {
                seen.carried = None;
            }
        }
        for (id, seen) in &mut inventory.pools {
            if self.pools.contains_key(id) {
                seen.carried = None;
            }
        }
    }
}

/// Keys whose values differ between two maps.
fn changed<K: Ord + Copy, V: PartialEq>(old: &BTreeMap<K, V>, new: &BTreeMap<K, V>) -> Vec<K> {
    let gone = old.keys().filter(|key| !new.contains_key(key));
    let other = new.iter().filter(|(key, value)| old.get(key) != Some(value)).map(|(key, _)| key);
    gone.chain(other).copied().collect()
}

fn merge<K: Ord + Copy, V>(known: &mut BTreeMap<K, V>, news: BTreeMap<K, Option<V>>) -> Vec<K> {
    let keys = news.keys().copied().collect();
    for (key, value) in news {
        match value {
            Some(value) => known.insert(key, value),
            None => known.remove(&key),
        };
    }
    keys
}
