//! Shows hosts a size that the copies do not have yet.

use plan::Action;

use super::{BrokenBrain, bend::idle_volume};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("exposes-early", "shows a size before every copy has it", || {
        idle_volume(|_, volume| {
            let layout = &volume.layout;
            (layout.exposed < layout.size).then_some(Action::Expose { size: layout.size })
        })
    })
}
