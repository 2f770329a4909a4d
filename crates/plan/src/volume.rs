//! The rules of a volume, in the order in which they matter: first that it can be used, then that
//! it is safe, then everything else.

mod create;
mod delete;
mod look;
mod promote;
mod publish;
mod replicate;
mod resize;
mod share;
mod surplus;
mod switchover;
mod target;

use model::{Subject, VolumeId, Wait};

pub use self::look::{Copy, Look};
use crate::{Plan, Step, World};

type Rule = fn(&Look<'_>, &mut alloc::vec::Vec<Wait>) -> Option<(crate::Action, crate::Why)>;

const RULES: &[Rule] = &[
    delete::rule,
    create::rule,
    promote::rule,
    publish::rule,
    switchover::rule,
    target::rule,
    replicate::rule,
    surplus::rule,
    resize::rule,
    share::rule,
];

pub(crate) fn plan(world: &World, id: VolumeId, mut plan: Plan) -> Plan {
    let Some(view) = world.volume(id) else { return plan };
    let Some(membership) = &view.membership else {
        let why = "its membership record is missing; recover, or restore the store".into();
        plan.waits.push(Wait::Quarantined { why });
        return plan;
    };
    let look = Look::new(world, &view.record, membership);
    let rules = if view.record.spec.deleting { &RULES[..1] } else { RULES };
    for rule in rules {
        if let Some((action, why)) = rule(&look, &mut plan.waits) {
            plan.step = Some(Step { subject: Subject::Volume(id), action, why });
            break;
        }
    }
    plan
}
