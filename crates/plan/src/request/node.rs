//! Requests about nodes.

use alloc::{format, string::String};

use model::{Key, Labels, Node, NodeId, Record, Txn, validate};

use super::{Refusal, may_name, not_found, refuse_unreadable};
use crate::{World, world::NodeView};

fn get(world: &World, id: NodeId) -> Result<&NodeView, Refusal> {
    world.node(id).ok_or_else(|| not_found(world, &Key::Node(id)))
}

pub(super) fn change(
    world: &World,
    id: NodeId,
    change: impl FnOnce(&mut Node),
) -> Result<Txn, Refusal> {
    let old = &get(world, id)?.record;
    let mut new = old.clone();
    change(&mut new);
    if new == *old {
        return Ok(Txn::default());
    }
    new.meta.spec_revision += 1;
    Ok(Txn::default().put(Key::Node(id), Record::Node(new.into()), old.meta.revision))
}

pub(super) fn label(world: &World, id: NodeId, labels: &Labels) -> Result<Txn, Refusal> {
    validate::labels("meta.labels", labels)?;
    change(world, id, |record| record.meta.labels.clone_from(labels))
}

/// Refused while it holds the last healthy copy of something.
pub(super) fn forget(world: &World, id: NodeId) -> Result<Txn, Refusal> {
    let name = &get(world, id)?.record.meta.name;
    for volume in world.index.volume_ids_on(id) {
        if let Some(name) = last_copy(world, volume, |replica| replica.node == id)? {
            let why = format!(
                "node {id} holds the last healthy copy of volume {name}; promote another copy of \
                 it, or delete it, first"
            );
            return Err(Refusal::Impossible { why });
        }
    }
    if let Some(found) = world.unreadable_on_nodes() {
        return Err(may_name(found, &format!("node {name}")));
    }
    change(world, id, |record| record.spec.forgotten = true)
}

/// The name of the volume if all its healthy copies that stay are among those named. Who is
/// healthy, only the membership record says; one that retires may leave it at any moment.
pub(super) fn last_copy(
    world: &World,
    volume: model::VolumeId,
    is_named: impl Fn(&model::Replica) -> bool,
) -> Result<Option<String>, Refusal> {
    let Some(view) = world.volume(volume).filter(|view| !view.record.spec.deleting) else {
        return Ok(None);
    };
    refuse_unreadable(world, &Key::Membership(volume))?;
    let Some(membership) = &view.membership else { return Ok(None) };
    let replicas = view.record.layout.replicas.iter();
    let mut healthy = replicas.filter(|replica| membership.is_healthy(replica.id)).peekable();
    if healthy.peek().is_none() {
        return Ok(None);
    }
    let stays = |replica: &model::Replica| {
        replica.stage != model::ReplicaStage::Retiring && !world.is_forgotten(replica)
    };
    let elsewhere = healthy.any(|replica| !is_named(replica) && stays(replica));
    Ok((!elsewhere).then(|| view.record.meta.name.clone()))
}
