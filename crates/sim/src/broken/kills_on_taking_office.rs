//! Takes everyone for dead when it takes office, since it has not heard them as a leader.

use reconcile::{Effect, Event};

use super::{
    BrokenBrain,
    tamper::{Tamper, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "kills-on-taking-office",
        "takes the unknown for dead when it begins to lead",
        tampered::<KillsOnTakingOffice>,
    )
}

#[derive(Default)]
struct KillsOnTakingOffice {
    has_led: bool,
}

impl Tamper for KillsOnTakingOffice {
    fn imagine(&mut self, brain: &dyn Brain, _: &[Effect]) -> Vec<Event> {
        let leads = brain.is_leader();
        let begins = leads && !core::mem::replace(&mut self.has_led, leads);
        let nodes = brain.world().nodes.iter().filter(|_| begins);
        let closed = nodes.filter_map(|(node, view)| {
            let instance = view.record.layout.instance?;
            Some(Event::NodeClosed { node: *node, instance })
        });
        closed.collect()
    }
}
