//! Tries an attempt again that it told the user was over.

use model::Publication;
use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("retries-failures", "tries a failed attempt again", || {
        idle_volume(|_, volume| match volume.layout.publication {
            Publication::Failed { attempt, .. } => Some(Action::AcceptPublish { attempt }),
            _ => None,
        })
    })
}
