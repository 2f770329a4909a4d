//! What no record names is destroyed at once: no grace, no second look, no proof.

use model::Subject;
use plan::{Action, Step, Why};

use super::{BrokenBrain, bend::bent};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("deletes-on-absence", "takes absence for deletion", || {
        bent(|world, subject, mut plan| {
            let Subject::Node(id) = subject else { return plan };
            let orphan = world.node(id).and_then(|view| view.orphans.keys().next());
            if let Some(buried) = orphan.filter(|_| plan.step.is_none()) {
                let action = Action::CollectOrphan { buried: *buried };
                plan.step = Some(Step { subject, action, why: Why::AbsenceProven });
            }
            plan
        })
    })
}
