//! Records every copy as healthy, whoever saw what it holds.

use model::{Record, Write};
use reconcile::Effect;

use super::{
    BrokenBrain,
    tamper::{Tamper, rewritten, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "trusts-every-copy",
        "calls every copy healthy when it raises an epoch",
        tampered::<TrustsEveryCopy>,
    )
}

#[derive(Default)]
struct TrustsEveryCopy;

impl Tamper for TrustsEveryCopy {
    fn say(&mut self, _: &dyn Brain, effects: Vec<Effect>) -> Vec<Effect> {
        rewritten(effects, |txn| {
            for write in &mut txn.writes {
                if let Write::Put { value: Record::Membership(membership), .. } = write {
                    membership.children.values_mut().for_each(|healthy| *healthy = true);
                }
            }
        })
    }
}
