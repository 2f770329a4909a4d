//! Requests about nodes.

use alloc::format;

use model::{Key, Labels, Node, NodeId, Record, Txn, validate};

use super::{Refusal, not_found};
use crate::{World, world::NodeView};

fn get(world: &World, id: NodeId) -> Result<&NodeView, Refusal> {
    world.node(id).ok_or_else(|| not_found("node", &id))
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
    get(world, id)?;
    for volume in world.index.volume_ids_on(id) {
        if let Some(name) = last_copy(world, volume, |replica| replica.node == id) {
            let why = format!(
                "node {id} holds the last healthy copy of volume {name}; promote another copy of \
                 it, or delete it, first"
            );
            return Err(Refusal::Impossible { why });
        }
    }
    change(world, id, |record| record.spec.forgotten = true)
}

/// The name of the volume if all its healthy copies are among those named.
pub(super) fn last_copy(
    world: &World,
    volume: model::VolumeId,
    is_named: impl Fn(&model::Replica) -> bool,
) -> Option<alloc::string::String> {
    let view = world.volume(volume)?;
    let membership = view.membership.as_ref()?;
    let mut healthy =
        view.record.layout.replicas.iter().filter(|r| membership.is_healthy(r.id)).peekable();
    healthy.peek()?;
    let elsewhere = healthy.any(|replica| !is_named(replica) && !world.is_forgotten(replica));
    (!elsewhere && !view.record.spec.deleting).then(|| view.record.meta.name.clone())
}
