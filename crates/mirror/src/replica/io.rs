//! Writes: the region is marked, durably, before the data goes to the disk.

use alloc::vec::Vec;

use block::{Durability, Extent};
use pool::FetchedPiece;

use super::{Out, Replica, What, dirty, failed};
use crate::{Fault, Flaw};

/// A write that waits until its regions are marked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held<D> {
    session: u64,
    tag: u64,
    extent: Extent,
    op: pool::Request<D>,
    /// The notes that it waits for.
    needs: Vec<u64>,
}

impl<D> Held<D> {
    pub(super) const fn session(&self) -> u64 {
        self.session
    }

    pub(super) const fn extent(&self) -> Extent {
        self.extent
    }
}

impl<D: Clone> Replica<D> {
    pub(super) fn write(
        &mut self,
        by: (u64, u64),
        extent: Extent,
        op: pool::Request<D>,
        out: &mut Out<D>,
    ) {
        let needs = self.mark(extent, out);
        self.write_after(by, extent, op, needs, out);
    }

    /// Changes blocks like any write.
    pub(super) fn resync(&mut self, by: (u64, u64), piece: FetchedPiece<D>, out: &mut Out<D>) {
        let (replica, extent, durability) = (self.id, piece.extent, Durability::Volatile);
        let op = match piece.data {
            Some(data) => pool::Request::Write { replica, extent, data, durability },
            None => pool::Request::Zero { replica, extent, durability },
        };
        let is_unmarked = self.flawed.leaves_out(Flaw::CopiesUnmarked);
        let needs = if is_unmarked { Vec::new() } else { self.mark(extent, out) };
        self.write_after(by, extent, op, needs, out);
    }

    fn write_after(
        &mut self,
        by: (u64, u64),
        extent: Extent,
        op: pool::Request<D>,
        needs: Vec<u64>,
        out: &mut Out<D>,
    ) {
        self.flushes.wrote(self.geometry.regions(extent));
        if needs.is_empty() {
            self.run(Some(by), What::Write { extent }, op, out);
        } else {
            let (session, tag) = by;
            self.held.push_back(Held { session, tag, extent, op, needs });
        }
    }

    /// Marks what is not marked, and says which notes must be durable before the write.
    fn mark(&mut self, extent: Extent, out: &mut Out<D>) -> Vec<u64> {
        let regions = self.geometry.regions(extent);
        let header = &self.header;
        let is_marked = |region: &u64| {
            header.dirty.contains(*region)
                && header.absent.values().all(|absent| absent.regions.contains(*region))
        };
        if self.marking.is_empty() && regions.clone().all(|region| is_marked(&region)) {
            return Vec::new();
        }
        let unmarked: Vec<_> = regions.clone().filter(|region| !is_marked(region)).collect();
        let mut needs: Vec<_> =
            regions.filter_map(|region| self.marking.get(&region).copied()).collect();
        if !unmarked.is_empty() {
            let note = dirty(&self.header, unmarked.clone());
            self.run_note(None, What::Mark, note, out);
            let id = self.next - 1;
            self.marking.extend(unmarked.into_iter().map(|region| (region, id)));
            needs.push(id);
        }
        needs
    }

    pub(super) fn marked(&mut self, id: u64, fault: Option<Fault>, out: &mut Out<D>) {
        self.marking.retain(|_, note| *note != id);
        self.is_faulted |= fault.is_some();
        let mut waiting = core::mem::take(&mut self.held);
        while let Some(mut held) = waiting.pop_front() {
            held.needs.retain(|note| *note != id);
            if self.is_faulted {
                out.push(failed(held.session, held.tag, Fault::Faulted));
            } else if held.needs.is_empty() {
                let Held { session, tag, extent, op, .. } = held;
                self.run(Some((session, tag)), What::Write { extent }, op, out);
            } else {
                self.held.push_back(held);
            }
        }
    }
}
