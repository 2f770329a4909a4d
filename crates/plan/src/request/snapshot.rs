//! Requests about snapshots.

use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString},
};

use model::{
    AttemptId, Buried, Extra, Invalid, Key, Meta, Record, Snapshot, SnapshotId, SnapshotLayout,
    SnapshotSpec, SnapshotStage, Time, Txn, VolumeId, limits::SNAPSHOTS_PER_VOLUME_MAX, validate,
};

use super::{Refusal, claim_name, may_name, not_found, refuse_buried, volume};
use crate::World;

pub(super) fn create(
    world: &World,
    id: SnapshotId,
    name: &str,
    source: VolumeId,
    attempt: AttemptId,
    deadline: Time,
) -> Result<Txn, Refusal> {
    validate::name("meta.name", name)?;
    if let Some(known) = world.snapshots.get(&id) {
        let same = known.spec.volume == source
            && known.spec.attempt == attempt
            && known.meta.name == name
            && !known.spec.deleting;
        return if same { Ok(Txn::default()) } else { Err(taken(world, known)) };
    }
    if let Some(known) = named(world, name) {
        return Err(taken(world, known));
    }
    refuse_buried(
        world,
        &id,
        |buried| matches!(buried, Buried::Snapshot { snapshot, .. } if *snapshot == id),
    )?;
    validate::deadline("spec.deadline", deadline, world.now)?;
    let view = volume::get(world, source)?;
    let count = world.index.snapshots_of.get(&source).map_or(0, BTreeSet::len);
    if count >= SNAPSHOTS_PER_VOLUME_MAX {
        let limit = format!("at most {SNAPSHOTS_PER_VOLUME_MAX} for one volume");
        return Err(Invalid::new("snapshots", count + 1, limit).into());
    }
    let spec =
        SnapshotSpec { volume: source, attempt, deadline, deleting: false, extra: Extra::new() };
    let meta = Meta::new(id, name, world.now);
    let record = Snapshot { meta, spec, layout: SnapshotLayout::default() };
    let txn = Txn::default()
        .put(Key::Snapshot(id), Record::Snapshot(record.into()), model::Revision::ZERO)
        .guard(model::Compare::at(Key::Volume(source), view.record.meta.revision));
    claim_name(world, txn, "snapshot", name, &id)
}

fn named<'a>(world: &'a World, name: &str) -> Option<&'a Snapshot> {
    let id = world.names.get(&("snapshot".to_string(), name.to_string()))?;
    world.snapshots.get(&id.parse().ok()?)
}

/// Of a name that another snapshot has: whoever takes one every night under the same name must hear
/// that none was taken.
fn taken(world: &World, known: &Snapshot) -> Refusal {
    let name = &known.meta.name;
    let volume = world.volume(known.spec.volume).map(|view| view.record.meta.name.clone());
    let volume = volume.unwrap_or_else(|| known.spec.volume.to_string());
    let age = world.now.since(known.meta.created);
    let (state, next) = match &known.layout.stage {
        _ if known.spec.deleting => ("is being deleted", String::from("wait until it is gone")),
        SnapshotStage::Ready => ("was taken", again(name)),
        SnapshotStage::Taking => ("is being taken", again(name)),
        SnapshotStage::Failed { .. } => ("failed", again(name)),
    };
    let why = format!(
        "the name {name:?} is taken, and no snapshot was made: snapshot {name} of volume {volume} \
         {state}, asked for {age} ago; {next}"
    );
    Refusal::Conflict { why }
}

fn again(name: &str) -> String {
    format!("give each snapshot a name of its own, or `holdfast delete snapshot {name}` first")
}

pub(super) fn delete(world: &World, id: SnapshotId) -> Result<Txn, Refusal> {
    let old = world.snapshots.get(&id).ok_or_else(|| not_found(world, &Key::Snapshot(id)))?;
    if old.spec.deleting {
        return Ok(Txn::default());
    }
    // A clone that is still being made needs the snapshot in its pools.
    let clones = world.index.clones_of.get(&id).into_iter().flatten();
    let young = clones.filter_map(|clone| world.volume(*clone)).find(|view| {
        view.record.layout.stage == model::VolumeStage::Creating && !view.record.spec.deleting
    });
    if let Some(view) = young {
        let by = format!("volume {}, which is being made from it", view.record.meta.name);
        return Err(Refusal::InUse { by });
    }
    if let Some(found) = world.unreadable_clone() {
        return Err(may_name(found, &format!("snapshot {}", old.meta.name)));
    }
    let mut new = old.clone();
    new.spec.deleting = true;
    new.meta.spec_revision += 1;
    Ok(Txn::default().put(Key::Snapshot(id), Record::Snapshot(new.into()), old.meta.revision))
}
