//! Removes old targets before the hosts have moved to the new one.

use model::SwitchoverStage;
use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("leaves-hosts-behind", "does not wait for hosts to change paths", || {
        idle_volume(|_, volume| match volume.layout.switchover.as_ref()?.stage {
            SwitchoverStage::ReplacePath { epoch } => {
                let stage = SwitchoverStage::DeleteTarget { epoch };
                Some(Action::AdvanceSwitchover { stage })
            }
            _ => None,
        })
    })
}
