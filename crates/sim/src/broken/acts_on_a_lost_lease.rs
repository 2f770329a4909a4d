//! Goes on to lead when it does not any more, and leaves its guard out.

use model::{Change, Key};
use reconcile::{Effect, Event, LeaseAnswer};

use super::{
    BrokenBrain,
    tamper::{Tamper, rewritten, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "acts-on-a-lost-lease",
        "writes without the leader key after it lost it",
        tampered::<ActsOnALostLease>,
    )
}

#[derive(Default)]
pub(super) struct ActsOnALostLease {
    /// It was told, and does not want to know.
    has_lost: bool,
}

impl Tamper for ActsOnALostLease {
    fn hear(&mut self, brain: &dyn Brain, event: Event) -> Option<Event> {
        let leads = brain.is_leader();
        self.has_lost &= leads;
        match event {
            Event::Lease(LeaseAnswer::Ended { lease }) if leads => {
                self.has_lost = true;
                Some(Event::Lease(LeaseAnswer::Renewed { lease }))
            }
            Event::Changed { revision, mut changes } if leads => {
                let before = changes.len();
                changes.retain(|change| !is_leader_key(change));
                self.has_lost |= changes.len() < before;
                Some(Event::Changed { revision, changes })
            }
            event => Some(event),
        }
    }

    /// The lease never ends, whatever the store says.
    fn imagine(&mut self, brain: &dyn Brain, effects: &[Effect]) -> Vec<Event> {
        let renewals = effects.iter().filter_map(|effect| match effect {
            Effect::RenewLease { lease } if brain.is_leader() => Some(*lease),
            _ => None,
        });
        renewals.map(|lease| Event::Lease(LeaseAnswer::Renewed { lease })).collect()
    }

    fn say(&mut self, brain: &dyn Brain, effects: Vec<Effect>) -> Vec<Effect> {
        if !(self.has_lost && brain.is_leader()) {
            return effects;
        }
        rewritten(effects, |txn| txn.compares.retain(|compare| compare.key != Key::Leader))
    }
}

fn is_leader_key(change: &Change) -> bool {
    let key = match change {
        Change::Put(entry) => &entry.key,
        Change::Deleted { key, .. } => key,
    };
    *key == Key::Leader.to_string()
}
