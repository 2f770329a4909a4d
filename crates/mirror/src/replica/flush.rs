//! Flushes: one runs, later ones join the next; and what none has covered yet.
//!
//! The mark of a flush is noted first, and the disk is asked for both at once: one sync makes them
//! durable. So a mark may be there without all that its flush covers, but only of a flush that was
//! never answered.

use core::ops::Range;

use alloc::vec::Vec;

use block::Bitmap;
use model::FlushMark;
use pool::Note;

use super::{Out, Replica, What, done, failed};
use crate::Fault;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Flushes {
    /// Sessions and tags that the running one answers.
    running: Option<Vec<(u64, u64)>>,
    /// What the disk does for it: the flush, and the note of its mark.
    parts: u8,
    has_failed: bool,
    waiting: Vec<(u64, u64)>,
    /// The highest of those that wait.
    mark: Option<FlushMark>,
    /// Regions written since the running or the last one began, and all that is not flushed.
    since: Bitmap,
    unflushed: Bitmap,
}

impl Flushes {
    pub(super) fn wrote(&mut self, regions: Range<u64>) {
        for region in regions {
            if self.since.insert(region) {
                self.unflushed.insert(region);
            }
        }
    }

    pub(super) const fn unflushed(&self) -> &Bitmap {
        &self.unflushed
    }

    pub(super) fn forget(&mut self, session: u64) {
        self.waiting.retain(|(by, _)| *by != session);
        if self.waiting.is_empty() {
            self.mark = None;
        }
        if let Some(running) = &mut self.running {
            running.retain(|(by, _)| *by != session);
        }
    }
}

impl<D: Clone> Replica<D> {
    pub(super) fn flush(
        &mut self,
        session: u64,
        tag: u64,
        mark: Option<FlushMark>,
        out: &mut Out<D>,
    ) {
        self.flushes.waiting.push((session, tag));
        self.flushes.mark = self.flushes.mark.max(mark);
        if self.flushes.running.is_none() {
            self.start_flush(out);
        }
    }

    fn start_flush(&mut self, out: &mut Out<D>) {
        let running = core::mem::take(&mut self.flushes.waiting);
        // It covers what is done; a write under way stays for the next.
        self.flushes.since = self.in_flight();
        let by = running.first().copied();
        self.flushes.running = Some(running);
        self.flushes.parts = 1;
        if let Some(mark) = self.flushes.mark.take().filter(|mark| *mark > self.header.flushed) {
            self.flushes.parts = 2;
            self.run_note(by, What::Flush, Note::Flushed { mark }, out);
        }
        self.run(by, What::Flush, pool::Request::Flush, out);
    }

    pub(super) fn flushed(&mut self, fault: Option<Fault>, out: &mut Out<D>) {
        self.flushes.parts = self.flushes.parts.saturating_sub(1);
        self.flushes.has_failed |= fault.is_some();
        if self.flushes.parts > 0 {
            return;
        }
        let fault = core::mem::take(&mut self.flushes.has_failed).then_some(Fault::Faulted);
        let running = self.flushes.running.take().unwrap_or_default();
        if fault.is_none() {
            self.flushes.unflushed = self.flushes.since.clone();
        } else {
            // Never tried again as a success: what it should have covered may be gone.
            self.is_faulted = true;
        }
        for (session, tag) in running {
            out.push(match fault {
                None => done(session, tag),
                Some(_) => failed(session, tag, Fault::Faulted),
            });
        }
        if !self.flushes.waiting.is_empty() {
            self.start_flush(out);
        }
    }
}
