//! Writes: to every child that receives, acknowledged when every healthy one is done.
//!
//! ```text
//! queued ─▶ sent ─▶ acknowledged ─▶ (over)     the lock is held until every child is done or gone
//!             │
//!             └─▶ failed on all: made equal again from one child, then the error is returned
//! ```

use block::{Durability, Extent};
use model::HostId;

use super::{
    Output, Target, Turn,
    child::{Purpose, Stand},
    command::{Asker, HostFault, HostResult, Op, Work, reply},
    copy::{Copy, CopyFor},
    seen::Why,
};
use crate::{
    Fault, Flaw, Request,
    slots::{Slot, Slots},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Writing<D> {
    pub(super) extent: Extent,
    /// Zeros, if nothing.
    data: Option<D>,
    durability: Durability,
    is_sent: bool,
    /// Children that are not done, also those that failed.
    pub(super) waiting: Slots,
    pub(super) failed: Slots,
    fault: Option<Fault>,
}

impl<D> Writing<D> {
    pub(super) const fn new(extent: Extent, data: Option<D>, durability: Durability) -> Self {
        let (waiting, failed) = (Slots::NONE, Slots::NONE);
        Self { extent, data, durability, is_sent: false, waiting, failed, fault: None }
    }
}

impl<D: Clone> Writing<D> {
    fn request(&self) -> Request<D> {
        let (extent, durability) = (self.extent, self.durability);
        match self.data.clone() {
            Some(data) => Request::Write { extent, data, durability },
            None => Request::Zero { extent, durability },
        }
    }
}

impl<D: Clone> Target<D> {
    pub(super) fn host_write(&mut self, turn: &mut Turn<'_, D>, asker: Asker, writing: Writing<D>) {
        let id = self.new_op(Some(asker), Work::Write(writing));
        self.enqueue(turn, id);
    }

    pub(super) fn start_write(&mut self, turn: &mut Turn<'_, D>, id: u64) {
        let Some(extent) = self.ops.get(id).and_then(Op::extent) else { return };
        self.touch(turn, extent);
        let Some(Work::Write(writing)) = self.ops.get_mut(id).map(|op| &mut op.work) else {
            return;
        };
        writing.waiting = self.groups.receivers;
        writing.is_sent = true;
        for slot in self.groups.receivers.iter() {
            if let Some(child) = self.children.get_mut(slot) {
                child.send(turn, Purpose::Write(id), writing.request());
            }
        }
    }

    /// Notes that the extent is about to change: who gets it has it unflushed, the others lack it.
    pub(super) fn touch(&mut self, turn: &mut Turn<'_, D>, extent: Extent) {
        let mut is_news = false;
        self.marks.wrote();
        for region in self.geometry.regions(extent) {
            self.dirty.insert(region);
            self.touched.insert(region);
            for (slot, child) in self.children.iter_mut() {
                if self.groups.receivers.contains(slot) {
                    child.cur.insert(region);
                } else {
                    is_news |= child.lacks.insert(region) && child.stand == Stand::Imaging;
                }
            }
        }
        if is_news {
            turn.put(Output::Seen);
        }
    }

    pub(super) fn wrote(
        &mut self,
        turn: &mut Turn<'_, D>,
        id: u64,
        slot: Slot,
        fault: Option<Fault>,
    ) {
        let Some(Work::Write(writing)) = self.ops.get_mut(id).map(|op| &mut op.work) else {
            return;
        };
        match fault {
            None => writing.waiting.remove(slot),
            Some(fault) => {
                writing.failed.insert(slot);
                writing.fault = writing.fault.max(Some(fault));
            }
        }
        self.settle_write(turn, id);
    }

    /// Acknowledges what every healthy child has, and ends what every child has.
    pub(super) fn settle_write(&mut self, turn: &mut Turn<'_, D>, id: u64) {
        let acks = self.groups.acks;
        let counting = self.groups.counting.without(self.lost);
        let Some(op) = self.ops.get_mut(id) else { return };
        let Work::Write(writing) = &op.work else { return };
        let unanswered = writing.waiting.without(writing.failed);
        if !writing.is_sent || !unanswered.and(acks).is_empty() {
            return;
        }
        let (failed, fault) = (writing.failed, writing.fault);
        if !failed.is_empty() {
            if !counting.is_within(failed) {
                self.lose_failed(turn, failed, fault);
            } else if unanswered.is_empty() {
                self.undo_write(turn, id);
            }
            return;
        }
        if writing.waiting.and(acks).is_empty()
            && let Some(asker) = op.asker.take()
        {
            self.pace.answered(turn.now.since(asker.arrived));
            reply(turn, asker, HostResult::Done);
        }
        let is_over = writing.waiting.is_empty();
        // Flaw::LockEndsWithAck: an old copy still on its way lands over what comes next.
        if is_over || self.flawed.leaves_out(Flaw::LockEndsWithAck) {
            let (extent, host) = (writing.extent, op.host);
            self.ops.remove(id);
            self.lock.release(extent);
            self.command_over(turn, host);
        }
    }

    /// The last command of a host that is gone may be drained now.
    pub(super) fn command_over(&mut self, turn: &mut Turn<'_, D>, host: Option<HostId>) {
        if host.is_some_and(|host| !self.hosts.has(host)) {
            turn.put(Output::Seen);
        }
    }

    /// Writes that failed somewhere are judged anew: who may be lost has changed.
    pub(super) fn settle_failed(&mut self, turn: &mut Turn<'_, D>) {
        let has_failed = |work: &Work<D>| match work {
            Work::Write(writing) => !writing.failed.is_empty(),
            _ => false,
        };
        let failed = self.ops.iter().filter(|(_, op)| has_failed(&op.work));
        let failed: alloc::vec::Vec<_> = failed.map(|(id, _)| id).collect();
        for id in failed {
            self.settle_write(turn, id);
        }
    }

    /// Some have it, these do not: they cannot stay. Where the others are not there now, the write
    /// waits for them.
    fn lose_failed(&mut self, turn: &mut Turn<'_, D>, failed: Slots, fault: Option<Fault>) {
        for slot in failed.iter() {
            if self.groups.acks.contains(slot) && !self.may_lose(slot) {
                continue;
            }
            if fault == Some(Fault::NoSpace)
                && let Some(child) = self.children.get_mut(slot)
            {
                child.is_full = true;
                turn.put(Output::Seen);
            }
            self.lose(turn, slot, fault.map_or(Why::Faulted, Why::from));
        }
    }

    /// It failed on every healthy child, perhaps after changing some: they are made equal again
    /// before the host hears of it.
    fn undo_write(&mut self, turn: &mut Turn<'_, D>, id: u64) {
        let Some(op) = self.ops.get_mut(id) else { return };
        let Work::Write(writing) = &op.work else { return };
        let fault = writing.fault.map_or(HostFault::WriteFault, HostFault::from);
        let extent = writing.extent;
        let source = self.groups.counting.without(self.lost).iter().next();
        let mut others = self.groups.receivers.without(self.lost);
        if let Some(source) = source {
            others.remove(source);
        }
        let (asker, host) = (op.asker, op.host);
        if source.is_none() {
            return;
        }
        if others.is_empty() {
            self.ops.remove(id);
            self.lock.release(extent);
            self.command_over(turn, host);
            if let Some(asker) = asker {
                reply(turn, asker, HostResult::Failed(fault));
            }
            return;
        }
        op.work = Work::Copy(Copy::new(extent, others, CopyFor::Undo { fault }));
        self.start_fetch(turn, id);
    }

    /// The child is gone: whatever waited for it does not any more.
    pub(super) fn drop_child(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if let Some(child) = self.children.get_mut(slot) {
            child.forget_all();
            child.cur = block::Bitmap::new();
            child.prev = block::Bitmap::new();
        }
        if let Some(copying) = &mut self.copying {
            copying.dests.remove(slot);
        }
        self.regroup();
        self.freeze_without(turn, slot);
        self.list_without(turn, slot);
        let ids = self.ops.numbers();
        for id in ids {
            match self.ops.get_mut(id).map(|op| &mut op.work) {
                Some(Work::Write(writing)) => {
                    writing.waiting.remove(slot);
                    writing.failed.remove(slot);
                    self.settle_write(turn, id);
                }
                Some(Work::Flush(_)) => self.flush_without(turn, id, slot),
                Some(Work::Copy(_)) => self.copy_without(turn, id, slot),
                Some(Work::Clean(_)) => self.clean_without(turn, id, slot),
                Some(Work::Read(_)) | None => {}
            }
        }
    }
}
