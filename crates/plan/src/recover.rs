//! Rebuilding the records from what the pools carry, in a new era.
//!
//! Used when the store is empty, older than the pools, or another one. Nothing is destroyed: what the
//! pools carry and the store lacks comes back; a volume comes back by itself only if every member
//! recorded healthy in the highest roster seen is here, and otherwise waits for its pools or for a
//! person who names it.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use model::{
    Cluster, Epoch, Era, Extra, Key, Labels, Membership, Meta, NodeId, Pool, PoolId, PoolLayout,
    PoolSpec, PoolStage, Record, ReplicaId, ReplicaSeen, ReplicaStage, Revision, Roster, SCHEMA,
    Snapshot, SnapshotId, SnapshotLayout, SnapshotSeen, SnapshotSpec, SnapshotStage, Txn, Volume,
    VolumeId, VolumeStage,
};

use crate::{Refusal, World};

/// The transactions of a recovery, to be committed in order; the last one starts the new era, so that
/// a crash in between leaves the controller read-only and the recovery to be repeated.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    pub txns: Vec<Txn>,
    /// What was not brought back, and why.
    pub left_out: Vec<String>,
}

/// What the reporting engines have of one volume.
#[derive(Default)]
struct Found<'a> {
    copies: BTreeMap<ReplicaId, (NodeId, &'a ReplicaSeen)>,
    newest: Option<(Revision, &'a Volume)>,
}

pub fn recover(
    world: &World,
    era: Era,
    accept_data_loss: &BTreeSet<VolumeId>,
) -> Result<Recovery, Refusal> {
    if world.read_only().is_none() {
        let why = "the store and the pools agree: there is nothing to recover".into();
        return Err(Refusal::Impossible { why });
    }
    let mut recovery = Recovery::default();
    recovery.pools(world);
    for (id, found) in find(world) {
        recovery.volume(world, id, &found, accept_data_loss.contains(&id));
    }
    recovery.txns.push(new_era(world, era));
    Ok(recovery)
}

fn find(world: &World) -> BTreeMap<VolumeId, Found<'_>> {
    let mut volumes: BTreeMap<VolumeId, Found<'_>> = BTreeMap::new();
    for (node, view) in &world.nodes {
        for (id, seen) in view.inventory.iter().flat_map(|inventory| &inventory.replicas) {
            let found = volumes.entry(seen.volume).or_default();
            found.copies.insert(*id, (*node, seen));
            if let Some((revision, volume)) = &seen.carried
                && found.newest.is_none_or(|(newest, _)| newest < *revision)
            {
                found.newest = Some((*revision, volume));
            }
        }
    }
    volumes
}

fn new_era(world: &World, era: Era) -> Txn {
    let mut former: BTreeSet<Era> = BTreeSet::new();
    if let Some(cluster) = &world.cluster {
        former.insert(cluster.era);
        former.extend(&cluster.former);
    }
    let inventories = world.nodes.values().filter_map(|view| view.inventory.as_ref());
    let marks = inventories.flat_map(|inventory| inventory.pools.values());
    former.extend(marks.filter_map(|seen| seen.mark.as_ref()).map(|mark| mark.era));
    former.remove(&era);
    let former = former.into_iter().collect();
    let cluster = Cluster { era, schema: SCHEMA, former, extra: Extra::new() };
    Txn::default().put(Key::Cluster, Record::Cluster(cluster), world.revision_of(&Key::Cluster))
}

impl Recovery {
    /// Pools that engines found on their disks and the store does not know.
    fn pools(&mut self, world: &World) {
        for (node, view) in &world.nodes {
            for (id, seen) in view.inventory.iter().flat_map(|inventory| &inventory.pools) {
                if world.pools.contains_key(id) {
                    continue;
                }
                let carried = seen.carried.as_deref().cloned();
                let mut pool = carried.unwrap_or_else(|| nameless(*id, *node));
                pool.spec.node = *node;
                pool.spec.deleting = false;
                pool.spec.forgotten = false;
                pool.layout.stage = PoolStage::Ready;
                let name = free_name(world, "pool", &pool.meta.name, &id.0);
                pool.meta.name.clone_from(&name);
                let txn = Txn::default().put(
                    Key::Pool(*id),
                    Record::Pool(Box::new(pool)),
                    Revision::ZERO,
                );
                self.txns.push(with_name(world, txn, "pool", &name, &id.0));
            }
        }
    }

    fn volume(&mut self, world: &World, id: VolumeId, found: &Found<'_>, accepted: bool) {
        let known = world.volume(id);
        let Some((_, carried)) = found.newest else { return };
        if carried.spec.deleting {
            self.left_out.push(format!("volume {}: it was being deleted", carried.meta.name));
            return;
        }
        let top = found.copies.values().map(|(_, seen)| seen.roster).max().unwrap_or(Roster(1));
        let members: BTreeMap<ReplicaId, bool> = found
            .copies
            .values()
            .filter(|(_, seen)| seen.roster == top)
            .flat_map(|(_, seen)| seen.members.iter().map(|(id, healthy)| (*id, *healthy)))
            .collect();
        let absent: Vec<&ReplicaId> = members
            .iter()
            .filter(|(id, healthy)| **healthy && !found.copies.contains_key(id))
            .map(|(id, _)| id)
            .collect();
        if !absent.is_empty() && !accepted {
            let missing: Vec<String> = absent
                .iter()
                .map(|id| match carried.replica(**id) {
                    Some(replica) => format!("pool {}", replica.pool),
                    None => format!("the pool of replica {id}"),
                })
                .collect();
            let name = &carried.meta.name;
            self.left_out.push(format!(
                "volume {name}: {} held newer data and is not here; bring it back, or recover with \
                 data loss accepted for it",
                missing.join(", ")
            ));
            return;
        }
        let membership = membership(world, id, found, top, &members);
        let volume = revived(world, carried, found, membership.epoch);
        let name = volume.meta.name.clone();
        let key = Key::Volume(id);
        let (read_at, kept_at) = known.map_or((Revision::ZERO, Revision::ZERO), |view| {
            let kept_at = view.membership.as_ref().map_or(Revision::ZERO, |m| m.revision);
            (view.record.meta.revision, kept_at)
        });
        let txn = Txn::default().put(key, Record::Volume(volume.into()), read_at).put(
            Key::Membership(id),
            Record::Membership(membership.into()),
            kept_at,
        );
        self.txns.push(with_name(world, txn, "volume", &name, &id.0));
        self.snapshots(world, id, found);
    }

    fn snapshots(&mut self, world: &World, volume: VolumeId, found: &Found<'_>) {
        let mut seen: BTreeMap<SnapshotId, (&SnapshotSeen, BTreeSet<ReplicaId>)> = BTreeMap::new();
        for (replica, (_, copy)) in &found.copies {
            for (id, held) in &copy.snapshots {
                seen.entry(*id).or_insert((held, BTreeSet::new())).1.insert(*replica);
            }
        }
        for (id, (held, copies)) in seen {
            if world.snapshots.contains_key(&id) {
                continue;
            }
            let name = free_name(world, "snapshot", &held.name, &id.0);
            let spec = SnapshotSpec {
                volume,
                attempt: held.attempt,
                deadline: world.now,
                deleting: false,
                extra: Extra::new(),
            };
            let layout = SnapshotLayout {
                stage: SnapshotStage::Ready,
                size: held.size,
                copies,
                extra: Extra::new(),
            };
            let meta = Meta::new(id, name.clone(), world.now);
            let record = Snapshot { meta, spec, layout };
            let txn = Txn::default().put(
                Key::Snapshot(id),
                Record::Snapshot(record.into()),
                Revision::ZERO,
            );
            self.txns.push(with_name(world, txn, "snapshot", &name, &id.0));
        }
    }
}

/// The record of the highest roster seen, with an epoch above every one seen: whoever still serves is
/// fenced by the next target, and the copies are resynced before they are trusted.
fn membership(
    world: &World,
    id: VolumeId,
    found: &Found<'_>,
    top: Roster,
    members: &BTreeMap<ReplicaId, bool>,
) -> Membership {
    let stored = world.volume(id).and_then(|view| view.membership.as_ref());
    let seen = found.copies.values().map(|(_, seen)| seen.epoch).max().unwrap_or(Epoch::ZERO);
    let present = members.iter().filter(|(id, _)| found.copies.contains_key(id));
    let mut children: BTreeMap<ReplicaId, bool> =
        present.map(|(id, healthy)| (*id, *healthy)).collect();
    if !children.values().any(|healthy| *healthy) {
        // Only stale copies are here, and a person accepted the best of them.
        let best = found.copies.iter().max_by_key(|(_, (_, seen))| (seen.roster, seen.epoch));
        children.extend(best.map(|(id, _)| (*id, true)));
    }
    Membership {
        epoch: seen.max(stored.map_or(Epoch::ZERO, |stored| stored.epoch)).next(),
        roster: top.max(stored.map_or(Roster(1), |stored| stored.roster)).next(),
        clean: false,
        children,
        ..Membership::founded(id, [])
    }
}

/// The newest layout seen, as far as it can be true: replicas where they were found, no target, no
/// switchover. The hosts of the spec are admitted again by the rules.
fn revived(world: &World, carried: &Volume, found: &Found<'_>, epoch: Epoch) -> Volume {
    let mut volume = carried.clone();
    let layout = &mut volume.layout;
    layout.replicas.retain(|replica| found.copies.contains_key(&replica.id));
    for replica in &mut layout.replicas {
        if let Some((node, seen)) = found.copies.get(&replica.id) {
            replica.node = *node;
            replica.pool = seen.pool;
        }
        replica.stage = ReplicaStage::Ready;
        replica.rebuilding = false;
        replica.gone_since = None;
        replica.rebuild_after = None;
    }
    layout.stage = VolumeStage::Created;
    layout.epoch = epoch;
    layout.target = None;
    layout.old_targets.clear();
    layout.switchover = None;
    volume.spec.publish = volume
        .spec
        .publish
        .filter(|publish| publish.hosts.iter().all(|host| world.hosts.contains_key(host)));
    let known = |host: &model::HostId| world.hosts.contains_key(host);
    volume.layout.hosts.retain(|host, _| known(host));
    if volume.spec.origin.is_some_and(|origin| !world.snapshots.contains_key(&origin)) {
        volume.spec.origin = None;
    }
    volume.meta.name = free_name(world, "volume", &carried.meta.name, &carried.meta.id.0);
    volume
}

/// A name that is free, or held by this very resource.
fn free_name(world: &World, kind: &str, name: &str, id: &impl core::fmt::Display) -> String {
    match world.names.get(&(kind.into(), name.into())) {
        Some(holder) if *holder != format!("{id}") => format!("recovered-{id}"),
        _ => name.into(),
    }
}

fn with_name(world: &World, txn: Txn, kind: &str, name: &str, id: &impl core::fmt::Display) -> Txn {
    let key = Key::name(kind, name);
    if world.names.contains_key(&(kind.into(), name.into())) {
        return txn;
    }
    txn.put(key, Record::Name(format!("{id}")), Revision::ZERO)
}

/// A pool whose own record was lost with everything else.
fn nameless(id: PoolId, node: NodeId) -> Pool {
    let mut meta = Meta::new(id, format!("recovered-{id}"), model::Time::default());
    meta.labels = Labels::new();
    let spec = PoolSpec {
        node,
        disks: Vec::new(),
        deleting: false,
        forgotten: false,
        extra: Extra::new(),
    };
    Pool { meta, spec, layout: PoolLayout::default() }
}
