//! Clears tombstones without looking whether anything is left.

use model::Subject;
use plan::{Action, Step, Why};

use super::{BrokenBrain, bend::bent};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("clears-tombstones-unseen", "clears tombstones without looking", || {
        bent(|world, subject, mut plan| {
            let Subject::Node(id) = subject else { return plan };
            let buried = world.node(id).and_then(|view| view.tombstones.keys().next());
            if let Some(buried) = buried.filter(|_| plan.step.is_none()) {
                let action = Action::ClearTombstones { done: vec![*buried] };
                plan.step = Some(Step { subject, action, why: Why::Observed });
            }
            plan
        })
    })
}
