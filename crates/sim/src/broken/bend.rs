//! Planners that change the plans of the real rules.

use std::rc::Rc;

use model::{Subject, Volume};
use plan::{Action, Plan, Planner, Step, Why, World};
use reconcile::{Config, Reconciler};

use crate::NewBrain;

/// What becomes of a plan of the real rules.
type Bend = dyn Fn(&World, Subject, Plan) -> Plan;

struct Bent(Rc<Bend>);

impl Planner for Bent {
    fn plan(&self, world: &World, subject: Subject) -> Plan {
        (self.0)(world, subject, plan::plan(world, subject))
    }
}

/// A brain with a bent planner.
pub(super) fn bent(bend: impl Fn(&World, Subject, Plan) -> Plan + 'static) -> NewBrain {
    let bend: Rc<Bend> = Rc::new(bend);
    Box::new(move |_, instance, seed| {
        let planner = Bent(Rc::clone(&bend));
        Box::new(Reconciler::with_planner(Config::new(instance, seed), planner))
    })
}

/// A brain that does this to a volume whenever the real rules would do nothing.
pub(super) fn idle_volume(act: fn(&World, &Volume) -> Option<Action>) -> NewBrain {
    bent(move |world, subject, mut plan| {
        let Subject::Volume(id) = subject else { return plan };
        if plan.step.is_none() {
            let action = world.volume(id).and_then(|view| act(world, &view.record));
            plan.step = action.map(|action| Step { subject, action, why: Why::Observed });
        }
        plan
    })
}

/// A brain that takes other steps than the real rules say.
pub(super) fn other_step(change: fn(&World, Subject, Action) -> Action) -> NewBrain {
    bent(move |world, subject, mut plan| {
        plan.step = plan.step.map(|Step { subject: own, action, why }| {
            let action = change(world, subject, action);
            Step { subject: own, action, why }
        });
        plan
    })
}
