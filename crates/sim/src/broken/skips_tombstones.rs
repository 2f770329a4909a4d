//! What leaves a layout is told to nobody.

use model::{Key, Write};
use reconcile::Effect;

use super::{
    BrokenBrain,
    tamper::{Tamper, rewritten, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "skips-tombstones",
        "drops things without a tombstone",
        tampered::<SkipsTombstones>,
    )
}

#[derive(Default)]
struct SkipsTombstones;

impl Tamper for SkipsTombstones {
    fn say(&mut self, _: &dyn Brain, effects: Vec<Effect>) -> Vec<Effect> {
        rewritten(effects, |txn| {
            txn.writes.retain(|write| !matches!(write, Write::Put { key: Key::Tombstone(..), .. }));
        })
    }
}
