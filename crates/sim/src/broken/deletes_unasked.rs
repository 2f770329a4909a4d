//! Deletes volumes that nobody uses.

use model::VolumeStage;
use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("deletes-unasked", "deletes a volume that nobody asked to delete", || {
        idle_volume(|world, volume| {
            let layout = &volume.layout;
            let unused = layout.target.is_none() && layout.stage == VolumeStage::Created;
            let frozen =
                world.index.snapshots_of.get(&volume.meta.id).is_some_and(|s| !s.is_empty());
            (unused && !frozen).then_some(Action::DeleteVolume)
        })
    })
}
