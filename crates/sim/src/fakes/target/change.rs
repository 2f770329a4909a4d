//! Changing the membership record: one at a time, by compare-and-swap, and known to the survivors
//! before anything goes on.
//!
//! ```text
//! Drain ─▶ Images ─▶ Commit ⇄ Check ─▶ Rosters ─▶ (done)
//!                       ▲
//! Exclude ──────────────┘
//! ```
//! An exclusion waits for nothing. `Check` reads until the outcome of a commit is known.

use std::{collections::BTreeSet, rc::Rc};

use model::{Key, Membership, Record, ReplicaId, Revision};
use ports::{Compare, Expect, StoreError, Txn, TxnOutcome, Write};

use super::{Phase, STORE_TIMEOUT, Target, child::Purpose};
use crate::{ChildOp, Ctx, StoreAnswer, StoreOp, fakes::disk::BLOCKS};

#[derive(Debug)]
pub(super) struct Change {
    wanted: Membership,
    pub(super) stage: Stage,
    /// The copy that becomes healthy by it.
    admits: Option<ReplicaId>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Exclude,
    /// Until no write is on its way.
    Drain,
    /// Until the copy that joins has every snapshot.
    Images,
    Commit,
    Check,
    Rosters {
        waiting: BTreeSet<ReplicaId>,
    },
}

impl Change {
    pub(super) fn new(wanted: Membership, stage: Stage) -> Self {
        Self { wanted, stage, admits: None }
    }
}

impl Change {
    /// Whether it makes this copy healthy.
    pub(super) fn admits(&self, id: ReplicaId) -> bool {
        self.admits == Some(id)
    }
}

impl Target {
    /// A copy that the config does not want any more is not admitted, unless that is on its way.
    pub(super) fn drop_admission(&mut self) {
        let unwanted = self.change.as_ref().is_some_and(|change| {
            matches!(change.stage, Stage::Drain | Stage::Images)
                && change.admits.is_some_and(|id| !self.is_copied_to(id))
        });
        if unwanted {
            self.change = None;
        }
    }

    /// Nothing may be acknowledged: a copy that counts is not there, or the record is changed.
    pub(super) fn is_held(&self) -> bool {
        let changing =
            self.change.as_ref().is_some_and(|c| !matches!(c.stage, Stage::Drain | Stage::Images));
        changing || self.acknowledging().any(|id| !self.is_open(id))
    }

    pub(super) fn advance_change(&mut self, ctx: &mut Ctx<'_>) {
        if self.change.is_none() && self.is_serving() {
            self.change = self.needed_change();
        }
        let drained = self.lanes.iter().all(super::io::Lane::is_idle);
        let Some(change) = &self.change else { return };
        let complete = change.admits.is_none_or(|id| self.lacks_no_image(id));
        match &change.stage {
            // A copy may have missed the last of the writes that were waited for.
            Stage::Drain if drained && !self.is_due(change) => self.change = None,
            Stage::Exclude => self.commit_change(ctx),
            Stage::Drain if drained && complete => self.commit_change(ctx),
            Stage::Drain if drained => self.bring_images(ctx),
            Stage::Images if complete => self.commit_change(ctx),
            Stage::Rosters { waiting } if waiting.is_empty() => self.change_done(ctx),
            _ => {}
        }
    }

    /// The next change that the state of the copies and the config call for.
    fn needed_change(&self) -> Option<Change> {
        let record = &self.record;
        let mut wanted = record.clone();
        for (id, healthy) in &record.children {
            let item = self.item.children.iter().find(|child| child.replica == *id);
            let leaves = item.is_none_or(|item| item.retire);
            let gone = *healthy && !self.is_open(*id);
            if (leaves || gone) && (!healthy || self.may_exclude(*id, &wanted)) {
                match item {
                    Some(_) => wanted.children.insert(*id, false),
                    None => wanted.children.remove(id),
                };
            }
        }
        if wanted.children != record.children {
            wanted.roster = record.roster.next();
            return Some(Change::new(wanted, Stage::Exclude));
        }
        if self.is_held() {
            return None;
        }
        self.needed_admission(wanted).or_else(|| self.needed_stop())
    }

    fn needed_admission(&self, mut wanted: Membership) -> Option<Change> {
        if let Some(source) = wanted.resync_source {
            let synced = self.acknowledging().all(|id| id == source || self.is_copied(id));
            if synced {
                wanted.resync_source = None;
                return Some(Change::new(wanted, Stage::Drain));
            }
            return None;
        }
        let ready = self
            .item
            .children
            .iter()
            .map(|item| item.replica)
            .find(|id| self.is_copied_to(*id) && self.is_copied(*id))?;
        wanted.children.insert(ready, true);
        wanted.roster = wanted.roster.next();
        Some(Change { admits: Some(ready), ..Change::new(wanted, Stage::Drain) })
    }

    /// What was prepared still holds: every copy that counts by it has every block.
    fn is_due(&self, change: &Change) -> bool {
        let admitted = change.admits.is_none_or(|id| self.is_copied(id));
        let resynced = self.record.resync_source.is_none_or(|source| {
            change.wanted.resync_source.is_some()
                || self.acknowledging().all(|id| id == source || self.is_copied(id))
        });
        admitted && resynced
    }

    fn needed_stop(&self) -> Option<Change> {
        if self.phase != Phase::Stopping {
            return None;
        }
        let mut wanted = self.record.clone();
        wanted.clean = true;
        wanted.owner = None;
        Some(Change::new(wanted, Stage::Drain))
    }

    /// The last healthy copy stays, and so does the one that the others are made equal to.
    fn may_exclude(&self, id: ReplicaId, wanted: &Membership) -> bool {
        let another = wanted
            .children
            .iter()
            .any(|(other, healthy)| *other != id && *healthy && self.is_open(*other));
        wanted.resync_source != Some(id) && another
    }

    fn is_copied(&self, id: ReplicaId) -> bool {
        self.children
            .get(&id)
            .is_some_and(|child| child.is_open() && child.copied == [true; BLOCKS])
    }

    pub(super) fn commit_change(&mut self, ctx: &mut Ctx<'_>) {
        let key = Key::Membership(self.volume).to_string();
        let Some(change) = &mut self.change else { return };
        change.stage = Stage::Commit;
        let value = Record::Membership(Box::new(change.wanted.clone())).encode();
        let expect = Expect::ModifiedAt(self.record.revision);
        let txn = Txn {
            compares: vec![Compare { key: key.clone(), expect }],
            writes: vec![Write::Put { key, value, lease: None }],
        };
        self.ask_store(ctx, StoreOp::Commit(Rc::new(txn)));
    }

    fn check_change(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(change) = &mut self.change {
            change.stage = Stage::Check;
            self.read_record(ctx);
        }
    }

    pub(super) fn beat_change(&mut self, ctx: &mut Ctx<'_>) {
        let late = ctx.now.since(self.asked_at) > STORE_TIMEOUT;
        let stage = self.change.as_ref().map(|change| &change.stage);
        if late && matches!(stage, Some(Stage::Commit | Stage::Check)) {
            self.check_change(ctx);
        }
    }

    pub(super) fn on_change_answer(&mut self, ctx: &mut Ctx<'_>, answer: StoreAnswer) {
        let Some(change) = &self.change else { return };
        match (&change.stage, answer) {
            (Stage::Commit, StoreAnswer::Committed(Ok(TxnOutcome::Committed { revision }))) => {
                self.committed(ctx, revision);
            }
            (
                Stage::Commit,
                StoreAnswer::Committed(
                    Ok(TxnOutcome::Refused { .. }) | Err(StoreError::Unknown { .. }),
                ),
            ) => self.check_change(ctx),
            (Stage::Check, answer) => match self.record_in(&answer) {
                Some(Ok(record)) => self.checked(ctx, record),
                Some(Err(reason)) => self.fail(ctx, reason),
                None => {}
            },
            _ => {}
        }
    }

    fn checked(&mut self, ctx: &mut Ctx<'_>, found: Membership) {
        let Some(change) = &self.change else { return };
        if found.epoch > self.epoch {
            self.self_fence(ctx);
            return;
        }
        let revision = found.revision;
        let ours = Membership { revision: change.wanted.revision, ..found.clone() };
        if revision != self.record.revision && ours == change.wanted {
            self.committed(ctx, revision);
        } else if revision == self.record.revision {
            self.commit_change(ctx);
        } else if self.phase == Phase::Claiming {
            self.change = None;
            self.phase = Phase::Reading;
            self.read_record(ctx);
        } else {
            self.record = found;
            self.change = None;
        }
    }

    fn committed(&mut self, ctx: &mut Ctx<'_>, revision: Revision) {
        let Some(change) = &mut self.change else { return };
        let resynced = self.record.resync_source.is_some() && change.wanted.resync_source.is_none();
        let mut record = change.wanted.clone();
        record.revision = revision;
        // Who is out gets no more writes: what was copied to it once is old from now on.
        let was_healthy = |id: &ReplicaId| self.record.is_recorded_healthy(*id);
        let excluded = self.children.keys().copied().filter(was_healthy);
        let excluded: Vec<_> = excluded.filter(|id| !record.is_recorded_healthy(*id)).collect();
        for id in excluded {
            self.withdraw_copies(id);
        }
        self.record = record;
        ctx.out.changed = true;
        if self.phase == Phase::Stopping && self.record.clean {
            self.end(ctx, Phase::Stopped);
            return;
        }
        if self.phase == Phase::Claiming {
            self.phase = Phase::Settling;
        }
        if resynced {
            self.children.values_mut().for_each(|child| child.copied = [false; BLOCKS]);
        }
        self.send_rosters(ctx);
    }

    fn send_rosters(&mut self, ctx: &mut Ctx<'_>) {
        let members = Rc::new(self.record.children.clone());
        let roster = self.record.roster;
        let survivors: Vec<_> = self.acknowledging().collect();
        let mut waiting = BTreeSet::new();
        for id in survivors {
            let op = ChildOp::Roster { roster, members: members.clone() };
            if self.ask(ctx, id, op, Purpose::Roster) {
                waiting.insert(id);
            }
        }
        if let Some(change) = &mut self.change {
            change.stage = Stage::Rosters { waiting };
        }
        self.advance_change(ctx);
    }

    pub(super) fn rostered(&mut self, id: ReplicaId) {
        if let Some(Change { stage: Stage::Rosters { waiting }, .. }) = &mut self.change {
            waiting.remove(&id);
        }
    }

    fn change_done(&mut self, ctx: &mut Ctx<'_>) {
        self.change = None;
        self.held_since = None;
        self.finish_writes(ctx);
    }

    pub(super) fn forget_in_change(&mut self, id: ReplicaId) {
        let Some(change) = &mut self.change else { return };
        if let Stage::Rosters { waiting } = &mut change.stage {
            waiting.remove(&id);
        }
        // What was being prepared does not fit any more: an exclusion may be due first.
        let prepared = matches!(change.stage, Stage::Drain | Stage::Images);
        if prepared && self.phase != Phase::Claiming {
            self.change = None;
        }
    }
}
