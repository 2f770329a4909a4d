//! From a step to the transaction that records it.
//!
//! Every record that is written is compared with the revision at which it was read; the leader's
//! guard is added by whoever commits. Each transaction carries the event that tells of it.

mod membership;
mod volume;

use alloc::{string::String, vec::Vec};

use model::{
    Buried, Compare, Key, NodeId, Record, Snapshot, SnapshotStage, Subject, Tombstone, Txn, Write,
};

use crate::{Action, Step, World};

/// The transaction of a step, or `None` if what it is about is not there any more.
pub fn apply(world: &World, step: &Step) -> Option<Txn> {
    match step.subject {
        Subject::Volume(id) => volume::apply(world, world.volume(id)?, &step.action),
        Subject::Snapshot(id) => snapshot(world, world.snapshots.get(&id)?, &step.action),
        Subject::Pool(_) => pool(world, step),
        Subject::Node(_) => node(world, step),
        Subject::Cluster => cluster(&step.action),
        Subject::Host(_) => None,
    }
}

/// Hands something to its node's tombstones; a forgotten or unknown node gets none. One whose
/// record does not decode gets it, and is told when the record can be read again.
fn bury(world: &World, txn: Txn, node: NodeId, buried: Buried) -> Txn {
    let reachable = match world.node(node) {
        Some(view) => !view.record.spec.forgotten,
        None => world.unreadable(&Key::Node(node)).is_some(),
    };
    let kept = buried.pool().is_none_or(|pool| match world.pools.get(&pool) {
        Some(view) => !view.record.spec.forgotten,
        None => world.unreadable(&Key::Pool(pool)).is_some(),
    });
    if !(reachable && kept) {
        return txn;
    }
    let tombstone = Tombstone::new(node, buried, world.now);
    txn.put_blind(Key::Tombstone(node, buried), Record::Tombstone(tombstone.into()))
}

fn snapshot(world: &World, old: &Snapshot, action: &Action) -> Option<Txn> {
    let key = Key::Snapshot(old.meta.id);
    let mut new = old.clone();
    let mut txn = Txn::default();
    match action {
        Action::FinishSnapshot { copies, size } => {
            new.layout.stage = SnapshotStage::Ready;
            new.layout.copies.clone_from(copies);
            new.layout.size = *size;
        }
        Action::UpdateCopies { copies } => new.layout.copies.clone_from(copies),
        Action::FailSnapshot { reason } => {
            txn = guard_volume(world, txn, old);
            new.layout.stage = SnapshotStage::Failed { reason: reason.clone() };
            txn = bury_copies(world, txn, old);
        }
        Action::DeleteSnapshot => {
            txn = guard_volume(world, bury_copies(world, txn, old), old);
            txn = txn.delete(key, old.meta.revision);
            return Some(release_name(world, txn, "snapshot", &old.meta.name, &old.meta.id.0));
        }
        _ => return None,
    }
    Some(txn.put(key, Record::Snapshot(new.into()), old.meta.revision))
}

/// The replicas must still be those that were told: one placed meanwhile may bring a copy along.
fn guard_volume(world: &World, txn: Txn, snapshot: &Snapshot) -> Txn {
    let key = Key::Volume(snapshot.spec.volume);
    let read_at = world.revision_of(&key);
    txn.guard(Compare::at(key, read_at))
}

/// Every replica of the volume may hold it, or a part of a failed attempt at it.
fn bury_copies(world: &World, mut txn: Txn, snapshot: &Snapshot) -> Txn {
    let volume = world.volume(snapshot.spec.volume);
    for replica in volume.into_iter().flat_map(|view| &view.record.layout.replicas) {
        let buried = Buried::Snapshot {
            snapshot: snapshot.meta.id,
            replica: replica.id,
            pool: replica.pool,
        };
        txn = bury(world, txn, replica.node, buried);
    }
    txn
}

/// Gives a name back if the resource still holds it.
fn release_name(
    world: &World,
    txn: Txn,
    kind: &str,
    name: &str,
    id: &impl core::fmt::Display,
) -> Txn {
    let key = Key::name(kind, name);
    let holder: Option<&String> = world.names.get(&(kind.into(), name.into()));
    if holder.is_some_and(|holder| *holder == alloc::format!("{id}")) {
        let read_at = world.revision_of(&key);
        txn.delete(key, read_at)
    } else {
        txn
    }
}

fn pool(world: &World, step: &Step) -> Option<Txn> {
    let Subject::Pool(id) = step.subject else { return None };
    let old = &world.pools.get(&id)?.record;
    let key = Key::Pool(id);
    let node = old.spec.node;
    match step.action {
        Action::ConfirmPool => {
            let mut new = old.clone();
            new.layout.stage = model::PoolStage::Ready;
            Some(Txn::default().put(key, Record::Pool(new.into()), old.meta.revision))
        }
        Action::DeletePool | Action::ForgetPool => {
            let mut txn = Txn::default();
            if step.action == Action::DeletePool {
                txn = bury(world, txn, node, Buried::Pool { pool: id });
            }
            // Whatever else was to be removed from it goes with it.
            let view = world.node(node);
            for tombstone in view.into_iter().flat_map(|view| view.tombstones.values()) {
                if tombstone.buried.pool() == Some(id) && txn.writes.len() < WRITES_AT_ONCE {
                    txn.writes.push(Write::delete(Key::Tombstone(node, tombstone.buried)));
                }
            }
            let txn = txn.delete(key, old.meta.revision);
            Some(release_name(world, txn, "pool", &old.meta.name, &id))
        }
        _ => None,
    }
}

/// Below the store's limit of operations in one transaction, with room for guards and the event.
const WRITES_AT_ONCE: usize = 64;

fn node(world: &World, step: &Step) -> Option<Txn> {
    let Subject::Node(id) = step.subject else { return None };
    let view = world.node(id)?;
    let key = Key::Node(id);
    let mut new = view.record.clone();
    match &step.action {
        Action::MarkNodeGone => new.layout.gone_since = Some(world.now),
        Action::MarkNodeReturned => new.layout.gone_since = None,
        Action::ClearTombstones { done } => {
            let known = done.iter().filter_map(|buried| view.tombstones.get(buried));
            return Some(known.fold(Txn::default(), |txn, tombstone| {
                txn.delete(Key::Tombstone(id, tombstone.buried), tombstone.revision)
            }));
        }
        Action::CollectOrphan { buried } => {
            // The record that would name it must still be absent when this commits.
            let txn = bury(world, Txn::default(), id, *buried);
            return Some(match buried {
                Buried::Target { volume, .. } => {
                    let read_at = world.revision_of(&Key::Volume(*volume));
                    txn.guard(Compare::at(Key::Volume(*volume), read_at))
                }
                _ => txn,
            });
        }
        Action::ForgetNode => {
            let buried: Vec<_> = view.tombstones.keys().take(WRITES_AT_ONCE).copied().collect();
            let mut txn = Txn::default();
            for buried in buried {
                txn.writes.push(Write::delete(Key::Tombstone(id, buried)));
            }
            if view.tombstones.len() > WRITES_AT_ONCE {
                return Some(txn.guard(Compare::at(key, view.record.meta.revision)));
            }
            let txn = txn.delete(key, view.record.meta.revision);
            return Some(release_name(world, txn, "node", &view.record.meta.name, &id));
        }
        _ => return None,
    }
    Some(Txn::default().put(key, Record::Node(new.into()), view.record.meta.revision))
}

fn cluster(action: &Action) -> Option<Txn> {
    let Action::PruneTerms { terms } = action else { return None };
    let writes = terms.iter().map(|number| Write::delete(Key::Term(*number))).collect();
    Some(Txn { compares: Vec::new(), writes })
}
