//! Requests about nodes.

use alloc::format;

use model::{Key, Labels, Node, NodeId, Record, Txn, validate};

use super::{Refusal, Request, not_found};
use crate::{World, world::NodeView};

pub(super) fn admit(world: &World, request: &Request) -> Result<Txn, Refusal> {
    match request {
        Request::LabelNode { node, if_spec, labels } => label(world, *node, *if_spec, labels),
        Request::CordonNode { node, cordoned } => {
            change(world, *node, |record| record.spec.cordoned = *cordoned)
        }
        Request::DrainNode { node, draining } => {
            change(world, *node, |record| record.spec.draining = *draining)
        }
        Request::ForgetNode { node } => forget(world, *node),
        _ => Ok(Txn::default()),
    }
}

fn get(world: &World, id: NodeId) -> Result<&NodeView, Refusal> {
    world.node(id).ok_or_else(|| not_found("node", &id))
}

fn change(world: &World, id: NodeId, change: impl FnOnce(&mut Node)) -> Result<Txn, Refusal> {
    let old = &get(world, id)?.record;
    let mut new = old.clone();
    change(&mut new);
    if new == *old {
        return Ok(Txn::default());
    }
    new.meta.spec_revision += 1;
    Ok(Txn::default().put(Key::Node(id), Record::Node(new.into()), old.meta.revision))
}

/// Labels are read, changed and written whole: who read older ones must read again.
fn label(world: &World, id: NodeId, if_spec: Option<u64>, labels: &Labels) -> Result<Txn, Refusal> {
    validate::labels("meta.labels", labels)?;
    let now = get(world, id)?.record.meta.spec_revision;
    if let Some(seen) = if_spec.filter(|seen| *seen != now) {
        let why = format!("the spec is at revision {now}, not {seen}: read it again");
        return Err(Refusal::Conflict { why });
    }
    change(world, id, |record| record.meta.labels.clone_from(labels))
}

/// Refused while it holds the last healthy copy of something.
fn forget(world: &World, id: NodeId) -> Result<Txn, Refusal> {
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
