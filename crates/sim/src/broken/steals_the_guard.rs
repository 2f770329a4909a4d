//! Goes on to lead under the key of whoever leads now.

use model::{Change, Entry, Expect, Key, Revision};
use reconcile::{Effect, Event};

use super::{
    BrokenBrain,
    acts_on_a_lost_lease::ActsOnALostLease,
    tamper::{Tamper, rewritten, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "steals-the-guard",
        "writes under another leader's key",
        tampered::<StealsTheGuard>,
    )
}

#[derive(Default)]
struct StealsTheGuard {
    deaf: ActsOnALostLease,
    /// Of the newest leader's key.
    created: Option<Revision>,
}

impl StealsTheGuard {
    fn note(&mut self, entry: &Entry) {
        if entry.key == Key::Leader.to_string() {
            self.created = Some(entry.created);
        }
    }
}

impl Tamper for StealsTheGuard {
    fn hear(&mut self, brain: &dyn Brain, event: Event) -> Option<Event> {
        match &event {
            Event::Loaded { entries, .. } => entries.iter().for_each(|entry| self.note(entry)),
            Event::Changed { changes, .. } => {
                for change in changes {
                    if let Change::Put(entry) = change {
                        self.note(entry);
                    }
                }
            }
            _ => {}
        }
        self.deaf.hear(brain, event)
    }

    fn imagine(&mut self, brain: &dyn Brain, effects: &[Effect]) -> Vec<Event> {
        self.deaf.imagine(brain, effects)
    }

    fn say(&mut self, brain: &dyn Brain, effects: Vec<Effect>) -> Vec<Effect> {
        let Some(created) = self.created.filter(|_| brain.is_leader()) else { return effects };
        rewritten(effects, |txn| {
            for compare in txn.compares.iter_mut().filter(|compare| compare.key == Key::Leader) {
                if let Expect::CreatedAt(guard) = &mut compare.expect {
                    *guard = (*guard).max(created);
                }
            }
        })
    }
}
