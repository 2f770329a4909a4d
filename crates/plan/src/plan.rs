//! Planning: the rules of one subject, in order, until one has a step.

use alloc::{string::ToString, vec::Vec};

use model::{Subject, Wait};

use crate::{Step, World, cluster, node, pool, snapshot, volume};

/// What to do for a subject, or why nothing is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// At most one per subject: the next one is planned when this one is recorded.
    pub step: Option<Step>,
    pub waits: Vec<Wait>,
}

/// What a controller thinks with. The real one is `Rules`; the simulator has broken ones, to show
/// that it can see.
pub trait Planner {
    fn plan(&self, world: &World, subject: Subject) -> Plan;
}

/// The rules of this crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules;

impl Planner for Rules {
    fn plan(&self, world: &World, subject: Subject) -> Plan {
        plan(world, subject)
    }
}

pub fn plan(world: &World, subject: Subject) -> Plan {
    let mut plan = Plan::default();
    if let Some(why) = world.read_only() {
        plan.waits.push(Wait::ReadOnly { why: why.into() });
        return plan;
    }
    if let Some(undecodable) = world.quarantine(subject) {
        plan.waits.push(Wait::Quarantined { why: undecodable.to_string() });
        return plan;
    }
    let rules: &[Rule] = match subject {
        Subject::Cluster => cluster::RULES,
        Subject::Node(_) => node::RULES,
        Subject::Pool(_) => pool::RULES,
        Subject::Snapshot(_) => snapshot::RULES,
        // A host only has a config; whatever is decided about it is decided in its volumes.
        Subject::Host(_) => &[],
        Subject::Volume(id) => return volume::plan(world, id, plan),
    };
    for rule in rules {
        plan.step = rule(world, subject, &mut plan.waits);
        if plan.step.is_some() {
            break;
        }
    }
    plan
}

pub(crate) type Rule = fn(&World, Subject, &mut Vec<Wait>) -> Option<Step>;

/// One full sweep: a plan for every subject that has a step or a wait.
pub fn sweep(world: &World) -> Vec<(Subject, Plan)> {
    world
        .subjects()
        .map(|subject| (subject, plan(world, subject)))
        .filter(|(_, plan)| plan.step.is_some() || !plan.waits.is_empty())
        .collect()
}
