//! Changing the membership: one change at a time, by compare-and-swap, and known to the survivors
//! before anything goes on.
//!
//! ```text
//! Join ─────┐
//! Recover ──┼─▶ Commit ⇄ Check ─▶ Rosters ─▶ (done)
//! (others) ─┘
//! ```
//! `Check` reads until the outcome of a commit is known; the same commit is tried again, never
//! another one, so that whichever copy of it arrives last changes nothing.

use alloc::{boxed::Box, collections::BTreeMap};

use model::{Membership, ReplicaId, Revision, Roster};
use pool::Absent;

use super::{
    Output, Phase, StoreAnswer, StoreRequest, Target, Turn,
    child::{Child, Purpose, Stand},
    join::Join,
};
use crate::{
    Fault, Request,
    slots::{Slot, Slots},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Change {
    Join {
        slot: Slot,
        stage: Join,
    },
    /// The children that a recovery copied to are flushed.
    Recover {
        waiting: Slots,
    },
    Commit(Asked),
    Check(Asked),
    Rosters {
        waiting: Slots,
        cause: Cause,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) wanted: Membership,
    pub(super) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    Claim,
    Exclude(Slots),
    Admit(Slot),
    /// All are equal again.
    Recovered,
    /// Every host was told that unflushed writes may be gone.
    Told,
    /// What a host wants to have reserved.
    Reserve,
    /// What those who hold a snapshot have flushed.
    Snapshot,
    Stop,
    /// No commit: a returning peer needs everything.
    Full(Slot),
}

impl Change {
    pub(super) const fn is_exclusion(&self) -> bool {
        let cause = match self {
            Self::Commit(asked) | Self::Check(asked) => asked.cause,
            Self::Rosters { cause, .. } => *cause,
            Self::Join { .. } | Self::Recover { .. } => return false,
        };
        matches!(cause, Cause::Exclude(_))
    }
}

impl<D: Clone> Target<D> {
    pub(super) fn advance_change(&mut self, turn: &mut Turn<'_, D>) {
        if !self.is_started() {
            return;
        }
        let is_preparing =
            matches!(self.change, Some(Change::Join { .. } | Change::Recover { .. }));
        if is_preparing && !self.lost.is_empty() {
            // An exclusion does not wait for what is only prepared.
            self.abort_preparation();
        }
        if self.change.is_none() {
            self.retire_children(turn);
            self.begin_change(turn);
        }
        self.advance_join(turn);
    }

    fn begin_change(&mut self, turn: &mut Turn<'_, D>) {
        let wanted = self.needed_exclusion();
        if let Some(asked) = wanted {
            self.commit(turn, asked);
        } else if self.phase == Phase::Serving && self.lost.is_empty() {
            self.begin_growth(turn);
        }
    }

    /// Changes that can wait while anything is wrong.
    fn begin_growth(&mut self, turn: &mut Turn<'_, D>) {
        if self.begin_reserve(turn) || self.begin_recovered(turn) || self.begin_join(turn) {
            return;
        }
        if self.record.unflushed_lost && self.hosts.is_paid() {
            let mut wanted = self.record_to_change();
            wanted.unflushed_lost = false;
            self.commit(turn, Asked { wanted, cause: Cause::Told });
            return;
        }
        self.greet_absent(turn);
    }

    pub(super) fn commit(&mut self, turn: &mut Turn<'_, D>, asked: Asked) {
        let revision = self.record.revision;
        let record = Box::new(Membership { revision, ..asked.wanted.clone() });
        turn.put(Output::AskStore(StoreRequest::Swap(record)));
        self.change = Some(Change::Commit(asked));
    }

    pub(super) fn store_answered(&mut self, turn: &mut Turn<'_, D>, answer: StoreAnswer) {
        let change = self.change.take();
        match (change, answer) {
            (Some(Change::Commit(asked)), StoreAnswer::Committed(revision)) => {
                self.committed(turn, asked, revision);
            }
            (Some(Change::Commit(asked)), _) => {
                self.change = Some(Change::Check(asked));
                turn.put(Output::AskStore(StoreRequest::Read));
            }
            (Some(Change::Check(asked)), StoreAnswer::Record(found)) => {
                self.checked(turn, asked, found);
            }
            (Some(Change::Check(asked)), _) => {
                self.change = Some(Change::Check(asked));
                self.ask_again = Some(turn.now + self.times.retry);
            }
            (change, StoreAnswer::Record(found)) if self.phase == Phase::Reading => {
                self.change = change;
                self.record_read(turn, found);
            }
            (change, _) if self.phase == Phase::Reading => {
                self.change = change;
                self.ask_again = Some(turn.now + self.times.retry);
            }
            (change, _) => self.change = change,
        }
    }

    fn checked(&mut self, turn: &mut Turn<'_, D>, asked: Asked, found: Membership) {
        if found.epoch > self.epoch {
            self.self_fence(turn);
            return;
        }
        let revision = found.revision;
        if revision == self.record.revision {
            self.commit(turn, asked);
            return;
        }
        let ours = Membership { revision: asked.wanted.revision, ..found.clone() };
        if ours == asked.wanted {
            self.committed(turn, asked, revision);
        } else if asked.cause == Cause::Claim {
            self.phase = Phase::Reading;
            self.record_read(turn, found);
        } else {
            // Only the control plane could have changed it, and only together with the epoch.
            self.fail(turn, "the membership record was changed by somebody else");
        }
    }

    fn committed(&mut self, turn: &mut Turn<'_, D>, asked: Asked, revision: Revision) {
        let before = core::mem::replace(&mut self.record, asked.wanted);
        self.record.revision = revision;
        turn.put(Output::Seen);
        match asked.cause {
            Cause::Claim => self.claim_committed(turn, &before),
            Cause::Exclude(out) => self.exclusion_committed(turn, out),
            Cause::Admit(slot) => self.admission_committed(turn, slot),
            Cause::Recovered => {
                self.regroup();
                let all = self.groups.counting;
                self.send_rosters(turn, asked.cause, all);
            }
            Cause::Stop => self.end(turn, Phase::Stopped),
            Cause::Reserve => self.reserve_committed(turn),
            Cause::Snapshot => self.snapshot_proven(turn),
            Cause::Told | Cause::Full(_) => {}
        }
    }

    /// Tells every member, and waits for those that are recorded healthy. `intact` are those that
    /// hold every acknowledged write from now on.
    pub(super) fn send_rosters(&mut self, turn: &mut Turn<'_, D>, cause: Cause, intact: Slots) {
        let mut waiting = Slots::NONE;
        let slots = self.slots_where(|_| true);
        for slot in slots {
            let is_intact = intact.contains(slot);
            let (roster, members) = (self.record.roster, self.record.children.clone());
            let absent = self.absences(slot);
            let flushed = self.flush_marks();
            let Some(child) = self.children.get_mut(slot) else { continue };
            match child.stand {
                Stand::Healthy if !self.lost.contains(slot) => {
                    let intact = is_intact;
                    let request = Request::Roster { roster, members, absent, flushed, intact };
                    child.send(turn, Purpose::Roster(roster), request);
                    waiting.insert(slot);
                }
                // Its own roster stays; it must mark for the absent like everyone else, from the
                // next write on: requests and data may overtake each other.
                Stand::Imaging | Stand::Rebuilding => {
                    child.send(turn, Purpose::Roster(roster), Request::Absent { absent });
                    waiting.insert(slot);
                }
                _ => {}
            }
        }
        self.change = Some(Change::Rosters { waiting, cause });
    }

    /// Peers that are not healthy, as `slot` is to remember them.
    pub(super) fn absences(&self, slot: Slot) -> BTreeMap<ReplicaId, Absent> {
        let others = self.children.iter().filter(|(other, child)| {
            *other != slot && !matches!(child.stand, Stand::Healthy | Stand::Joining)
        });
        others
            .map(|(_, child)| {
                let (base, flushed) = (child.base, child.known);
                (child.id, Absent { base, flushed, regions: child.missing() })
            })
            .collect()
    }

    pub(super) fn rostered(
        &mut self,
        turn: &mut Turn<'_, D>,
        slot: Slot,
        roster: Roster,
        fault: Option<Fault>,
    ) {
        if fault.is_some() {
            self.lose(turn, slot, super::seen::Why::Faulted);
            return;
        }
        if let Some(child) = self.children.get_mut(slot)
            && child.stand == Stand::Healthy
        {
            child.roster = child.roster.max(roster);
        }
        if roster == self.record.roster {
            self.roster_known(turn, slot);
        }
    }

    /// It knows, or it is gone and need not.
    pub(super) fn roster_known(&mut self, turn: &mut Turn<'_, D>, slot: Slot) {
        if let Some(Change::Rosters { waiting, .. }) = &mut self.change {
            waiting.remove(slot);
            if waiting.is_empty() {
                self.change = None;
                self.rosters_done(turn);
            }
        }
    }

    fn rosters_done(&mut self, turn: &mut Turn<'_, D>) {
        self.release_leaving(turn);
        // Also those whose own round was broken off because a survivor was lost in it: this one
        // told everybody what they lack.
        for slot in self.slots_where(Child::awaits_greeting) {
            self.greet(turn, slot);
        }
        self.retry_reads(turn);
        self.settle_failed(turn);
    }
}
