//! What hosts have reserved: kept in the record, so that it goes with the volume.
//!
//! One change at a time, and answered when the store has it. Only the host that asked waits for a
//! store that is away; the target goes on serving.

use model::{Reserved, Time};

use super::{
    Output, Target, Turn,
    change::{Asked, Cause},
    command::{Asker, reply},
};
use crate::HostResult;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reserving {
    asker: Asker,
    wanted: Reserved,
}

impl<D: Clone> Target<D> {
    pub(super) fn host_reserve(&mut self, asker: Asker, wanted: Reserved) {
        self.reserving.push_back(Reserving { asker, wanted });
    }

    /// True if a change was begun.
    pub(super) fn begin_reserve(&mut self, turn: &mut Turn<'_, D>) -> bool {
        let Some(next) = self.reserving.front() else { return false };
        let mut wanted = self.record_to_change();
        wanted.reserved = Some(next.wanted.clone());
        self.commit(turn, Asked { wanted, cause: Cause::Reserve });
        true
    }

    /// Whoever asked is told, also when it is gone: what is decided by it counts from now on.
    pub(super) fn reserve_committed(&mut self, turn: &mut Turn<'_, D>) {
        if let Some(Reserving { asker, .. }) = self.reserving.pop_front() {
            reply(turn, asker, HostResult::Done);
        }
    }

    /// Hosts that have waited for too long may try another path.
    pub(super) fn tick_reserve(&mut self, turn: &mut Turn<'_, D>) {
        while let Some((session, at)) = self.oldest_reserve()
            && at <= turn.now
        {
            self.host_closed(turn, session);
            turn.put(Output::CloseHost { session });
        }
    }

    pub(super) fn reserve_deadline(&self) -> Option<Time> {
        self.oldest_reserve().map(|(_, at)| at)
    }

    /// The host that has waited longest and is still here, and until when it may.
    fn oldest_reserve(&self) -> Option<(u64, Time)> {
        let mut waiting = self.reserving.iter().map(|reserving| reserving.asker);
        let oldest = waiting.find(|asker| self.hosts.host(asker.session).is_some())?;
        Some((oldest.session, oldest.arrived + self.times.hold))
    }
}

#[cfg(test)]
mod tests;
