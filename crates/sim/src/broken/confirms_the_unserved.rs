//! Sends hosts to a target that has not said that it serves.

use model::TargetStage;
use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("confirms-the-unserved", "calls a target serving that only starts", || {
        idle_volume(|_, volume| {
            let target = volume.layout.target.as_ref()?;
            (target.stage == TargetStage::Starting).then_some(Action::ConfirmTarget)
        })
    })
}
