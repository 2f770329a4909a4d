//! Serves what is left of a volume without asking anybody.

use model::{AttemptId, Subject, Wait};
use plan::{Action, Step, Why};

use super::{BrokenBrain, bend::bent};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("promotes-by-itself", "accepts data loss that nobody accepted", || {
        bent(|world, subject, mut plan| {
            let Subject::Volume(id) = subject else { return plan };
            let stuck = plan.waits.iter().any(|wait| matches!(wait, Wait::NoHealthyCopy { .. }));
            let copy = world.volume(id).and_then(|view| view.record.layout.replicas.first());
            if let Some(replica) = copy.filter(|_| stuck && plan.step.is_none()) {
                let attempt = AttemptId(id.0);
                let action = Action::Promote { replica: replica.id, attempt };
                plan.step = Some(Step { subject, action, why: Why::Asked });
            }
            plan
        })
    })
}
