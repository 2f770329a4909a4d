//! Goes on with a switchover at its last stage, wherever it was.

use model::SwitchoverStage;
use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("jumps-a-stage", "resumes a switchover at its last stage", || {
        idle_volume(|_, volume| match volume.layout.switchover.as_ref()?.stage {
            SwitchoverStage::RepublishVolume { epoch } => {
                let stage = SwitchoverStage::DeleteTarget { epoch };
                Some(Action::AdvanceSwitchover { stage })
            }
            _ => None,
        })
    })
}
