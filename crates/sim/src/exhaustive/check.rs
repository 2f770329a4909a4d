//! What must hold in every state of a small world.

use block::Bitmap;

use super::world::{Site, Store, World, name, replica_id};

impl World {
    /// The first promise that is broken.
    pub(super) fn check(&mut self) {
        if self.broken.is_some() || self.is_blind {
            return;
        }
        let broken = self
            .flushed_is_durable()
            .or_else(|| self.difference_is_dirty())
            .or_else(|| self.acked_is_there())
            .or_else(|| self.snapshots_are_equal())
            .or_else(|| self.quiet_is_equal());
        self.broken = broken;
    }

    fn recorded(&self) -> impl Iterator<Item = (usize, &Site)> {
        let is_healthy = |site: &usize| self.record.is_recorded_healthy(replica_id(*site));
        let sites = self.sites.iter().map(|site| &**site).enumerate();
        sites.filter(move |(site, _)| is_healthy(site))
    }

    /// Of those the ones that hold what they did: one that was set back is not to blame before it
    /// was looked at.
    fn sound(&self) -> impl Iterator<Item = (usize, &Site)> {
        self.recorded().filter(|(_, site)| site.set_back.is_none())
    }

    /// Regions that a successor would make equal.
    fn dirty(&self) -> Bitmap {
        let mut dirty = Bitmap::new();
        for (_, site) in self.sound() {
            dirty.merge(&site.disk.header.dirty);
        }
        dirty
    }

    /// Invariant 1: every replica that counts holds every flushed write, whatever loses power.
    fn flushed_is_durable(&self) -> Option<String> {
        for (index, site) in self.sound() {
            if !self.record.is_healthy(replica_id(index)) {
                continue;
            }
            for (block, told) in self.host.blocks.iter().enumerate() {
                let found = site.disk.durable[block];
                if found < told.flushed {
                    let (name, flushed) = (name(index), told.flushed);
                    return Some(format!(
                        "{name} has v{found} of block {block}, flushed v{flushed}"
                    ));
                }
            }
        }
        None
    }

    /// Invariant 6: what can differ between healthy replicas after a crash would be copied.
    fn difference_is_dirty(&self) -> Option<String> {
        let dirty = self.dirty();
        for block in 0..self.left.blocks {
            if dirty.contains(u64::try_from(block).unwrap_or(0)) {
                continue;
            }
            let mut found =
                self.sound().flat_map(|(_, site)| [site.disk.now[block], site.disk.durable[block]]);
            let first = found.next();
            if found.any(|other| Some(other) != first) {
                return Some(format!("block {block} differs, and no region is dirty"));
            }
        }
        None
    }

    /// Invariant 4: an acknowledged write that a healthy replica lacks would be copied to it, and
    /// some replica has it.
    fn acked_is_there(&self) -> Option<String> {
        let dirty = self.dirty();
        for (block, told) in self.host.blocks.iter().enumerate() {
            let region = u64::try_from(block).unwrap_or(0);
            for (index, site) in self.sound() {
                let found = site.disk.now[block];
                if found < told.acked && !dirty.contains(region) {
                    let (name, acked) = (name(index), told.acked);
                    return Some(format!("{name} has v{found} of block {block}, acked v{acked}"));
                }
            }
            let counting = self
                .sound()
                .filter(|(index, _)| self.record.is_healthy(replica_id(*index)))
                .map(|(_, site)| site.disk.now[block]);
            if !self.lost_power && counting.max().is_some_and(|found| found < told.acked) {
                return Some(format!("nobody has v{} of block {block}", told.acked));
            }
        }
        None
    }

    /// Invariant 8: a snapshot is the same wherever it is, and no older than its wish.
    fn snapshots_are_equal(&self) -> Option<String> {
        let all = || {
            let sites = self.sites.iter().enumerate();
            sites.flat_map(|(index, site)| site.disk.images.iter().map(move |found| (index, found)))
        };
        for (index, (image, values)) in all() {
            let name = name(index);
            let key = (image.snapshot, image.attempt, image.roster);
            let other = all().find(|(_, (other, held))| {
                (other.snapshot, other.attempt, other.roster) == key && held != values
            });
            if let Some((_, (_, held))) = other {
                return Some(format!("a snapshot is {values:?} on {name} and {held:?} elsewhere"));
            }
            let number = usize::try_from(image.snapshot.0.as_u128()).unwrap_or(0);
            let floor = self.wanted.get(number.wrapping_sub(1))?;
            if !self.lost_power && values.iter().zip(floor).any(|(found, floor)| found < floor) {
                return Some(format!("a snapshot is {values:?} on {name}, acked {floor:?} before"));
            }
        }
        None
    }

    /// What is wanted is on every healthy replica, or was reported failed.
    fn snapshots_are_whole(&self, serving: usize) -> Option<String> {
        let machine = self.targets[serving].machine.as_ref()?;
        let failed = machine.seen().failed_snapshots;
        let is_wanted = |item: &&model::SnapshotItem| !failed.contains(&item.attempt);
        for item in self.targets[serving].item.snapshots.iter().filter(is_wanted) {
            let held = |site: &Site| {
                let images = site.disk.images.iter().map(|(frozen, _)| frozen);
                let mut found = images.filter(|frozen| frozen.snapshot == item.snapshot);
                found.next().map(|frozen| frozen.roster)
            };
            let mut found = self.recorded().map(|(_, site)| held(site));
            let first = found.next().flatten();
            if first.is_none() || found.any(|other| other != first) {
                return Some(format!("at rest not every healthy replica has {}", item.snapshot));
            }
        }
        None
    }

    /// Nothing is on its way, and nothing will happen by itself.
    pub(super) fn is_quiet(&self) -> bool {
        let mut actions = Vec::new();
        self.progress(&mut actions);
        actions.is_empty()
    }

    /// Invariants 3 and 10: at rest healthy replicas are equal, and no host waits for nothing.
    fn quiet_is_equal(&self) -> Option<String> {
        let serving = self.targets.iter().position(|target| {
            let machine = target.machine.as_ref();
            machine.is_some_and(|m| m.is_serving() && m.epoch() == self.record.epoch)
        })?;
        if !self.is_quiet() {
            return None;
        }
        if self.left.ticks > 0 || self.targets[serving].store != Store::Idle {
            return None;
        }
        let is_asked = self.host.asked.iter().any(|asked| asked.target == serving);
        let is_whole = (0..self.sites.len()).all(|site| {
            let mut wires = self.wires.iter();
            wires.any(|w| w.target == serving && w.site == site && w.is_accepted)
        });
        if is_asked && is_whole && self.leases_can_be_had() {
            return Some("a host waits, and nothing is on its way".into());
        }
        if is_asked || self.record.resync_source.is_some() || !is_whole {
            return None;
        }
        for block in 0..self.left.blocks {
            let mut found = self.recorded().map(|(_, site)| site.disk.now[block]);
            let first = found.next();
            if found.any(|other| Some(other) != first) {
                return Some(format!("block {block} differs at rest"));
            }
        }
        self.snapshots_are_whole(serving)
    }

    /// Without grace every lost child is excluded at once; with it time must pass.
    fn leases_can_be_had(&self) -> bool {
        !self.left.grace
    }
}
