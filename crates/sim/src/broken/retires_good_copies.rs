//! Retires copies that are healthy and wanted.

use model::ReplicaStage;
use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("retires-good-copies", "retires a healthy copy that is wanted", || {
        idle_volume(|world, volume| {
            let membership = world.volume(volume.meta.id)?.membership.as_ref()?;
            let ready = volume.layout.replicas.iter().find(|replica| {
                replica.stage == ReplicaStage::Ready && membership.is_healthy(replica.id)
            })?;
            volume.layout.target.as_ref()?;
            Some(Action::RetireReplica { replica: ready.id })
        })
    })
}
