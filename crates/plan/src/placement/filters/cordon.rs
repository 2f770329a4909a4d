//! Nothing new on nodes that are cordoned or drained, nor on what is on its way out.

use crate::{
    World,
    placement::{Ask, Candidate},
};

pub(crate) fn admits(_: &World, _: &Ask<'_>, candidate: Candidate<'_>) -> bool {
    let node = &candidate.node.record.spec;
    let pool = &candidate.pool.record.spec;
    !(node.cordoned || node.draining || node.forgotten || pool.deleting || pool.forgotten)
}
