//! The read lease: an isolated target must not read what its successor has already changed.
//!
//! A successor fences the replicas before it serves. So whoever hears from every healthy one that
//! its own epoch is still let in knows that no successor had served when it asked.

use model::Time;

use super::{Target, Turn, child::Purpose};
use crate::{Flaw, Request};

impl<D: Clone> Target<D> {
    /// Every child that counts answered a request sent less than a lease ago.
    pub(super) fn is_leased(&self, now: Time) -> bool {
        let is_fresh =
            |sent: Option<Time>| sent.is_some_and(|sent| now.since(sent) < self.times.lease);
        let mut counting = self.groups.counting.iter().filter_map(|slot| self.children.get(slot));
        // Flaw::ReadUnleased: the host holds both paths and reads old data from the old target.
        self.flawed.leaves_out(Flaw::ReadUnleased)
            || counting.all(|child| child.is_open() && is_fresh(child.answered))
    }

    /// Asks those whose lease ran out, unless an answer is on its way that would renew it.
    pub(super) fn ping_stale(&mut self, turn: &mut Turn<'_, D>) {
        let lease = self.times.lease;
        for slot in self.groups.counting.iter() {
            let Some(child) = self.children.get_mut(slot) else { continue };
            let is_fresh = |sent: Time| turn.now.since(sent) < lease;
            let is_asked = child.sent.values().any(|sent| is_fresh(sent.at));
            if !child.answered.is_some_and(is_fresh) && !is_asked {
                child.send(turn, Purpose::Ping, Request::Ping);
            }
        }
    }
}
