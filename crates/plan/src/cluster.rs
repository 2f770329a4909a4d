//! The rules of the cluster record.

use alloc::vec::Vec;

use model::{Subject, Wait};

use crate::{Action, Step, Why, World, plan::Rule};

pub(crate) const RULES: &[Rule] = &[prune];

/// At once, and not one by one: a crash loop makes many terms.
const PRUNED_AT_ONCE: usize = 32;

/// Old terms go; a pool that was away for longer is quarantined rather than judged.
fn prune(world: &World, subject: Subject, _: &mut Vec<Wait>) -> Option<Step> {
    let terms: Vec<u64> = world.history.surplus().take(PRUNED_AT_ONCE).collect();
    let action = Action::PruneTerms { terms: terms.clone() };
    (!terms.is_empty()).then_some(Step { subject, action, why: Why::Limit })
}
