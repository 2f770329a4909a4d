//! Who may change it: one session of the highest epoch, and nobody while older commands are under
//! way.

use model::{Epoch, FlushMark};
use pool::Note;

use super::{Out, Replica, ReplicaOutput, What, failed, io::Held};
use crate::{Answer, Fault, Flaw};

/// A new session, or a new epoch, that waits for what was before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fencing {
    /// Who gets in at the end; nobody, if the config raised the epoch.
    by: Option<(u64, u64)>,
    is_durable: bool,
    is_drained: bool,
}

impl Fencing {
    pub(super) const fn is_settled(&self) -> bool {
        self.is_durable && self.is_drained
    }
}

impl<D: Clone> Replica<D> {
    pub(super) fn fence(&mut self, session: u64, tag: u64, epoch: Epoch, out: &mut Out<D>) {
        if epoch < self.header.epoch && !self.flawed.leaves_out(Flaw::EpochUnchecked) {
            let fault = Fault::Stale { epoch: self.header.epoch };
            out.push(failed(session, tag, fault));
            return;
        }
        if self.is_faulted {
            out.push(failed(session, tag, Fault::Faulted));
            return;
        }
        let same_epoch = epoch == self.header.epoch;
        self.end_others(Some(session), same_epoch, out);
        let is_durable = self.raise(epoch, out);
        // Flaw::SameEpochUndrained: a late copy of an old write lands over a newer one.
        let is_drained = same_epoch && self.flawed.leaves_out(Flaw::SameEpochUndrained);
        self.fencing = Some(Fencing { by: Some((session, tag)), is_durable, is_drained });
        self.finish_fence(out);
    }

    /// The config says that nothing older than this epoch is let in any more.
    pub fn admit(&mut self, epoch: Epoch, out: &mut Out<D>) {
        if epoch <= self.header.epoch || self.is_faulted {
            return;
        }
        self.end_others(None, false, out);
        let is_durable = self.raise(epoch, out);
        self.fencing = Some(Fencing { by: None, is_durable, is_drained: false });
        self.finish_fence(out);
    }

    /// True if the epoch is durable already.
    fn raise(&mut self, epoch: Epoch, out: &mut Out<D>) -> bool {
        if epoch <= self.header.epoch {
            return !self.doing.values().any(|doing| doing.what == What::Fence);
        }
        let note = Note::Fence { epoch };
        self.run_note(None, What::Fence, note, out);
        // Flaw::EvidenceErasedByFence: a claim that is not committed must leave the mark as it was.
        if self.flawed.leaves_out(Flaw::EvidenceErasedByFence) {
            let mark = FlushMark { epoch, number: 1 };
            self.run_note(None, What::Fence, Note::Flushed { mark }, out);
        }
        false
    }

    /// Ends every session but this one. Commands that wait for a note were never begun.
    fn end_others(&mut self, keep: Option<u64>, same_epoch: bool, out: &mut Out<D>) {
        let lingers = same_epoch && self.flawed.leaves_out(Flaw::SameEpochUndrained);
        if !same_epoch {
            self.lingering.clear();
        }
        let waiting = self.fencing.take().and_then(|fencing| fencing.by);
        let current = self.current.take();
        for session in waiting.map(|(session, _)| session).into_iter().chain(current) {
            if lingers {
                self.lingering.push(session);
            } else if Some(session) != keep {
                self.drop_waiting(session);
                out.push(ReplicaOutput::Close { session });
            }
        }
    }

    /// The connection is gone. What the disk does for it goes on, and is waited for by the next.
    pub fn closed(&mut self, session: u64, out: &mut Out<D>) {
        if self.current == Some(session) {
            self.current = None;
        }
        if let Some(fencing) = &mut self.fencing
            && fencing.by.is_some_and(|(by, _)| by == session)
        {
            fencing.by = None;
        }
        self.lingering.retain(|other| *other != session);
        self.drop_waiting(session);
        self.finish_fence(out);
    }

    fn drop_waiting(&mut self, session: u64) {
        self.held.retain(|held: &Held<D>| held.session() != session);
        self.flushes.forget(session);
    }

    pub(super) fn epoch_noted(&mut self, fault: Option<Fault>, out: &mut Out<D>) {
        if fault.is_some() {
            self.is_faulted = true;
            if let Some((session, tag)) = self.fencing.take().and_then(|fencing| fencing.by) {
                out.push(failed(session, tag, Fault::Faulted));
            }
            return;
        }
        let another = self.doing.values().any(|doing| doing.what == What::Fence);
        if let Some(fencing) = &mut self.fencing {
            fencing.is_durable = !another;
        }
    }

    /// Lets the new session in once the epoch is durable and nothing older can change a block.
    pub(super) fn finish_fence(&mut self, out: &mut Out<D>) {
        let Some(fencing) = &self.fencing else { return };
        let by = fencing.by;
        let is_older = |session: Option<u64>| session != by.map(|(session, _)| session);
        let is_busy = self.doing.values().any(|doing| {
            !matches!(doing.what, What::Read | What::Fence) && is_older(doing.session)
        });
        let Some(fencing) = &mut self.fencing else { return };
        fencing.is_drained |= !is_busy;
        if !fencing.is_settled() {
            return;
        }
        self.fencing = None;
        if let Some((session, tag)) = by {
            self.current = Some(session);
            let answer = Answer::Fenced(alloc::boxed::Box::new(self.state()));
            out.push(ReplicaOutput::Reply { session, tag, answer });
        }
    }
}
