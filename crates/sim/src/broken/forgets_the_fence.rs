//! Moves a target and leaves the epoch as it was: the old one is shut out by nothing.

use model::Subject;
use plan::Action;

use super::{BrokenBrain, bend::other_step};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("forgets-the-fence", "moves a target without raising the epoch", || {
        other_step(|world, subject, action| match (subject, action) {
            (Subject::Volume(id), Action::Republish { node, instance, epoch }) => {
                let known = world.volume(id).map(|view| view.record.layout.epoch);
                Action::Republish { node, instance, epoch: known.unwrap_or(epoch) }
            }
            (_, action) => action,
        })
    })
}
