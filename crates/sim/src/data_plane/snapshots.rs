//! Snapshots: what a control plane of a few lines wants of them, and what must hold.

use std::collections::{BTreeMap, BTreeSet};

use model::{AttemptId, ReplicaId, SnapshotId, SnapshotItem, TargetSeen};
use pool::Image;

use super::world::{WINDOWS, World, replica_id};

#[derive(Debug, Default)]
pub(super) struct Snapshots {
    last: u128,
    wanted: Vec<Wanted>,
    /// Found on every healthy copy.
    ready: BTreeMap<SnapshotId, AttemptId>,
    /// Tombstones name them.
    pub(super) deleted: BTreeSet<SnapshotId>,
}

#[derive(Debug)]
struct Wanted {
    item: SnapshotItem,
    until: u64,
    /// What was flushed before anybody asked for it.
    flushed: Vec<u64>,
}

/// As many as pools have room for.
const READY_MOST: usize = 2;
const DEADLINE: u64 = 8_000_000;

impl Snapshots {
    pub(super) fn items(&self) -> Vec<SnapshotItem> {
        self.wanted.iter().map(|wanted| wanted.item.clone()).collect()
    }
}

impl World {
    pub(super) fn want_snapshot(&mut self) {
        while self.snapshots.ready.len() + self.snapshots.wanted.len() >= READY_MOST {
            if !self.delete_oldest_snapshot() {
                return;
            }
        }
        self.snapshots.last += 1;
        let number = self.snapshots.last;
        let item = SnapshotItem {
            snapshot: SnapshotId::from_u128(number),
            name: format!("snapshot-{number}"),
            attempt: AttemptId::from_u128(number),
        };
        let (until, flushed) = (self.now + DEADLINE, self.oracle.flushed_now());
        self.snapshots.wanted.push(Wanted { item, until, flushed });
        self.tell_snapshots();
    }

    /// False if there is none.
    pub(super) fn delete_oldest_snapshot(&mut self) -> bool {
        let oldest = self.snapshots.ready.pop_first();
        if let Some((snapshot, _)) = oldest {
            self.note(|| format!("snapshot {snapshot} is to be deleted"));
            self.snapshots.deleted.insert(snapshot);
            self.changed();
        }
        oldest.is_some()
    }

    fn tell_snapshots(&mut self) {
        let items = self.snapshots.items();
        self.configure(|config| config.snapshots = items);
    }

    /// Nobody waits for those that were not taken.
    pub(super) fn calm_snapshots(&mut self) {
        let wanted = std::mem::take(&mut self.snapshots.wanted);
        self.snapshots.deleted.extend(wanted.into_iter().map(|wanted| wanted.item.snapshot));
        self.tell_snapshots();
    }

    pub(super) fn control_snapshots(&mut self) {
        self.delete_snapshots();
        let target = self.current_target().filter(|target| target.is_serving());
        let Some(target) = target else { return };
        let TargetSeen { failed_snapshots: failed, taken_snapshots: taken, .. } = target.seen();
        let wanted = std::mem::take(&mut self.snapshots.wanted);
        let count = wanted.len();
        for wanted in wanted {
            let SnapshotItem { snapshot, attempt, .. } = wanted.item;
            if failed.contains(&attempt) || wanted.until < self.now {
                self.snapshots.deleted.insert(snapshot);
            } else if let Some(holders) = taken.get(&attempt) {
                self.judge_taken(snapshot, attempt, holders);
                self.note(|| format!("snapshot {snapshot} is ready"));
                self.snapshots.ready.insert(snapshot, attempt);
                self.judge_image(snapshot, &wanted.flushed);
            } else {
                self.snapshots.wanted.push(wanted);
            }
        }
        if self.snapshots.wanted.len() != count {
            self.tell_snapshots();
        }
    }

    /// Whoever is reported to hold it does.
    fn judge_taken(
        &mut self,
        snapshot: SnapshotId,
        attempt: AttemptId,
        holders: &BTreeSet<ReplicaId>,
    ) {
        for node in 0..self.copies {
            let is_up = self.nodes[node].pool().is_some() && !self.nodes[node].is_bad;
            if is_up && holders.contains(&replica_id(node)) {
                let is_there = self.holds(node, snapshot, attempt);
                let words = || format!("node {node} lacks snapshot {snapshot}, reported as taken");
                self.check("8", if is_there { Ok(()) } else { Err(words()) });
            }
        }
    }

    fn holds(&self, node: usize, snapshot: SnapshotId, attempt: AttemptId) -> bool {
        let pool = self.nodes[node].pool();
        let mut found = pool.into_iter().flat_map(pool::Pool::snapshots);
        found.any(|found| found.snapshot == snapshot && found.attempt == attempt)
    }

    /// One that was taken after its tombstone was heard of is named once more.
    fn delete_snapshots(&mut self) {
        let is_left = (0..self.copies).any(|node| {
            let pool = self.nodes[node].pool();
            let mut found = pool.into_iter().flat_map(pool::Pool::snapshots);
            found.any(|found| self.snapshots.deleted.contains(&found.snapshot))
        });
        if is_left {
            self.changed();
        }
    }

    /// It has at least what was flushed before it was asked for.
    fn judge_image(&mut self, snapshot: SnapshotId, flushed: &[u64]) {
        for node in 0..self.copies {
            let is_healthy = self.store.record.is_healthy(replica_id(node));
            if !is_healthy || self.nodes[node].is_bad {
                continue;
            }
            let image = Image::Snapshot(replica_id(node), snapshot);
            let Some((data, _)) = self.peek(node, image) else { continue };
            let result = self.oracle.judge_image(WINDOWS, &data, flushed);
            let words = |words| format!("snapshot {snapshot} on node {node}: {words}");
            self.check("8", result.map_err(words));
        }
    }

    /// Invariant 8: a snapshot is the same wherever it is.
    pub(super) fn judge_snapshots(&mut self) {
        let mut seen = BTreeMap::new();
        for node in 0..self.copies {
            let Some(pool) = self.nodes[node].pool().filter(|_| !self.nodes[node].is_bad) else {
                continue;
            };
            let found = pool.snapshots().map(|s| (s.snapshot, s.attempt, s.roster));
            let found: Vec<_> = found.collect();
            for key in found {
                let image = Image::Snapshot(replica_id(node), key.0);
                let Some((data, _)) = self.peek(node, image) else { continue };
                let first = seen.entry(key).or_insert_with(|| data.clone());
                let at = first.iter().zip(&data).position(|(a, b)| a != b);
                let words = |at: usize| {
                    let (snapshot, block) = (key.0, at / block::BLOCK);
                    format!("snapshot {snapshot} differs on node {node}, block {block} of those")
                };
                self.check("8", at.map_or(Ok(()), |at| Err(words(at))));
            }
        }
    }

    /// At rest every copy has every snapshot that is ready, and the same of it.
    pub(super) fn judge_resting_snapshots(&mut self) {
        self.judge_snapshots();
        for (snapshot, attempt) in self.snapshots.ready.clone() {
            for node in 0..self.copies {
                let is_there = self.holds(node, snapshot, attempt);
                let words = || format!("node {node} lacks snapshot {snapshot} at rest");
                self.check("8", if is_there { Ok(()) } else { Err(words()) });
            }
        }
    }
}
