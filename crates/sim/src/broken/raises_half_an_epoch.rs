//! Raises the epoch in the layout alone: the old target may go on to write its membership.

use model::{Key, Write};
use reconcile::Effect;

use super::{
    BrokenBrain,
    tamper::{Tamper, rewritten, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "raises-half-an-epoch",
        "raises an epoch in the layout and not in the membership",
        tampered::<RaisesHalfAnEpoch>,
    )
}

#[derive(Default)]
struct RaisesHalfAnEpoch;

impl Tamper for RaisesHalfAnEpoch {
    fn say(&mut self, brain: &dyn Brain, effects: Vec<Effect>) -> Vec<Effect> {
        let known = |key: &Key| match key {
            Key::Membership(id) => brain.world().volume(*id).is_some(),
            _ => false,
        };
        rewritten(effects, |txn| {
            txn.writes.retain(|write| !matches!(write, Write::Put { key, .. } if known(key)));
        })
    }
}
