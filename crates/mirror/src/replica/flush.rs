//! Flushes: one runs, later ones join the next; and what none has covered yet.

use core::ops::Range;

use alloc::vec::Vec;

use block::Bitmap;

use super::{Out, Replica, What, done, failed};
use crate::Fault;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Flushes {
    /// Sessions and tags that the running one answers.
    running: Option<Vec<(u64, u64)>>,
    waiting: Vec<(u64, u64)>,
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
        if let Some(running) = &mut self.running {
            running.retain(|(by, _)| *by != session);
        }
    }
}

impl<D: Clone> Replica<D> {
    pub(super) fn flush(&mut self, session: u64, tag: u64, out: &mut Out<D>) {
        self.flushes.waiting.push((session, tag));
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
        self.run(by, What::Flush, pool::Request::Flush, out);
    }

    pub(super) fn flushed(&mut self, fault: Option<Fault>, out: &mut Out<D>) {
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
