//! Puts a spare where the volume already has a copy.

use model::Subject;
use plan::Action;

use super::{BrokenBrain, bend::other_step};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("places-beside-itself", "puts two copies on one node", || {
        other_step(|world, subject, action| match (subject, action) {
            (Subject::Volume(id), Action::PlaceReplica { mut replica }) => {
                let record = world.volume(id).map(|view| &view.record);
                if let Some(beside) = record.and_then(|record| record.layout.replicas.first()) {
                    (replica.pool, replica.node) = (beside.pool, beside.node);
                }
                Action::PlaceReplica { replica }
            }
            (_, action) => action,
        })
    })
}
