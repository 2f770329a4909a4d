//! From memory to the disk: one batch of the journal is written at a time, one sync runs at a time,
//! and whoever comes meanwhile joins the next.
//!
//! A flush needs a sync that begins after it came. That sync makes durable the data of every write
//! answered before it began; their mappings are then recorded, and a second sync makes those
//! durable. With no new mapping the first sync is all.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use block::Durability;

use super::{OpId, Pool, Whom, Work, new_op};
use crate::{
    Error, Fault, Flaw, Io, IoError, Reply, RequestId, journal, record::Cluster, slab::Slab,
};

#[derive(Clone, Debug, Default)]
pub(super) struct Commit {
    /// The newest batch with anything but hints.
    pub hard: u64,
    /// The newest batch with a mapping.
    pub mapped: u64,
    /// Writes that wait for the batch of their hints, oldest first.
    written: VecDeque<(u64, OpId)>,
    durable: BTreeMap<(u64, u64), Waiter>,
    /// By the number of the sync that they wait for.
    synced: BTreeMap<(u64, u64), Waiter>,
    /// Mappings that count by themselves once their batch is durable, oldest first.
    pub settling: VecDeque<(u64, Cluster, u64)>,
    sync: Option<Sync>,
    /// Syncs begun so far.
    syncs: u64,
    /// Makes keys distinct.
    turn: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    Op(OpId),
    Checkpoint,
}

#[derive(Clone, Copy, Debug)]
struct Sync {
    /// The newest batch that was written when it began.
    covers: u64,
}

/// A mapping's bytes in the journal.
const MAP: usize = 21;

impl Commit {
    pub fn when_written(&mut self, lsn: u64, op: OpId) {
        self.written.push_back((lsn, op));
    }

    /// These pages are not what they were when they were mapped.
    pub fn unsettle(&mut self, cluster: Cluster, pages: u64) {
        for (_, at, settling) in &mut self.settling {
            if *at == cluster {
                *settling &= !pages;
            }
        }
    }

    fn key(&mut self, first: u64) -> (u64, u64) {
        self.turn += 1;
        (first, self.turn)
    }
}

impl Pool {
    pub(super) fn admit_flush(&mut self, request: RequestId) {
        let hard = self.commit.hard;
        let op = self.ops.insert(new_op(Some(request), None, Work::Flush { hard }));
        self.when_synced(Waiter::Op(op));
    }

    /// Tells it when a sync that begins from now on has ended.
    pub(super) fn when_synced(&mut self, waiter: Waiter) {
        let key = self.commit.key(self.commit.syncs + 1);
        self.commit.synced.insert(key, waiter);
    }

    pub(super) fn when_durable(&mut self, lsn: u64, op: OpId) {
        self.wait_durable(lsn, Waiter::Op(op));
    }

    pub(super) fn wait_durable(&mut self, lsn: u64, waiter: Waiter) {
        let key = self.commit.key(lsn);
        self.commit.durable.insert(key, waiter);
    }

    pub(super) fn pump_commit(&mut self) {
        if self.log.is_idle() && self.commit.durable.is_empty() && self.commit.synced.is_empty() {
            return;
        }
        if self.log.used() > self.log.size() {
            return self.fail(Fault::JournalFull);
        }
        for (offset, data) in self.log.start_write() {
            self.io(Io::Write { offset, data, durability: Durability::Volatile }, Whom::Journal);
        }
        self.serve_durable();
        if self.commit.sync.is_none() && self.wants_sync() {
            self.commit.sync = Some(Sync { covers: self.log.written() });
            self.commit.syncs += 1;
            for pending in self.pending.values_mut() {
                pending.syncing = core::mem::take(&mut pending.landed);
            }
            self.io(Io::Sync, Whom::Sync);
        }
    }

    fn wants_sync(&self) -> bool {
        let is_written = |lsn: u64| lsn <= self.log.written();
        let waiter = self.commit.synced.values().next().copied();
        let needs_more = waiter.is_some_and(|waiter| match waiter {
            Waiter::Checkpoint => true,
            // With records before it that are not written yet, it would need a second sync.
            Waiter::Op(op) => match self.ops.get(op).map(|op| &op.work) {
                Some(Work::Flush { hard }) => is_written(*hard),
                _ => true,
            },
        });
        needs_more || self.commit.durable.keys().next().is_some_and(|(lsn, _)| is_written(*lsn))
    }

    pub(super) fn journal_done(&mut self, result: Result<(), IoError>) {
        if let Err(error) = result {
            return self.fail(Fault::Journal(error));
        }
        if !self.log.write_done() {
            return;
        }
        let written = self.log.written();
        while let Some((_, op)) = self.commit.written.pop_front_if(|(lsn, _)| *lsn <= written) {
            match self.ops.get(op).map(|op| &op.work) {
                Some(Work::Write(_)) => self.hints_done(op),
                _ => self.finish(op, Ok(Reply::Done)),
            }
        }
    }

    pub(super) fn sync_done(&mut self, result: Result<(), IoError>) {
        let Some(sync) = self.commit.sync.take() else { return };
        if let Err(error) = result {
            return self.fail(Fault::Sync(error));
        }
        self.log.synced(sync.covers);
        self.settle_mapped();
        self.harvest();
        if self.clusters.release(self.log.durable()) {
            self.feed_starved();
        }
        let syncs = self.commit.syncs;
        while let Some(entry) = self.commit.synced.first_entry()
            && entry.key().0 <= syncs
        {
            let waiter = entry.remove();
            self.sync_reached(waiter);
        }
        self.serve_durable();
    }

    fn settle_mapped(&mut self) {
        let durable = self.log.durable();
        let settling = &mut self.commit.settling;
        let mut ready = Vec::new();
        while let Some((_, cluster, pages)) = settling.pop_front_if(|(lsn, ..)| *lsn <= durable) {
            ready.push((cluster, pages));
        }
        for (cluster, pages) in ready {
            self.settle(cluster, pages);
        }
    }

    /// Mappings of what had landed before the sync began.
    fn harvest(&mut self) {
        let ready: Vec<(Cluster, u64)> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.syncing != 0)
            .map(|(cluster, pending)| (*cluster, pending.syncing))
            .collect();
        for (cluster, pages) in ready {
            self.trust(cluster, pages);
        }
    }

    fn sync_reached(&mut self, waiter: Waiter) {
        match waiter {
            Waiter::Checkpoint => self.checkpoint_synced(),
            Waiter::Op(op) => match self.ops.get(op).map(|op| &op.work) {
                Some(Work::Flush { hard }) => {
                    let lsn = (*hard).max(self.commit.mapped);
                    let is_done = self.flaws.has(Flaw::FlushSkipsJournal);
                    self.when_durable(if is_done { 0 } else { lsn }, op);
                }
                _ => self.run(op),
            },
        }
    }

    fn serve_durable(&mut self) {
        let durable = self.log.durable();
        while let Some(entry) = self.commit.durable.first_entry()
            && entry.key().0 <= durable
        {
            match entry.remove() {
                Waiter::Checkpoint => self.checkpoint_durable(),
                Waiter::Op(op) => self.finish(op, Ok(Reply::Done)),
            }
        }
    }

    /// Nothing is known to be durable any more: nothing is promised any more.
    pub(super) fn fail(&mut self, fault: Fault) {
        if self.fault.is_some() {
            return;
        }
        self.fault = Some(fault);
        for request in self.waiting() {
            self.answer(request, Err(Error::Faulted { fault }));
        }
        // Their numbers will be used again.
        self.ios.each(|io| {
            if !matches!(io.whom, Whom::Discard) {
                io.whom = Whom::Nobody;
            }
        });
        self.ops = Slab::default();
        self.commit = Commit::default();
        self.gates.clear();
        self.stalled.clear();
        self.starved.clear();
        self.checkpoint = None;
        self.checkpoint_waiters.clear();
        self.exporting = None;
        self.merging = None;
    }

    /// Whether hints of so many bytes leave room for the mappings that follow them.
    pub(super) fn has_room_for_hints(&self, bytes: u64) -> bool {
        self.has_room(bytes, self.log.size() / 4)
    }

    /// Room for other records, which may go further than hints: what gives space back must not wait
    /// behind what takes it.
    pub(super) fn has_room_for_records(&self, bytes: u64) -> bool {
        self.has_room(bytes, self.log.size() / 8)
    }

    fn has_room(&self, bytes: u64, kept: u64) -> bool {
        let count = self.pending.len();
        let packed = journal::blocks(count * MAP) + self.log.size() / 8;
        let single = u64::try_from(count).expect("a count fits 64 bits");
        let needed = self.log.used() + bytes.div_ceil(4_000) + 1 + packed.min(single) + kept;
        needed <= self.log.size()
    }

    /// Whether an op must wait for room. Those that wait already go first.
    pub(super) fn must_stall(&self, bytes: u64) -> bool {
        !self.stalled.is_empty() || !self.has_room_for_records(bytes)
    }

    /// Waits until a checkpoint has made room in the journal.
    pub(super) fn stall(&mut self, op: OpId) {
        self.stalled.push_back(op);
        self.checkpoint_wanted = true;
    }

    pub(super) fn feed_stalled(&mut self) {
        for op in core::mem::take(&mut self.stalled) {
            self.run(op);
        }
    }

    /// Waits until a cluster leaves quarantine.
    pub(super) fn starve(&mut self, op: OpId) {
        self.starved.push_back(op);
        if self.log.durable() < self.commit.hard {
            self.when_synced_nobody();
        }
    }

    pub(super) fn feed_starved(&mut self) {
        for op in core::mem::take(&mut self.starved) {
            self.run(op);
        }
    }

    /// A sync for what is quarantined; nobody else may be waiting for one.
    fn when_synced_nobody(&mut self) {
        let op = self.ops.insert(new_op(None, None, Work::Flush { hard: self.commit.hard }));
        self.when_synced(Waiter::Op(op));
    }
}
