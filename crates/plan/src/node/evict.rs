//! Noting since when a node is gone; what it held is replaced by each volume's own rules.

use alloc::vec::Vec;

use model::{Liveness, Subject, Wait};

use crate::{Action, Step, Why, World, world::Loss};

pub(super) fn rule(world: &World, subject: Subject, waits: &mut Vec<Wait>) -> Option<Step> {
    let Subject::Node(id) = subject else { return None };
    let view = world.node(id)?;
    let gone = view.record.layout.gone_since.is_some();
    let (action, why) = match view.liveness {
        Liveness::Dead if !gone => (Action::MarkNodeGone, Why::Lost(Loss::NodeDead)),
        Liveness::Alive if gone => (Action::MarkNodeReturned, Why::Observed),
        Liveness::Unknown => {
            waits.push(Wait::NodeHeard { node: id });
            return None;
        }
        Liveness::Dead | Liveness::Alive => return None,
    };
    Some(Step { subject, action, why })
}
