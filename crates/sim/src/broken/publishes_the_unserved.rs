//! Tells the user that a volume is published before anybody can reach it.

use model::Publication;
use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("publishes-the-unserved", "calls a volume published at once", || {
        idle_volume(|_, volume| match volume.layout.publication {
            Publication::Pending { attempt } => Some(Action::FinishPublish { attempt }),
            _ => None,
        })
    })
}
