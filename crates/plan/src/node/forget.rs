//! A node that will never return: its record goes when nothing refers to it any more.

use alloc::{string::ToString, vec::Vec};

use model::{Subject, Wait};

use crate::{Action, Step, Why, World};

pub(super) fn rule(world: &World, subject: Subject, waits: &mut Vec<Wait>) -> Option<Step> {
    let Subject::Node(id) = subject else { return None };
    if !world.node(id)?.record.spec.forgotten {
        return None;
    }
    let pools = world.index.pools_of.get(&id).is_some_and(|pools| !pools.is_empty());
    if pools || world.index.volumes_on(id).next().is_some() {
        waits.push(Wait::NodeEmptied { node: id });
        return None;
    }
    // A volume or pool that nobody can read may be on it.
    if let Some(unreadable) = world.unreadable_on_nodes() {
        waits.push(Wait::Quarantined { why: unreadable.to_string() });
        return None;
    }
    Some(Step { subject, action: Action::ForgetNode, why: Why::Asked })
}
