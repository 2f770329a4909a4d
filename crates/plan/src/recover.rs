//! Rebuilding the records from what the pools carry, in a new era.
//!
//! Used when the store is empty, older than the pools, or another one; and again when pools return
//! that were away at that time. Nothing is destroyed: what the pools carry and the store lacks
//! comes back; a volume comes back by itself only if every member recorded healthy in the highest
//! roster seen is here, and otherwise waits for its pools or for a person who names it.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};

use model::{
    Buried, Cluster, Epoch, Era, Extra, Key, Labels, Mark, Membership, Meta, NodeId, Pool, PoolId,
    PoolLayout, PoolSpec, PoolStage, Record, ReplicaId, ReplicaSeen, ReplicaStage, Revision,
    Roster, SCHEMA, Snapshot, SnapshotId, SnapshotLayout, SnapshotSeen, SnapshotSpec,
    SnapshotStage, Subject, Txn, Undecodable, Volume, VolumeId, VolumeStage,
};

use crate::{Refusal, World, world::Verdict};

/// The transactions of a recovery, to be committed in order; the last one starts the new era, so
/// that a crash in between leaves the controller read-only and the recovery to be repeated.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    pub txns: Vec<Txn>,
    /// What the transactions do, for people.
    pub steps: Vec<Brought>,
    /// What was not brought back, and why.
    pub left_out: Vec<String>,
}

/// One thing that a recovery writes, and why it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    pub about: Subject,
    pub action: String,
    pub why: &'static str,
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
    let mut recovery = Recovery::default();
    recovery.pools(world)?;
    for (id, found) in find(world) {
        if is_in_question(world, id, &found) {
            refuse_unreadable(world.quarantine(Subject::Volume(id)))?;
            recovery.volume(world, id, &found, accept_data_loss.contains(&id));
        }
    }
    let is_idle = recovery.txns.is_empty() && recovery.left_out.is_empty();
    if is_idle && world.read_only().is_none() {
        let why = "the store and the pools agree: there is nothing to recover".into();
        return Err(Refusal::Impossible { why });
    }
    recovery.txns.push(new_era(world, era));
    let why = match world.read_only() {
        Some(_) => "the pools know more than this store does, or another one",
        None => "what comes back was made in another history than the store's",
    };
    let action = "start a new era, in which the controller may change things".into();
    recovery.step(Subject::Cluster, action, why);
    Ok(recovery)
}

/// Whether the store may be wrong about a volume. Of a store that agrees with its pools only what
/// an earlier recovery left out is in question.
fn is_in_question(world: &World, id: VolumeId, found: &Found<'_>) -> bool {
    if world.read_only().is_some() {
        return true;
    }
    match world.volume(id) {
        Some(view) => view.membership.as_ref().is_some_and(|kept| kept.healthy().next().is_none()),
        None => found.copies.values().any(|(_, seen)| !is_proven(world, seen.birth.as_ref())),
    }
}

/// Whether it lies in this store's past, so that the store's word about it counts.
fn is_proven(world: &World, mark: Option<&Mark>) -> bool {
    mark.zip(world.cluster.as_ref())
        .is_some_and(|(mark, cluster)| world.history.judge(mark, cluster) == Verdict::Proven)
}

fn find(world: &World) -> BTreeMap<VolumeId, Found<'_>> {
    let mut volumes: BTreeMap<VolumeId, Found<'_>> = BTreeMap::new();
    for (node, view) in &world.nodes {
        for (id, seen) in view.inventory.iter().flat_map(|inventory| &inventory.replicas) {
            // What a tombstone names was given up, whatever it carries.
            if view.tombstones.contains_key(&Buried::Replica { replica: *id, pool: seen.pool }) {
                continue;
            }
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

/// A record that does not decode is not one that is missing. Left out, it would be trusted as soon
/// as it can be read, although the copies may know more.
fn refuse_unreadable(found: Option<&Undecodable>) -> Result<(), Refusal> {
    found.map_or(Ok(()), |found| Err(Refusal::Unreadable { why: found.to_string() }))
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
    fn step(&mut self, about: Subject, action: String, why: &'static str) {
        self.steps.push(Brought { about, action, why });
    }

    /// Pools that engines found on their disks and the store does not know.
    fn pools(&mut self, world: &World) -> Result<(), Refusal> {
        for (node, view) in &world.nodes {
            for (id, seen) in view.inventory.iter().flat_map(|inventory| &inventory.pools) {
                let is_settled =
                    world.read_only().is_none() && is_proven(world, seen.mark.as_ref());
                // One that was deleted, and that its engine has not erased yet, stays deleted.
                let is_buried = view.tombstones.contains_key(&Buried::Pool { pool: *id });
                if world.pools.contains_key(id) || is_settled || is_buried {
                    continue;
                }
                refuse_unreadable(world.unreadable(&Key::Pool(*id)))?;
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
                let action = format!("bring its record back, on node {node}");
                let why = "its disks carry it and the store does not know it";
                self.step(Subject::Pool(*id), action, why);
            }
        }
        Ok(())
    }

    fn volume(&mut self, world: &World, id: VolumeId, found: &Found<'_>, accepted: bool) {
        let known = world.volume(id);
        let stored = known.map(|view| &view.record);
        let Some(carried) = found.newest.map(|(_, carried)| carried).or(stored) else { return };
        if carried.spec.deleting {
            self.left_out.push(format!("volume {}: it was being deleted", carried.meta.name));
            return;
        }
        let roster = Rostered::new(found);
        let absent = if accepted { Vec::new() } else { roster.absent(found) };
        let is_kept = absent.is_empty() && is_up_to_date(world, id, found, roster.top);
        if !absent.is_empty() {
            self.left_out.push(waits_for(carried, &absent));
        }
        // A record that the store kept must not speak for the copies that are here either.
        if !is_kept && (absent.is_empty() || known.is_some()) {
            self.write(world, carried, found, &roster, &absent);
            let lost = accepted && !roster.absent(found).is_empty();
            let why = match (absent.is_empty(), known.is_some()) {
                (false, _) => "a copy that is not here may hold newer data",
                (true, _) if lost => "the loss of newer data that is not here was accepted",
                (true, true) => "its copies know more of it than the store does",
                (true, false) => "its copies carry it and the store does not know it",
            };
            self.step(Subject::Volume(id), written(found, &absent), why);
        }
        // Also of a volume that the store knows all of: it may have lost the snapshot alone.
        if absent.is_empty() {
            self.snapshots(world, id, found);
        }
    }

    fn write(
        &mut self,
        world: &World,
        carried: &Volume,
        found: &Found<'_>,
        roster: &Rostered,
        absent: &[ReplicaId],
    ) {
        let id = carried.meta.id;
        let membership = membership(world, id, found, roster, absent);
        let volume = revived(world, carried, found, absent, membership.epoch);
        let name = volume.meta.name.clone();
        let key = Key::Volume(id);
        let (read_at, kept_at) =
            world.volume(id).map_or((Revision::ZERO, Revision::ZERO), |view| {
                let kept_at = view.membership.as_ref().map_or(Revision::ZERO, |m| m.revision);
                (view.record.meta.revision, kept_at)
            });
        let txn = Txn::default().put(key, Record::Volume(volume.into()), read_at).put(
            Key::Membership(id),
            Record::Membership(membership.into()),
            kept_at,
        );
        self.txns.push(with_name(world, txn, "volume", &name, &id.0));
    }

    fn snapshots(&mut self, world: &World, volume: VolumeId, found: &Found<'_>) {
        let mut seen: BTreeMap<SnapshotId, (&SnapshotSeen, BTreeSet<ReplicaId>)> = BTreeMap::new();
        for (replica, (node, copy)) in &found.copies {
            let tombstones = world.node(*node).map(|view| &view.tombstones);
            let is_buried = |snapshot: SnapshotId| {
                let buried = Buried::Snapshot { snapshot, replica: *replica, pool: copy.pool };
                tombstones.is_some_and(|tombstones| tombstones.contains_key(&buried))
            };
            for (id, held) in copy.snapshots.iter().filter(|(id, _)| !is_buried(**id)) {
                seen.entry(*id).or_insert((held, BTreeSet::new())).1.insert(*replica);
            }
        }
        for (id, (held, copies)) in seen {
            let is_unreadable = world.unreadable(&Key::Snapshot(id)).is_some();
            if world.snapshots.contains_key(&id) || is_unreadable {
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
            let why = "its copies carry it and the store does not know it";
            self.step(Subject::Snapshot(id), "bring its record back".into(), why);
        }
    }
}

/// The newest list of members that the copies which are here know of.
struct Rostered {
    top: Roster,
    members: BTreeMap<ReplicaId, bool>,
}

impl Rostered {
    fn new(found: &Found<'_>) -> Self {
        let top = found.copies.values().map(|(_, seen)| seen.roster).max().unwrap_or(Roster(1));
        let newest = found.copies.values().filter(|(_, seen)| seen.roster == top);
        let members = newest.flat_map(|(_, seen)| seen.members.iter().map(|(id, h)| (*id, *h)));
        Self { top, members: members.collect() }
    }

    /// Members that hold all data as far as anyone here knows, and are not here: they may have gone
    /// on alone.
    fn absent(&self, found: &Found<'_>) -> Vec<ReplicaId> {
        let healthy = self.members.iter().filter(|(_, healthy)| **healthy).map(|(id, _)| *id);
        healthy.filter(|id| !found.copies.contains_key(id)).collect()
    }
}

/// Whether the store knows all that the copies do.
fn is_up_to_date(world: &World, id: VolumeId, found: &Found<'_>, top: Roster) -> bool {
    let kept = world.volume(id).and_then(|view| view.membership.as_ref());
    kept.is_some_and(|kept| {
        let epochs = found.copies.values().all(|(_, seen)| seen.epoch <= kept.epoch);
        found.newest.is_none() && kept.roster >= top && epochs && kept.healthy().next().is_some()
    })
}

/// What becomes of a volume's record.
fn written(found: &Found<'_>, absent: &[ReplicaId]) -> String {
    if absent.is_empty() {
        let pools: BTreeSet<PoolId> = found.copies.values().map(|(_, seen)| seen.pool).collect();
        let named: Vec<String> = pools.iter().map(|pool| format!("pool {pool}")).collect();
        return format!("write its record as its copies have it: {}", named.join(", "));
    }
    "write that none of the copies here may serve it alone".into()
}

fn waits_for(carried: &Volume, absent: &[ReplicaId]) -> String {
    let missing: Vec<String> = absent
        .iter()
        .map(|id| match carried.replica(*id) {
            Some(replica) => format!("pool {}", replica.pool),
            None => format!("the pool of replica {id}"),
        })
        .collect();
    format!(
        "volume {}: {} held newer data and is not here; bring it back, or recover with data loss \
         accepted for it",
        carried.meta.name,
        missing.join(", ")
    )
}

/// The record of the highest roster seen, with an epoch above every one seen: whoever still serves
/// is fenced by the next target, and the copies are resynced before they are trusted. While a
/// member is absent that may have gone on alone, it alone counts; of several none does, since each
/// may be older than another, and only a recovery with all of them can tell.
fn membership(
    world: &World,
    id: VolumeId,
    found: &Found<'_>,
    Rostered { top, members }: &Rostered,
    absent: &[ReplicaId],
) -> Membership {
    let top = *top;
    let stored = world.volume(id).and_then(|view| view.membership.as_ref());
    let seen = found.copies.values().map(|(_, seen)| seen.epoch).max().unwrap_or(Epoch::ZERO);
    let is_here = |id: &ReplicaId| found.copies.contains_key(id);
    let listed = members.iter().filter(|(id, _)| is_here(id) || absent.contains(id));
    let mut children: BTreeMap<ReplicaId, bool> = listed
        .map(|(id, healthy)| match absent {
            [] => (*id, *healthy),
            [alone] => (*id, id == alone),
            _ => (*id, false),
        })
        .collect();
    if absent.is_empty() && !children.values().any(|healthy| *healthy) {
        // Only stale copies are here, and a person accepted the best of them.
        let best = found.copies.iter().max_by_key(|(_, (_, seen))| (seen.roster, seen.epoch));
        children.extend(best.map(|(id, _)| (*id, true)));
    }
    Membership {
        epoch: seen.max(stored.map_or(Epoch::ZERO, |stored| stored.epoch)).next(),
        roster: top.max(stored.map_or(Roster(1), |stored| stored.roster)).next(),
        clean: false,
        children,
        reserved: stored.and_then(|stored| stored.reserved.clone()),
        ..Membership::founded(id, [])
    }
}

/// The newest layout seen, as far as it can be true: replicas where they were found or are waited
/// for, no target, no
/// switchover. The hosts of the spec are admitted again by the rules.
fn revived(
    world: &World,
    carried: &Volume,
    found: &Found<'_>,
    absent: &[ReplicaId],
    epoch: Epoch,
) -> Volume {
    let known = |host: &model::HostId| {
        world.hosts.contains_key(host) || world.unreadable(&Key::Host(*host)).is_some()
    };
    let is_absent = |origin: SnapshotId| {
        !world.snapshots.contains_key(&origin) && world.unreadable(&Key::Snapshot(origin)).is_none()
    };
    let mut volume = carried.clone();
    let layout = &mut volume.layout;
    let stays = |id: &ReplicaId| found.copies.contains_key(id) || absent.contains(id);
    layout.replicas.retain(|replica| stays(&replica.id));
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
    volume.spec.publish = volume.spec.publish.filter(|publish| publish.hosts.iter().all(known));
    volume.layout.hosts.retain(|host, _| known(host));
    if volume.spec.origin.is_some_and(is_absent) {
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
    let spec = PoolSpec::new(node, Vec::new());
    Pool { meta, spec, layout: PoolLayout::default() }
}
