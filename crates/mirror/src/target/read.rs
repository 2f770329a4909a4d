//! Reads: from the nearest healthy child, from another if that one cannot, and never without a
//! lease.

use alloc::vec::Vec;

use block::Extent;

use super::{
    Target, Turn,
    child::Purpose,
    command::{Asker, HostFault, HostResult, Work, reply},
    copy::{Copy, CopyFor},
};
use crate::{
    Answer, Fault, Request,
    slots::{Slot, Slots},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reading<D> {
    extent: Extent,
    stage: Stage<D>,
    /// Children that could not read it.
    bad: Slots,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage<D> {
    /// No child is there to be asked.
    Waiting,
    Asked(Slot),
    /// The data is here; some child's lease is not.
    Held(D),
}

impl<D: Clone> Target<D> {
    pub(super) fn host_read(&mut self, turn: &mut Turn<'_, D>, asker: Asker, extent: Extent) {
        let reading = Reading { extent, stage: Stage::Waiting, bad: Slots::NONE };
        let id = self.new_op(Some(asker), Work::Read(reading));
        self.ask_read(turn, id);
    }

    /// Local first, else whoever has least to do.
    pub(super) fn nearest(&self, except: Slots) -> Option<Slot> {
        let able = self.groups.counting.without(except).without(self.lost);
        let open = self.children.iter().filter(|(slot, c)| able.contains(*slot) && c.is_open());
        open.min_by_key(|(_, child)| (child.node != self.node, child.sent.len()))
            .map(|(slot, _)| slot)
    }

    fn ask_read(&mut self, turn: &mut Turn<'_, D>, id: u64) {
        let Some(Work::Read(reading)) = self.ops.get(id).map(|op| &op.work) else { return };
        let (extent, bad) = (reading.extent, reading.bad);
        if !self.is_serving() {
            self.has_idle_reads = true;
            return;
        }
        let nearest = self.nearest(bad);
        if nearest.is_none() && self.groups.counting.is_within(bad) {
            self.end_read(turn, id, HostResult::Failed(HostFault::Unreadable));
            return;
        }
        let Some(slot) = nearest else {
            self.has_idle_reads = true;
            return;
        };
        if let Some(Work::Read(reading)) = self.ops.get_mut(id).map(|op| &mut op.work) {
            reading.stage = Stage::Asked(slot);
        }
        if let Some(child) = self.children.get_mut(slot) {
            child.send(turn, Purpose::Read(id), Request::Read { extent });
        }
    }

    pub(super) fn read_answered(
        &mut self,
        turn: &mut Turn<'_, D>,
        id: u64,
        slot: Slot,
        answer: Answer<D>,
    ) {
        let Some(Work::Read(reading)) = self.ops.get_mut(id).map(|op| &mut op.work) else {
            return;
        };
        if !matches!(reading.stage, Stage::Asked(asked) if asked == slot) {
            return;
        }
        match answer {
            Answer::Data(data) => {
                reading.stage = Stage::Held(data);
                self.finish_read(turn, id);
            }
            Answer::Failed(Fault::Media | Fault::Faulted) => {
                reading.bad.insert(slot);
                reading.stage = Stage::Waiting;
                self.ask_read(turn, id);
            }
            _ => {
                reading.stage = Stage::Waiting;
                self.ask_read(turn, id);
            }
        }
    }

    /// The lease is judged when the read completes: an answer that came late proves nothing.
    fn finish_read(&mut self, turn: &mut Turn<'_, D>, id: u64) {
        if !self.is_leased(turn.now) {
            self.has_idle_reads = true;
            self.ping_stale(turn);
            return;
        }
        let Some(Work::Read(reading)) = self.ops.get(id).map(|op| &op.work) else { return };
        let Stage::Held(data) = &reading.stage else { return };
        let (extent, bad) = (reading.extent, reading.bad);
        let data = data.clone();
        self.end_read(turn, id, HostResult::Data(data));
        let bad = bad.and(self.groups.counting).without(self.lost);
        if !bad.is_empty() {
            let copy = Copy::new(extent, bad, CopyFor::Repair);
            let id = self.new_op(None, Work::Copy(copy));
            self.enqueue(turn, id);
        }
    }

    fn end_read(&mut self, turn: &mut Turn<'_, D>, id: u64, result: HostResult<D>) {
        if let Some(asker) = self.ops.remove(id).and_then(|op| op.asker) {
            reply(turn, asker, result);
        }
    }

    /// Reads that wait for a child or for a lease are looked at again.
    pub(super) fn retry_reads(&mut self, turn: &mut Turn<'_, D>) {
        // Looked at after every answer: the many that wait for nothing cost nothing.
        if !self.has_idle_reads || !self.is_serving() {
            return;
        }
        self.has_idle_reads = false;
        let is_idle = |work: &Work<D>| match work {
            Work::Read(reading) => !matches!(reading.stage, Stage::Asked(_)),
            _ => false,
        };
        let idle = self.ops.iter().filter(|(_, op)| is_idle(&op.work));
        let idle: Vec<_> = idle.map(|(id, _)| id).collect();
        for id in idle {
            match self.ops.get(id).map(|op| &op.work) {
                Some(Work::Read(Reading { stage: Stage::Held(_), .. })) => {
                    self.finish_read(turn, id);
                }
                _ => self.ask_read(turn, id),
            }
        }
    }

    pub(super) fn tick_reads(&mut self, turn: &mut Turn<'_, D>) {
        self.retry_reads(turn);
    }

    /// Reads that were asked of a child that is gone ask another.
    pub(super) fn ask_others(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        let has_idle_reads = &mut self.has_idle_reads;
        self.ops.each(|_, op| {
            if let Work::Read(reading) = &mut op.work
                && matches!(reading.stage, Stage::Asked(asked) if asked == slot)
            {
                reading.stage = Stage::Waiting;
                *has_idle_reads = true;
            }
        });
        self.retry_reads(turn);
    }
}
