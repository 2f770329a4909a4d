//! Never takes one kind of step: whatever waits for it must be missed in the end.

use plan::Step;

use super::{BrokenBrain, bend::bent};

pub(super) fn brain(kind: &'static str) -> BrokenBrain {
    BrokenBrain::new(format!("omits-{kind}"), "never takes one kind of step", move || {
        bent(move |_, _, mut plan| {
            plan.step = plan.step.filter(|step: &Step| step.action.kind() != kind);
            plan
        })
    })
}
