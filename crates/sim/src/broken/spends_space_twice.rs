//! Sees room where space was promised already.

use model::Bytes;
use reconcile::Event;

use super::{
    BrokenBrain,
    tamper::{Tamper, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "spends-space-twice",
        "takes promised space for free space",
        tampered::<SpendsSpaceTwice>,
    )
}

#[derive(Default)]
struct SpendsSpaceTwice;

impl Tamper for SpendsSpaceTwice {
    fn hear(&mut self, _: &dyn Brain, mut event: Event) -> Option<Event> {
        if let Event::Inventory(inventory) = &mut event {
            for pool in inventory.pools.values_mut() {
                pool.capacity = Bytes(pool.capacity.0.saturating_mul(2));
            }
        }
        Some(event)
    }
}
