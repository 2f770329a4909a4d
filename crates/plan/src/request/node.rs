//! Requests about nodes.

use alloc::{format, string::String};

use model::{Key, Labels, Liveness, Node, NodeId, Record, Txn, validate};

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

/// Refused while it lives, and while it holds the last healthy copy of something.
pub(super) fn forget(world: &World, id: NodeId) -> Result<Txn, Refusal> {
    let view = get(world, id)?;
    let name = &view.record.meta.name;
    if view.record.spec.forgotten {
        return Ok(Txn::default());
    }
    refuse_living(view)?;
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

/// Only what will never return is forgotten: a living node would stand there with disks that nobody
/// has a record of.
fn refuse_living(view: &NodeView) -> Result<(), Refusal> {
    let name = &view.record.meta.name;
    let why = match view.liveness {
        Liveness::Dead => return Ok(()),
        Liveness::Alive => format!(
            "node {name} is alive: its engine reports to the controllers, and only a machine that \
             will never return is forgotten; to take it out of the cluster, `holdfast drain \
             {name}`, stop its engine, then forget it"
        ),
        Liveness::Unknown => format!(
            "it is not known yet whether node {name} is alive: the controller has not waited for \
             it long enough; ask again in a few seconds"
        ),
    };
    Err(Refusal::Impossible { why })
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
