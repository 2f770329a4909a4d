//! Listens to the first inventory of a process and to no later one.

use std::collections::BTreeSet;

use model::InstanceId;
use reconcile::Event;

use super::{
    BrokenBrain,
    tamper::{Tamper, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "hears-once",
        "takes one inventory of a process and no other",
        tampered::<HearsOnce>,
    )
}

#[derive(Default)]
struct HearsOnce {
    heard: BTreeSet<InstanceId>,
}

impl Tamper for HearsOnce {
    fn hear(&mut self, brain: &dyn Brain, event: Event) -> Option<Event> {
        match &event {
            Event::Inventory(inventory) if !brain.is_leader() => {
                self.heard.remove(&inventory.instance);
                Some(event)
            }
            Event::Inventory(inventory) => self.heard.insert(inventory.instance).then_some(event),
            _ => Some(event),
        }
    }
}
