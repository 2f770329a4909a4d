//! Requests about volumes.

use alloc::{collections::BTreeSet, format, string::ToString, vec::Vec};

use model::{
    Access, Buried, Bytes, Compare, Extra, HostId, Invalid, Key, Labels, Membership, Meta, PoolId,
    Promotion, Publish, Record, Replica, Revision, ShareSpec, SnapshotId, SnapshotStage,
    TargetStage, Txn, Volume, VolumeId, VolumeLayout, VolumeSpec, validate,
};

use super::{
    Drill, Refusal, claim_name, difference, may_name, not_found, refuse_buried, refuse_unreadable,
};
use crate::{
    World, mint,
    placement::{self, Ask},
    volume::Look,
    world::VolumeView,
};

/// The volume, if it is there and not on its way out.
pub(super) fn get(world: &World, id: VolumeId) -> Result<&VolumeView, Refusal> {
    let view = world.volume(id).ok_or_else(|| not_found(world, &Key::Volume(id)))?;
    if view.record.spec.deleting {
        let why = format!("volume {} is being deleted", view.record.meta.name);
        return Err(Refusal::Conflict { why });
    }
    Ok(view)
}

/// Writes a spec; nothing if it is the one there is.
fn write(view: &VolumeView, spec: VolumeSpec) -> Txn {
    if spec == view.record.spec {
        return Txn::default();
    }
    let mut new = view.record.clone();
    new.spec = spec;
    new.meta.spec_revision += 1;
    let key = Key::Volume(new.meta.id);
    Txn::default().put(key, Record::Volume(new.into()), view.record.meta.revision)
}

pub(super) fn create(
    world: &World,
    id: VolumeId,
    name: &str,
    labels: &Labels,
    spec: &VolumeSpec,
) -> Result<Txn, Refusal> {
    validate::name("meta.name", name)?;
    validate::labels("meta.labels", labels)?;
    spec.validate()?;
    refuse_given(spec)?;
    if let Some(view) = world.volume(id) {
        return repeated(world, view, name, labels, spec);
    }
    let is_it = |buried: &Buried| matches!(buried, Buried::Target { volume, .. } if *volume == id);
    refuse_buried(world, &id, is_it)?;
    let mut meta = Meta::new(id, name, world.now);
    meta.labels.clone_from(labels);
    let mut volume = Volume { meta, spec: spec.clone(), layout: VolumeLayout::default() };
    volume.layout.size = spec.size;
    volume.layout.exposed = spec.size;
    let mut count = usize::from(spec.replicas);
    let mut txn = Txn::default();
    let mut ask = Ask::new(world, &volume);
    if let Some(origin) = spec.origin {
        let pools = origin_pools(world, origin, spec)?;
        count = count.min(pools.len());
        ask.within = Some(pools);
        let read_at = world.revision_of(&Key::Snapshot(origin));
        txn = txn.guard(Compare::at(Key::Snapshot(origin), read_at));
    }
    let impossible = |wait: model::Wait| Refusal::Impossible { why: wait.to_string() };
    let places = match placement::place(world, &ask, count) {
        // A clone may start with fewer copies than wanted: the others are rebuilt from the first.
        Err(_) if spec.origin.is_some() => placement::place(world, &ask, 1).map_err(impossible)?,
        places => places.map_err(impossible)?,
    };
    let replicas: Vec<Replica> = (0..)
        .zip(places)
        .map(|(offset, (pool, node))| {
            Replica::placed(mint::replica_id(world, &volume, offset), pool, node)
        })
        .collect();
    volume.layout.placed = u32::try_from(replicas.len()).unwrap_or(u32::MAX);
    let membership = Membership::founded(id, replicas.iter().map(|replica| replica.id));
    volume.layout.replicas = replicas;
    let txn = claim_name(world, txn, "volume", name, &id)?;
    Ok(txn.put(Key::Volume(id), Record::Volume(volume.into()), Revision::ZERO).put(
        Key::Membership(id),
        Record::Membership(membership.into()),
        Revision::ZERO,
    ))
}

/// What other requests give a volume is not given at its birth; left out silently, it would be
/// missed later.
fn refuse_given(spec: &VolumeSpec) -> Result<(), Invalid> {
    let given = [
        ("spec.publish", spec.publish.is_some(), "make it first, then publish it"),
        ("spec.share", spec.share.is_some(), "make it first, then share it"),
        ("spec.promote", spec.promote.is_some(), "a new volume has nothing to promote"),
        ("spec.severed", !spec.severed.is_empty(), "a new volume has no hosts"),
        ("spec.deleting", spec.deleting, "a new volume is not deleted"),
    ];
    let wrong = given.into_iter().find(|(_, is_given, _)| *is_given);
    wrong.map_or(Ok(()), |(field, _, why)| {
        Err(Invalid::new(field, "a value at its birth", format!("left out: {why}")))
    })
}

/// A repeated create succeeds if it asks for the same. It never changes what is there.
fn repeated(
    world: &World,
    view: &VolumeView,
    name: &str,
    labels: &Labels,
    spec: &VolumeSpec,
) -> Result<Txn, Refusal> {
    let old = &get(world, view.record.meta.id)?.record;
    let differences = difference::of_volume(old, name, labels, spec);
    if differences.is_empty() {
        return Ok(Txn::default());
    }
    let age = world.now.since(old.meta.created);
    Err(Refusal::Exists { what: format!("volume {}", old.meta.name), age, differences })
}

/// The pools that hold the snapshot a volume starts from.
fn origin_pools(
    world: &World,
    origin: SnapshotId,
    spec: &VolumeSpec,
) -> Result<BTreeSet<PoolId>, Refusal> {
    let found = world.snapshots.get(&origin);
    let snapshot = found.ok_or_else(|| not_found(world, &Key::Snapshot(origin)))?;
    if snapshot.layout.stage != SnapshotStage::Ready || snapshot.spec.deleting {
        let why = format!("snapshot {} is not ready", snapshot.meta.name);
        return Err(Refusal::Conflict { why });
    }
    if spec.size < snapshot.layout.size {
        let limit = format!("at least the snapshot's {}", snapshot.layout.size);
        return Err(Invalid::new("spec.size", spec.size, limit).into());
    }
    // Where its copies are, only the record of its volume says.
    refuse_unreadable(world, &Key::Volume(snapshot.spec.volume))?;
    let pools = world.pools_holding(origin);
    if pools.is_empty() {
        let why = format!("no pool is known to hold snapshot {}", snapshot.meta.name);
        return Err(Refusal::Impossible { why });
    }
    Ok(pools)
}

/// The hosts that were given a volume: they are published to, or mount it. One that was told to
/// leave has it no longer, whether or not it has answered.
pub fn volume_users(volume: &Volume) -> BTreeSet<HostId> {
    let spec = &volume.spec;
    let published = spec.publish.iter().filter(|publish| {
        // A failed attempt was withdrawn.
        !matches!(&volume.layout.publication,
            model::Publication::Failed { attempt, .. } if *attempt == publish.attempt)
    });
    let published = published.flat_map(|publish| &publish.hosts);
    published.chain(spec.share.iter().flat_map(|share| &share.consumers)).copied().collect()
}

/// Their data would be destroyed under them.
pub(super) fn refuse_users(world: &World, view: &VolumeView) -> Result<(), Refusal> {
    let hosts = volume_users(&view.record);
    let Some(first) = hosts.first() else { return Ok(()) };
    let named = |host: &HostId| {
        world.hosts.get(host).map_or_else(|| host.to_string(), |v| v.record.meta.name.clone())
    };
    let (name, first) = (&view.record.meta.name, named(first));
    let how = if view.record.spec.share.is_some() {
        format!("`holdfast share {name}`, which ends its share,")
    } else {
        format!("`holdfast unpublish {name} --host {first}`")
    };
    let all: Vec<_> = hosts.iter().map(|host| format!("host {}", named(host))).collect();
    let by = format!(
        "{}, which has volume {name}: {how} first, or delete it with --force, which destroys its \
         data under that host",
        all.join(", ")
    );
    Err(Refusal::InUse { by })
}

pub(super) fn delete(world: &World, id: VolumeId, with_snapshots: bool) -> Result<Txn, Refusal> {
    let view = world.volume(id).ok_or_else(|| not_found(world, &Key::Volume(id)))?;
    if view.record.spec.deleting {
        return Ok(Txn::default());
    }
    let mut snapshots = world.index.snapshots_of.get(&id).into_iter().flatten();
    let first = snapshots.find_map(|snapshot| world.snapshots.get(snapshot));
    if let Some(snapshot) = first.filter(|_| !with_snapshots) {
        let by = format!("snapshot {}; delete it first, or with the volume", snapshot.meta.name);
        return Err(Refusal::InUse { by });
    }
    if let Some(found) = world.unreadable_snapshot().filter(|_| !with_snapshots) {
        return Err(may_name(found, &format!("volume {}", view.record.meta.name)));
    }
    let txn = write(view, VolumeSpec { deleting: true, ..view.record.spec.clone() });
    // The name is free at once: a new volume under it has another id, and so another NQN.
    let key = Key::name("volume", &view.record.meta.name);
    let held = world.names.get(&("volume".to_string(), view.record.meta.name.clone()));
    if held.is_some_and(|held| *held == id.to_string()) {
        let read_at = world.revision_of(&key);
        return Ok(txn.delete(key, read_at));
    }
    Ok(txn)
}

pub(super) fn scale(world: &World, id: VolumeId, replicas: u8) -> Result<Txn, Refusal> {
    let view = get(world, id)?;
    let spec = VolumeSpec { replicas, ..view.record.spec.clone() };
    spec.validate()?;
    Ok(write(view, spec))
}

pub(super) fn resize(world: &World, id: VolumeId, size: Bytes) -> Result<Txn, Refusal> {
    let view = get(world, id)?;
    let old = &view.record;
    if size < old.spec.size {
        let limit = format!("at least the present {}: volumes do not shrink", old.spec.size);
        return Err(Invalid::new("spec.size", size, limit).into());
    }
    let spec = VolumeSpec { size, ..old.spec.clone() };
    spec.validate()?;
    let needed = size.saturating_sub(old.layout.size);
    let tight = old.layout.replicas.iter().find(|replica| {
        !spec.thin && !world.is_forgotten(replica) && world.room(replica.pool) < needed
    });
    if let Some(replica) = tight {
        let why = format!(
            "pool {} has room for {}, and {needed} more are needed",
            replica.pool,
            world.room(replica.pool)
        );
        return Err(Refusal::Impossible { why });
    }
    Ok(write(view, spec))
}

pub(super) fn publish(world: &World, id: VolumeId, publish: Publish) -> Result<Txn, Refusal> {
    let view = get(world, id)?;
    let old = &view.record.spec;
    if let Some(known) = &old.publish {
        if known.attempt == publish.attempt && known.hosts == publish.hosts {
            return Ok(Txn::default());
        }
        let failed = matches!(&view.record.layout.publication,
            model::Publication::Failed { attempt, .. } if *attempt == known.attempt);
        if old.access == Access::Exclusive && known.hosts != publish.hosts && !failed {
            let why = "it is published to another host: unpublish it there first".to_string();
            return Err(Refusal::Conflict { why });
        }
    }
    if old.share.is_some() || view.record.layout.share.is_some() {
        let why = "it is shared: its server has it".to_string();
        return Err(Refusal::Conflict { why });
    }
    if view.record.layout.publication.attempt() == Some(publish.attempt) {
        let why = format!("attempt {} was used before: make a new one", publish.attempt);
        return Err(Refusal::Conflict { why });
    }
    publish.validate(old.access, world.now)?;
    if let Some(host) = publish.hosts.iter().find(|host| !world.hosts.contains_key(host)) {
        return Err(not_found(world, &Key::Host(*host)));
    }
    let mut spec = old.clone();
    spec.severed.retain(|host| !publish.hosts.contains(host));
    spec.publish = Some(publish);
    Ok(write(view, spec))
}

pub(super) fn unpublish(
    world: &World,
    id: VolumeId,
    host: HostId,
    force: bool,
) -> Result<Txn, Refusal> {
    let view = get(world, id)?;
    let mut spec = view.record.spec.clone();
    if let Some(publish) = &mut spec.publish {
        publish.hosts.remove(&host);
        if publish.hosts.is_empty() {
            spec.publish = None;
        }
    }
    if force && view.record.layout.hosts.contains_key(&host) {
        spec.severed.insert(host);
    }
    Ok(write(view, spec))
}

pub(super) fn share(
    world: &World,
    id: VolumeId,
    consumers: &BTreeSet<HostId>,
) -> Result<Txn, Refusal> {
    let view = get(world, id)?;
    let mut spec = view.record.spec.clone();
    if spec.publish.is_some() {
        let why = "it is published to a host: unpublish it first".to_string();
        return Err(Refusal::Conflict { why });
    }
    if let Some(host) = consumers.iter().find(|host| !world.hosts.contains_key(host)) {
        return Err(not_found(world, &Key::Host(*host)));
    }
    spec.share = (!consumers.is_empty())
        .then(|| ShareSpec { consumers: consumers.clone(), extra: Extra::new() });
    Ok(write(view, spec))
}

/// A drill is for what is in order; what is not has its emergency already.
pub(super) fn drill(world: &World, id: VolumeId, drill: &Drill) -> Result<Txn, Refusal> {
    let view = get(world, id)?;
    let Drill::Strike { on_last_copy } = drill else { return Ok(Txn::default()) };
    let layout = &view.record.layout;
    let impossible = |why: &str| Err(Refusal::Impossible { why: why.to_string() });
    if layout.switchover.is_some() {
        return impossible("its target is on the move: wait until that has ended");
    }
    if layout.target.as_ref().is_none_or(|target| target.stage != TargetStage::Serving) {
        return impossible("no target of it serves: publish it first");
    }
    let healthy = world.redundancy(view.record.meta.id);
    if healthy < 2 && !on_last_copy {
        let why = "it has no second healthy copy: if the one there is fails meanwhile, its data is \
                   lost; wait until it is healed, or say that it shall be done on the last copy";
        return impossible(why);
    }
    Ok(Txn::default())
}

pub(super) fn promote(
    world: &World,
    id: VolumeId,
    promotion: Promotion,
    accepted: bool,
) -> Result<Txn, Refusal> {
    let view = get(world, id)?;
    if !accepted {
        let limit = "true: writes that only the lost copies had are gone for good";
        return Err(Invalid::new("accept_data_loss", false, limit).into());
    }
    if view.record.layout.promotions.contains(&promotion.attempt) {
        return Ok(Txn::default());
    }
    refuse_unreadable(world, &Key::Membership(view.record.meta.id))?;
    let Some(membership) = &view.membership else {
        let why = "its membership record is missing: recover it first".to_string();
        return Err(Refusal::Impossible { why });
    };
    let look = Look::new(world, &view.record, membership);
    if let Some(copy) = look.copies.iter().find(|copy| copy.healthy && copy.loss().is_none()) {
        let why = format!(
            "replica {} holds all data and is not lost: nothing needs to be given up",
            copy.replica.id
        );
        return Err(Refusal::Impossible { why });
    }
    if let Some(id) = promotion.replica
        && look.copy(id).is_none()
    {
        return Err(Refusal::NotFound { what: format!("replica {id}") });
    }
    Ok(write(view, VolumeSpec { promote: Some(promotion), ..view.record.spec.clone() }))
}
