//! The rules of a node. Draining and cordoning are not here: volumes read them from the node's
//! spec.

mod evict;
mod forget;
mod orphan;
mod tombstone;

use crate::plan::Rule;

pub(crate) const RULES: &[Rule] = &[evict::rule, forget::rule, tombstone::rule, orphan::rule];
