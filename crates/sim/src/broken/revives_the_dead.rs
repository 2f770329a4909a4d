//! Judges nobody dead, however long the silence.

use reconcile::{Effect, Event};

use super::{
    BrokenBrain,
    tamper::{Tamper, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new("revives-the-dead", "judges no node dead", tampered::<RevivesTheDead>)
}

#[derive(Default)]
struct RevivesTheDead;

impl Tamper for RevivesTheDead {
    fn hear(&mut self, _: &dyn Brain, event: Event) -> Option<Event> {
        (!matches!(event, Event::NodeClosed { .. })).then_some(event)
    }

    fn imagine(&mut self, brain: &dyn Brain, _: &[Effect]) -> Vec<Event> {
        let nodes = brain.world().nodes.iter();
        let beats = nodes.filter_map(|(node, view)| {
            let instance = view.record.layout.instance?;
            Some(Event::Heartbeat { node: *node, instance })
        });
        beats.collect()
    }
}
