//! Gives every replacement of a volume the same id.

use model::{ReplicaId, Subject};
use plan::Action;

use super::{BrokenBrain, bend::other_step};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("reuses-ids", "gives a new replica the id of an earlier one", || {
        other_step(|_, subject, action| match (subject, action) {
            (Subject::Volume(id), Action::PlaceReplica { mut replica }) => {
                replica.id = ReplicaId(id.0);
                Action::PlaceReplica { replica }
            }
            (_, action) => action,
        })
    })
}
