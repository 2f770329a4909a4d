//! After each event: what changed is shown to the oracle.

use std::collections::BTreeSet;

use model::{Access, Epoch, Key, Membership, NodeId, ReplicaId, VolumeId};

use super::{Cluster, Machine};
use crate::{
    Copies, Party, Truth,
    fakes::disk::{ReplicaDisk, UNKNOWN},
    names,
};

impl Cluster {
    pub(super) fn judge(&mut self) {
        self.records.follow(&self.store.core, self.store.incarnation);
        self.judge_commits();
        for key in core::mem::take(&mut self.records.changed) {
            match key {
                Key::Membership(volume) => {
                    self.oracle.touched.insert(volume);
                }
                Key::Volume(volume) => self.volume_changed(volume),
                _ => {}
            }
        }
        if self.oracle.touched.is_empty() && self.oracle.destroyed.is_empty() {
            return;
        }
        let touched = self.oracle.touched.clone();
        self.refresh_facts(&touched);
        for volume in touched {
            self.judge_hosts(volume);
        }
        let mut oracle = core::mem::take(&mut self.oracle);
        oracle.judge(self);
        self.oracle = oracle;
    }

    /// Lets judges see what nodes hold now: of these volumes the data as well.
    pub fn refresh_facts(&mut self, volumes: &BTreeSet<VolumeId>) {
        for machine in self.nodes.values_mut() {
            let Machine { engine, disks, hardware, .. } = machine;
            if let Some(engine) = engine {
                engine.refresh(disks, hardware, volumes, &mut self.oracle);
            }
        }
    }

    /// An exclusive volume is used by one host, whatever the records say. Older targets than the
    /// one of the layout can change nothing any more.
    fn judge_hosts(&mut self, id: VolumeId) {
        let Some(volume) = self.records.volume(id) else { return };
        let Some(current) = &volume.layout.target else { return };
        let engine = self.nodes.get(&current.node).and_then(|machine| machine.engine.as_ref());
        let target = engine.and_then(|engine| engine.target(id));
        let Some(target) = target.filter(|target| target.epoch == current.epoch) else { return };
        let hosts = target.hosts;
        if volume.spec.access == Access::Exclusive && hosts.len() > 1 {
            let who: Vec<_> = hosts.iter().map(|host| names::label(host.0)).collect();
            let words = format!("{} is used by {}", volume.meta.name, who.join(" and "));
            self.oracle.break_promise("one-host-uses-an-exclusive-volume", words);
        }
    }

    fn volume_changed(&mut self, id: VolumeId) {
        let is_clone = |volume: &model::Volume| volume.spec.origin.is_some();
        if self.records.volume(id).is_some_and(is_clone) {
            self.refresh_facts(&BTreeSet::new());
        }
        let Some(volume) = self.records.volume(id) else { return };
        if volume.spec.access == Access::Many {
            self.oracle.shared.insert(id);
        }
        let promotions = volume.layout.promotions.len();
        self.oracle.promotions(id, promotions, volume.layout.epoch);
        if let Some(origin) = volume.spec.origin {
            let copies = self.nodes.values().flat_map(|m| m.disks.by_path.values());
            let images = copies
                .filter_map(|disk| disk.pool.as_ref())
                .flat_map(|pool| pool.replicas.values())
                .filter_map(|replica| replica.snapshots.get(&origin));
            for image in images.filter(|image| !image.blocks.contains(&UNKNOWN)) {
                self.oracle.cloned(id, image.blocks);
            }
        }
    }
}

impl Copies for Cluster {
    fn copy(&self, replica: ReplicaId) -> Option<&ReplicaDisk> {
        self.nodes.values().find_map(|machine| machine.disks.replica(replica))
    }
}

impl Truth for Cluster {
    fn membership(&self, volume: VolumeId) -> Option<&Membership> {
        self.records.membership(volume)
    }

    fn volume_exists(&self, volume: VolumeId) -> bool {
        self.records.volume(volume).is_some()
    }

    fn volume_was_deleted(&self, volume: VolumeId) -> bool {
        self.records.deleted.contains(&volume)
    }

    fn was_buried(&self, tombstone: &Key) -> bool {
        self.records.buried.contains(tombstone)
    }

    fn is_set_back(&self, volume: VolumeId) -> bool {
        self.records.set_back.contains(&volume)
    }

    fn copies(&self) -> &dyn Copies {
        self
    }

    fn serving(&self, volume: VolumeId) -> Vec<(NodeId, Epoch, BTreeSet<ReplicaId>)> {
        let running = self.nodes.iter().filter_map(|(node, machine)| {
            let target = machine.engine.as_ref()?.target(volume)?;
            target.is_serving.then_some((*node, target.epoch, target.acknowledging))
        });
        running.collect()
    }

    fn is_out_of_reach(&self, node: NodeId) -> bool {
        !self.is_steady(Party::Node(node))
    }
}
