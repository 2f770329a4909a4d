//! Takes everyone for dead of whom it has not heard yet.

use model::Liveness;
use reconcile::{Effect, Event};

use super::{
    BrokenBrain,
    tamper::{Tamper, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "kills-the-unheard",
        "takes the unknown for dead after a start",
        tampered::<KillsTheUnheard>,
    )
}

#[derive(Default)]
struct KillsTheUnheard;

impl Tamper for KillsTheUnheard {
    fn imagine(&mut self, brain: &dyn Brain, _: &[Effect]) -> Vec<Event> {
        let nodes = brain.world().nodes.iter();
        let unheard = nodes.filter(|(_, view)| view.liveness == Liveness::Unknown);
        let closed = unheard.filter_map(|(node, view)| {
            let instance = view.record.layout.instance?;
            Some(Event::NodeClosed { node: *node, instance })
        });
        closed.collect()
    }
}
