//! Starts a target at once, while copies may still obey the one before it.

use model::TargetStage;
use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("starts-unfenced", "starts a target before the copies admitted it", || {
        idle_volume(|_, volume| {
            let target = volume.layout.target.as_ref()?;
            (target.stage == TargetStage::Fencing).then_some(Action::StartTarget)
        })
    })
}
