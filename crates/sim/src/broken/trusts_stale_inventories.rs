//! Takes every inventory for one of now: what is not in it is gone.

use reconcile::Event;

use super::{
    BrokenBrain,
    tamper::{Tamper, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "trusts-stale-inventories",
        "lets absence count in inventories that are too old",
        tampered::<TrustsStaleInventories>,
    )
}

#[derive(Default)]
struct TrustsStaleInventories;

impl Tamper for TrustsStaleInventories {
    fn hear(&mut self, brain: &dyn Brain, mut event: Event) -> Option<Event> {
        if let Event::Inventory(inventory) = &mut event {
            inventory.generation = inventory.generation.max(brain.world().revision);
        }
        Some(event)
    }
}
