//! A clean stop: nothing is under way, everything is flushed, and both replicas and record say so.

use super::{
    Output, Phase, Target, Turn,
    change::{Asked, Cause},
    child::{Purpose, Stand},
    flush::Waiter,
    seen::Why,
};
use crate::{
    Fault, Request,
    slots::{Slot, Slots},
};

impl<D: Clone> Target<D> {
    pub(super) fn begin_stop(&mut self, turn: &mut Turn<'_, D>) {
        match self.phase {
            Phase::Reading | Phase::Fencing { .. } | Phase::Flushing => {
                self.end(turn, Phase::Stopped);
            }
            Phase::Serving => {
                for session in self.hosts.sessions() {
                    self.host_closed(turn, session);
                    turn.put(Output::CloseHost { session });
                }
                self.ops.each(|_, op| op.asker = None);
                self.abort_preparation();
                self.reserving.clear();
                self.freeze = None;
                self.phase = Phase::Stopping;
            }
            // It goes on when the claim is settled.
            _ => {}
        }
    }

    pub(super) fn advance_stop(&mut self, turn: &mut Turn<'_, D>) {
        if self.phase == Phase::Serving && !self.item.serve {
            self.begin_stop(turn);
        }
        if self.phase != Phase::Stopping || self.change.is_some() || !self.lost.is_empty() {
            return;
        }
        self.drop_copies();
        if !self.ops.is_empty() || !self.leaving.is_empty() || !self.queue.is_empty() {
            return;
        }
        if self.record.resync_source.is_some() {
            // Replicas may differ: the next target goes on with the recovery. The record is given
            // back all the same: a controller that hears first that the target is gone, and later
            // that it had claimed the record, would take it for one that never did.
            let mut wanted = self.record_to_change();
            wanted.owner = None;
            self.commit(turn, Asked { wanted, cause: Cause::Stop });
            return;
        }
        let healthy: Slots =
            self.slots_where(|child| child.stand == Stand::Healthy).into_iter().collect();
        if self.noted.is_some() {
            return;
        }
        self.noted = Some(Slots::NONE);
        for slot in healthy.iter() {
            self.flush_child(turn, slot, Waiter::Stop);
        }
    }

    /// Copies that were not begun are left to the next target.
    fn drop_copies(&mut self) {
        let queued = core::mem::take(&mut self.queue);
        for id in queued {
            self.ops.remove(id);
        }
        if self.ops.is_empty() {
            self.copying = None;
        }
    }

    pub(super) fn stop_flushed(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if self.phase == Phase::Stopping
            && let Some(child) = self.children.get_mut(slot)
        {
            child.send(turn, Purpose::Stop, Request::Stop);
        }
    }

    pub(super) fn stop_noted(&mut self, turn: &mut Turn<'_, D>, slot: Slot, fault: Option<Fault>) {
        if fault.is_some() {
            self.lose(turn, slot, Why::Faulted);
            return;
        }
        let Some(noted) = &mut self.noted else { return };
        noted.insert(slot);
        let noted = *noted;
        let healthy: Slots =
            self.slots_where(|child| child.stand == Stand::Healthy).into_iter().collect();
        if self.phase == Phase::Stopping
            && self.change.is_none()
            && self.lost.is_empty()
            && healthy.is_within(noted)
        {
            let mut wanted = self.record_to_change();
            wanted.clean = true;
            wanted.owner = None;
            self.commit(turn, Asked { wanted, cause: Cause::Stop });
        }
    }
}

#[cfg(test)]
mod tests;
