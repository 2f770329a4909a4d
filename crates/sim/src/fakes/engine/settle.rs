//! Making the machine what the config says: tombstones, then pools, replicas and targets.

use model::{Buried, Bytes, Epoch, Key, Mark, Millis, NodePart, PoolId, PoolItem, ReplicaItem};

use super::{Engine, IMPORT_MAX, IMPORT_MIN, PoolState};
use crate::{
    Ctx, Timer,
    fakes::{
        disk::{BLOCKS, Condition, Disk, Disks, PoolDisk, ReplicaDisk},
        target::Target,
    },
};

impl Engine {
    pub(super) fn settle(&mut self, disks: &mut Disks, ctx: &mut Ctx<'_>) {
        let parts = core::mem::take(&mut self.parts);
        self.settle_pools(disks, ctx, &parts);
        self.bury(disks, ctx, &parts);
        self.mark(disks);
        self.settle_replicas(disks, ctx, &parts);
        self.settle_targets(ctx, &parts);
        self.parts = parts;
    }

    pub(super) fn is_online(&self, pool: PoolId) -> bool {
        self.pools.get(&pool) == Some(&PoolState::Online)
    }

    pub(super) fn imported(&mut self, disks: &mut Disks, ctx: &mut Ctx<'_>, pool: PoolId) {
        if let Some(state @ PoolState::Importing) = self.pools.get_mut(&pool) {
            *state = PoolState::Online;
            self.settle(disks, ctx);
            self.carry(disks, self.parts.values());
            ctx.out.changed = true;
        }
    }

    fn settle_pools(&mut self, disks: &mut Disks, ctx: &mut Ctx<'_>, parts: &super::Parts) {
        let named = parts.values().filter_map(|part| match part {
            NodePart::Pool(item) => Some(item),
            _ => None,
        });
        let before = core::mem::take(&mut self.pools);
        for item in named {
            let state = settle_pool(disks, item, before.get(&item.id));
            if state == PoolState::Importing && before.get(&item.id) != Some(&state) {
                let span = Millis(ctx.random.between(IMPORT_MIN, IMPORT_MAX));
                ctx.wake_in(span, Timer::Imported(item.id));
            }
            self.pools.insert(item.id, state);
        }
    }

    fn mark(&self, disks: &mut Disks) {
        let Some(seen) = self.seen() else { return };
        for (id, _) in self.pools.iter().filter(|(_, state)| **state == PoolState::Online) {
            if let Some(pool) = disks.pool_mut(*id) {
                pool.mark_at(seen);
            }
        }
    }

    fn seen(&self) -> Option<Mark> {
        let head = self.head.as_ref()?;
        Some(Mark { era: head.era, term: head.term, revision: head.generation })
    }

    /// Targets first, then snapshots, replicas and pools.
    fn bury(&mut self, disks: &mut Disks, ctx: &mut Ctx<'_>, parts: &super::Parts) {
        let mut buried: Vec<Buried> = parts
            .keys()
            .filter_map(|key| match key {
                Key::Tombstone(node, buried) if *node == self.node => Some(*buried),
                _ => None,
            })
            .collect();
        buried.sort_by_key(|buried| match buried {
            Buried::Target { .. } => 0,
            Buried::Snapshot { .. } => 1,
            Buried::Replica { .. } => 2,
            Buried::Pool { .. } => 3,
        });
        for buried in buried {
            self.bury_one(disks, ctx, buried);
        }
    }

    fn bury_one(&mut self, disks: &mut Disks, ctx: &mut Ctx<'_>, buried: Buried) {
        match buried {
            Buried::Target { volume, epoch } => {
                let last = self.ended.entry(volume).or_default();
                *last = (*last).max(epoch);
                if self.targets.get(&volume).is_some_and(|target| target.epoch <= epoch)
                    && let Some(mut target) = self.targets.remove(&volume)
                {
                    target.close(ctx);
                    ctx.out.changed = true;
                }
            }
            Buried::Snapshot { snapshot, replica, pool } if self.may_bury_in(pool) => {
                let replica = disks.pool_mut(pool).and_then(|p| p.replicas.get_mut(&replica));
                if replica.is_some_and(|replica| replica.snapshots.remove(&snapshot).is_some()) {
                    ctx.out.changed = true;
                }
            }
            Buried::Replica { replica, pool } if self.may_bury_in(pool) => {
                let Some(disk) = disks.pool_mut(pool) else { return };
                if let Some(gone) = disk.replicas.remove(&replica) {
                    if disk.replicas.values().all(|other| other.volume != gone.volume) {
                        disk.volumes.remove(&gone.volume);
                    }
                    self.sessions.remove(&replica);
                    ctx.oracle.destroyed(self.node, replica, pool, &gone);
                    ctx.out.changed = true;
                }
            }
            Buried::Pool { pool } => {
                let disk = disks
                    .disk_of_mut(pool)
                    .filter(|disk| disk.readable().is_some_and(|pool| pool.replicas.is_empty()));
                if let Some(disk) = disk {
                    disk.pool = None;
                    self.pools.remove(&pool);
                    ctx.out.changed = true;
                }
            }
            Buried::Snapshot { .. } | Buried::Replica { .. } => {}
        }
    }

    /// A pool that the config does not name is buried in as the scan found it.
    fn may_bury_in(&self, pool: PoolId) -> bool {
        self.pools.get(&pool).is_none_or(|state| *state == PoolState::Online)
    }

    fn settle_replicas(&mut self, disks: &mut Disks, ctx: &mut Ctx<'_>, parts: &super::Parts) {
        self.refused.clear();
        self.missing.clear();
        for part in parts.values() {
            let NodePart::Volume(part) = part else { continue };
            for item in &part.replicas {
                let tomb = Buried::Replica { replica: item.id, pool: item.pool };
                let buried = parts.contains_key(&Key::Tombstone(self.node, tomb));
                if buried || !self.is_online(item.pool) {
                    continue;
                }
                self.settle_replica(disks, ctx, part.volume, item);
            }
        }
    }

    fn settle_replica(
        &mut self,
        disks: &mut Disks,
        ctx: &mut Ctx<'_>,
        volume: model::VolumeId,
        item: &ReplicaItem,
    ) {
        let birth = self.seen();
        let Some(disk) = disks.disk_of_mut(item.pool) else { return };
        let free = disk.free();
        let Some(pool) = disk.pool.as_mut() else { return };
        if let Some(replica) = pool.replicas.get_mut(&item.id) {
            let growth = item.size.saturating_sub(replica.size);
            if growth > Bytes::ZERO && (replica.thin || growth <= free) {
                replica.size = item.size;
            }
            if let Some(admission) = item.admission
                && admission.epoch >= replica.epoch
            {
                ctx.oracle.admitted(item.id, replica.epoch, admission.epoch);
                replica.epoch = admission.epoch;
                replica.admitted = admission.node;
            }
            return;
        }
        if item.must_exist {
            self.missing.insert(item.id);
            return;
        }
        match make(pool, free, volume, item) {
            Ok(mut replica) => {
                replica.birth = birth;
                pool.replicas.insert(item.id, replica);
                ctx.oracle.made(item.id, item.pool, volume);
            }
            Err(reason) => {
                self.refused.insert(item.id, reason.into());
            }
        }
    }

    fn settle_targets(&mut self, ctx: &mut Ctx<'_>, parts: &super::Parts) {
        for part in parts.values() {
            let NodePart::Volume(part) = part else { continue };
            let Some(item) = &part.target else { continue };
            if let Some(target) = self.targets.get_mut(&part.volume) {
                if target.epoch == item.epoch {
                    target.update(ctx, item);
                    continue;
                }
                if target.epoch > item.epoch {
                    continue;
                }
                target.close(ctx);
                self.targets.remove(&part.volume);
            }
            let ended = self.ended.get(&part.volume).copied().unwrap_or(Epoch::ZERO);
            if item.serve && item.instance == self.instance && ended < item.epoch {
                let target = Target::start(part.volume, self.node, item.clone(), ctx);
                self.targets.insert(part.volume, target);
            }
        }
    }
}

fn settle_pool(disks: &mut Disks, item: &PoolItem, before: Option<&PoolState>) -> PoolState {
    // A disk may have come back under another path: the pool is known by its id.
    if let Some(disk) = disks.disk_of(item.id) {
        return match (disk.condition, before) {
            (Condition::Faulted, _) => PoolState::Faulted,
            (Condition::Absent, _) => PoolState::Missing,
            (Condition::Fine, Some(PoolState::Online)) => PoolState::Online,
            (Condition::Fine, _) => PoolState::Importing,
        };
    }
    if item.must_exist {
        return PoolState::Missing;
    }
    match item.disks.first().and_then(|path| disks.by_path.get_mut(path)) {
        None | Some(Disk { condition: Condition::Absent, .. }) => {
            PoolState::Refused("there is no such disk".into())
        }
        Some(Disk { condition: Condition::Faulted, .. }) => PoolState::Faulted,
        Some(Disk { pool: Some(_), .. }) => {
            PoolState::Refused("the disk carries another pool".into())
        }
        Some(disk) => {
            disk.pool = Some(PoolDisk::made(item.id));
            PoolState::Online
        }
    }
}

fn make(
    pool: &PoolDisk,
    free: Bytes,
    volume: model::VolumeId,
    item: &ReplicaItem,
) -> Result<ReplicaDisk, &'static str> {
    let blocks = match item.origin {
        None => [0; BLOCKS],
        Some(origin) => {
            pool.replicas
                .values()
                .find_map(|replica| replica.snapshots.get(&origin))
                .ok_or("the pool does not hold the snapshot")?
                .blocks
        }
    };
    let replica = ReplicaDisk {
        volume,
        size: item.size,
        thin: item.thin,
        epoch: item.admission.map_or(Epoch::ZERO, |admission| admission.epoch),
        admitted: item.admission.and_then(|admission| admission.node),
        roster: model::Roster::ZERO,
        members: std::collections::BTreeMap::new(),
        birth: None,
        blocks,
        snapshots: std::collections::BTreeMap::new(),
    };
    if replica.used() > free || free == Bytes::ZERO {
        return Err("no room");
    }
    Ok(replica)
}
