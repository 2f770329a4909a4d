//! A record that is older than the replicas: the store was set back.
//!
//! What it says about who is healthy is not believed. The replicas know: healthy are those that no
//! other one calls absent. All of the layout must be heard first.

use alloc::{collections::BTreeSet, vec::Vec};

use model::ReplicaId;

use super::{Target, Turn, seen::Notice};
use crate::State;

impl<D: Clone> Target<D> {
    /// A replica recorded healthy has seen a membership change that the record has not.
    pub(super) fn is_record_older(&self) -> bool {
        self.children.values().any(|child| {
            self.record.is_recorded_healthy(child.id)
                && child.state.as_ref().is_some_and(|s| s.header.roster > self.record.roster)
        })
    }

    /// True if the record was made to say what the replicas say.
    pub(super) fn heal_record(&mut self, turn: &mut Turn<'_, D>) -> bool {
        let states: Vec<(ReplicaId, &State)> = self
            .children
            .values()
            .filter_map(|child| Some((child.id, &**child.state.as_ref()?)))
            .collect();
        if states.len() < self.item.children.len() {
            return false;
        }
        let named: BTreeSet<_> =
            states.iter().flat_map(|(_, state)| state.header.absent.keys().copied()).collect();
        let healthy: Vec<_> =
            states.iter().map(|(id, _)| *id).filter(|id| !named.contains(id)).collect();
        if healthy.is_empty() {
            self.fail(turn, "the record is older than the replicas, and they disown each other");
            return false;
        }
        let roster = states.iter().map(|(_, state)| state.header.roster).max();
        turn.tell(Notice::RecordOlder);
        for (id, is_healthy) in &mut self.record.children {
            *is_healthy = healthy.contains(id);
        }
        for id in healthy {
            self.record.children.insert(id, true);
        }
        self.record.clean = false;
        self.record.resync_source = None;
        self.record.roster = roster.unwrap_or_default().max(self.record.roster);
        true
    }
}
