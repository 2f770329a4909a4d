//! Tells users that their volume is made durable before it is.

use plan::{Accepted, Request};
use reconcile::{Effect, Event, RequestId};

use super::{
    BrokenBrain,
    tamper::{Tamper, tampered},
};
use crate::Brain;

pub(super) fn brain() -> BrokenBrain {
    BrokenBrain::new(
        "answers-too-soon",
        "accepts requests before they are durable",
        tampered::<AnswersTooSoon>,
    )
}

#[derive(Default)]
struct AnswersTooSoon {
    asked: Option<RequestId>,
}

impl Tamper for AnswersTooSoon {
    fn hear(&mut self, brain: &dyn Brain, event: Event) -> Option<Event> {
        if let Event::Request { id, request: Request::CreateVolume { .. }, .. } = &event {
            self.asked = Some(*id).filter(|_| brain.is_leader());
        }
        Some(event)
    }

    fn say(&mut self, brain: &dyn Brain, mut effects: Vec<Effect>) -> Vec<Effect> {
        if let Some(id) = self.asked.take() {
            let reply = Accepted { revision: brain.world().revision, words: Vec::new() };
            effects.insert(0, Effect::Reply { id, reply: Ok(reply) });
        }
        effects
    }
}
