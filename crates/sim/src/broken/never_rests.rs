//! Changes its mind for ever.

use model::{Liveness, Subject};
use plan::{Action, Step, Why};

use super::{BrokenBrain, bend::bent};

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("never-rests", "marks living nodes gone, and returned, for ever", || {
        bent(|world, subject, mut plan| {
            let Subject::Node(id) = subject else { return plan };
            if plan.step.is_none() && world.liveness(id) == Liveness::Alive {
                plan.step =
                    Some(Step { subject, action: Action::MarkNodeGone, why: Why::Observed });
            }
            plan
        })
    })
}
