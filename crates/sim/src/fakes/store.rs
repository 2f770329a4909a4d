//! The store behind the network: the real machine, with bad days.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use model::{InstanceId, Millis, Revision, Time};
use ports::{Expect, StoreError, Txn, TxnOutcome};
use store::memory::Core;

use crate::{
    Call, Caller, Ctx, Message, Party, StoreAnswer, StoreOp, Watched,
    membership_asks::MembershipQuestion,
};

#[derive(Debug, Default)]
pub struct Store {
    pub core: Core,
    /// Counts restorations from a backup.
    pub incarnation: u32,
    pub outage: Option<Outage>,
    /// Only a script that rolls it back needs backups; for others they are a tenth of the time.
    pub keeps_backups: bool,
    /// What the store was at these times.
    backups: VecDeque<(Time, Core)>,
    watchers: BTreeMap<Party, Revision>,
    /// Who made each revision, until the judges have taken it.
    pub authors: BTreeMap<Revision, Writer>,
    /// A mutant: engines' questions are answered whoever asks them.
    pub asks_unchecked: bool,
}

/// Who wrote, and under which leader's key, if it named one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    pub party: Party,
    pub guard: Option<Revision>,
    /// The engine process, where it says.
    pub process: Option<InstanceId>,
}

/// What is wrong with it just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Nothing is answered.
    Silent,
    /// Everything is refused at once.
    Refusing,
}

const fn process(caller: Caller) -> Option<InstanceId> {
    match caller {
        Caller::Process { instance } => Some(instance),
        Caller::Controller | Caller::Target { .. } => None,
    }
}

/// One backup per second for the last minutes.
const BACKUPS_MAX: usize = 600;
const LIST_MAX: usize = 500;

impl Store {
    pub fn handle(&mut self, ctx: &mut Ctx<'_>, from: Party, call: Call, op: &StoreOp) {
        self.advance(ctx);
        let answer = match self.outage {
            Some(Outage::Silent) => return,
            Some(Outage::Refusing) => StoreAnswer::Unavailable,
            None if !self.is_allowed(from, call.caller, op) => StoreAnswer::Unavailable,
            None => self.serve(ctx, (from, call.caller), op),
        };
        ctx.send(from, Message::FromStore { call, answer });
        self.push(ctx);
    }

    /// Engines reach the store through a controller, which judges what they ask.
    fn is_allowed(&self, from: Party, caller: Caller, op: &StoreOp) -> bool {
        let Party::Node(node) = from else { return true };
        let question = MembershipQuestion { node, process: process(caller), op };
        self.asks_unchecked || question.is_allowed(&self.core)
    }

    /// Leases that are over end, and watchers hear of it.
    pub fn advance(&mut self, ctx: &mut Ctx<'_>) {
        if !self.core.advance(since_start(ctx.now)).is_empty() {
            self.push(ctx);
        }
    }

    pub fn next_expiry(&self) -> Option<Time> {
        let millis = self.core.next_expiry()?.as_millis();
        Some(Time(u64::try_from(millis).unwrap_or(u64::MAX)))
    }

    fn serve(
        &mut self,
        ctx: &mut Ctx<'_>,
        (from, caller): (Party, Caller),
        op: &StoreOp,
    ) -> StoreAnswer {
        match op {
            StoreOp::List => self.list(),
            StoreOp::Read(keys) => match self.core.read(keys) {
                Ok((entries, revision)) => StoreAnswer::Read { entries, revision },
                Err(_) => StoreAnswer::Unavailable,
            },
            StoreOp::Commit(txn) => StoreAnswer::Committed(self.commit(from, process(caller), txn)),
            StoreOp::Lease(request) => {
                StoreAnswer::Lease(self.core.lease(since_start(ctx.now), *request))
            }
            StoreOp::Watch { from: revision } => {
                let watched = self.changes(*revision);
                if !watched.compacted {
                    self.watchers.insert(from, watched.next);
                }
                StoreAnswer::Watched(watched)
            }
        }
    }

    fn commit(
        &mut self,
        party: Party,
        process: Option<InstanceId>,
        txn: &Txn,
    ) -> Result<TxnOutcome, StoreError> {
        let outcome = self.core.commit(txn);
        if let Ok(TxnOutcome::Committed { revision }) = &outcome {
            let guard = txn.compares.iter().find_map(|compare| match compare.expect {
                Expect::CreatedAt(created) if compare.key == "leader" => Some(created),
                _ => None,
            });
            self.authors.insert(*revision, Writer { party, guard, process });
        }
        outcome
    }

    fn list(&self) -> StoreAnswer {
        let mut entries = Vec::new();
        let mut after: Option<String> = None;
        let revision = self.core.revision();
        while let Ok(page) = self.core.list("", after.as_deref(), LIST_MAX, Some(revision)) {
            entries.extend(page.entries);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        StoreAnswer::Listed { entries, revision, incarnation: self.incarnation }
    }

    fn changes(&self, from: Revision) -> Watched {
        let incarnation = self.incarnation;
        match self.core.changes("", from, LIST_MAX) {
            Ok(changes) => {
                let (next, events) = (changes.next, changes.events);
                Watched { from, next, events, incarnation, compacted: false }
            }
            Err(_) => {
                Watched { from, next: from, events: Vec::new(), incarnation, compacted: true }
            }
        }
    }

    /// Sends every watcher what it has not been sent.
    fn push(&mut self, ctx: &mut Ctx<'_>) {
        let newest = self.core.revision();
        let behind: Vec<_> = self
            .watchers
            .iter()
            .filter(|(_, next)| **next <= newest)
            .map(|(p, n)| (*p, *n))
            .collect();
        for (party, next) in behind {
            let watched = self.changes(next);
            if watched.compacted {
                self.watchers.remove(&party);
            } else {
                self.watchers.insert(party, watched.next);
            }
            ctx.send(party, Message::Watched(watched));
        }
    }

    /// A write of the outside: of a fault, or of a test.
    pub fn write(&mut self, ctx: &mut Ctx<'_>, txn: &Txn) -> Result<TxnOutcome, StoreError> {
        let outcome = self.commit(Party::Store, None, txn);
        self.push(ctx);
        outcome
    }

    /// A process that is gone watches no more.
    pub fn forget(&mut self, party: Party) {
        self.watchers.remove(&party);
    }

    /// Called now and then; a clone shares what did not change.
    pub fn back_up(&mut self, now: Time) {
        if !self.keeps_backups {
            return;
        }
        if self.backups.back().is_none_or(|(at, _)| now.since(*at) >= Millis(1_000)) {
            self.backups.push_back((now, self.core.clone()));
            if self.backups.len() > BACKUPS_MAX {
                self.backups.pop_front();
            }
        }
    }

    /// Becomes what it was at `at` or just before. Connections do not survive it.
    pub fn roll_back(&mut self, at: Time) -> bool {
        let Some((_, core)) = self.backups.iter().rev().find(|(taken, _)| *taken <= at) else {
            return false;
        };
        self.core = core.clone();
        self.incarnation += 1;
        self.watchers.clear();
        true
    }

    /// Everything is gone: a new store in its place.
    pub fn wipe(&mut self) {
        self.core = Core::default();
        self.incarnation += 1;
        self.watchers.clear();
        self.backups.clear();
    }
}

/// The store's own time line begins with the run.
fn since_start(now: Time) -> Duration {
    Duration::from_millis(now.0)
}
