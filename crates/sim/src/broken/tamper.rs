//! Brains with the real rules, between ears and a mouth that are not to be trusted.

use model::{Time, Txn};
use plan::{Rules, World};
use reconcile::{Config, Effect, Event, Reconciler, Stats};

use crate::{Brain, NewBrain};

/// What happens to words on their way in and out.
pub(super) trait Tamper: Default + 'static {
    /// What is heard instead, or nothing.
    fn hear(&mut self, _brain: &dyn Brain, event: Event) -> Option<Event> {
        Some(event)
    }

    /// What nobody said and is heard after that.
    fn imagine(&mut self, _brain: &dyn Brain, _effects: &[Effect]) -> Vec<Event> {
        Vec::new()
    }

    fn say(&mut self, _brain: &dyn Brain, effects: Vec<Effect>) -> Vec<Effect> {
        effects
    }
}

struct Tampered<T> {
    brain: Reconciler<Rules>,
    tamper: T,
}

pub(super) fn tampered<T: Tamper>() -> NewBrain {
    Box::new(|_, instance, seed| {
        let brain = Reconciler::new(Config::new(instance, seed));
        Box::new(Tampered { brain, tamper: T::default() })
    })
}

impl<T: Tamper> Brain for Tampered<T> {
    fn handle(&mut self, now: Time, event: Event) -> Vec<Effect> {
        let heard = self.tamper.hear(&self.brain, event);
        let mut effects = self.brain.handle(now, heard.unwrap_or(Event::Tick));
        for event in self.tamper.imagine(&self.brain, &effects) {
            effects.extend(self.brain.handle(now, event));
        }
        self.tamper.say(&self.brain, effects)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.brain.next_deadline()
    }

    fn is_leader(&self) -> bool {
        self.brain.is_leader()
    }

    fn busy_with(&self) -> Option<&'static str> {
        self.brain.busy_with()
    }

    fn world(&self) -> &World {
        self.brain.world()
    }

    fn stats(&self) -> &Stats {
        self.brain.stats()
    }
}

/// The same effects, with other transactions.
pub(super) fn rewritten(mut effects: Vec<Effect>, mut change: impl FnMut(&mut Txn)) -> Vec<Effect> {
    for effect in &mut effects {
        if let Effect::Commit { txn, .. } = effect {
            change(txn);
        }
    }
    effects
}
