//! The start of a target: read the record, fence the copies, claim.

use model::{Key, Membership, Record, Time};

use super::{
    FENCE_TIMEOUT, Phase, READ_LEASE_OVER, STORE_TIMEOUT, Target,
    change::{Change, Stage},
};
use crate::{Ctx, StoreAnswer, StoreOp, Timer};

impl Target {
    pub(super) fn read_record(&mut self, ctx: &mut Ctx<'_>) {
        let key = Key::Membership(self.volume).to_string();
        self.ask_store(ctx, StoreOp::Read(vec![key]));
    }

    /// What the answer to a read says, if it is one of this record.
    pub(super) fn record_in(
        &self,
        answer: &StoreAnswer,
    ) -> Option<Result<Membership, &'static str>> {
        let StoreAnswer::Read { entries, .. } = answer else { return None };
        let Some(entry) = entries.first() else { return Some(Err("there is no record")) };
        let key = Key::Membership(self.volume);
        match Record::decode(&key, &entry.value, entry.modified) {
            Ok(Record::Membership(record)) => Some(Ok(*record)),
            _ => Some(Err("the record does not decode")),
        }
    }

    pub fn on_store(&mut self, ctx: &mut Ctx<'_>, number: u64, answer: StoreAnswer) {
        if number != self.asked {
            return;
        }
        if self.phase == Phase::Reading {
            match self.record_in(&answer) {
                Some(Ok(record)) => self.begin_fencing(ctx, record),
                Some(Err(reason)) => self.fail(ctx, reason),
                None => {}
            }
        } else {
            self.on_change_answer(ctx, answer);
        }
        self.advance(ctx);
    }

    fn begin_fencing(&mut self, ctx: &mut Ctx<'_>, record: Membership) {
        if record.epoch > self.epoch {
            self.self_fence(ctx);
            return;
        }
        let foreign = record.owner.is_some_and(|owner| owner != self.item.instance);
        if record.epoch < self.epoch || foreign {
            self.fail(ctx, "the record is not ours to claim");
            return;
        }
        self.record = record;
        self.phase = Phase::Fencing;
        self.asked_at = ctx.now;
        let healthy: Vec<_> = self.acknowledging().collect();
        for id in healthy {
            self.open(ctx, id);
        }
        self.advance_fencing(ctx, false);
    }

    /// Claims as soon as every copy answered, or `late` with those that did.
    pub(super) fn advance_fencing(&mut self, ctx: &mut Ctx<'_>, late: bool) {
        let waiting = self.acknowledging().any(|id| {
            let link = self.children.get(&id).map(|child| &child.link);
            matches!(link, Some(super::child::Link::Opening { .. }))
        });
        if waiting && !late {
            return;
        }
        let open: Vec<_> = self.acknowledging().filter(|id| self.is_open(*id)).collect();
        let source = self.record.resync_source;
        if open.is_empty() || source.is_some_and(|source| !open.contains(&source)) {
            // Nothing to start from: everything is looked at again at one of the next beats.
            self.phase = Phase::Reading;
            self.asked_at = ctx.now;
            return;
        }
        let mut wanted = self.record.clone();
        let all = wanted.children.values().filter(|healthy| **healthy).count();
        wanted.owner = Some(self.item.instance);
        wanted.clean = false;
        wanted.roster = wanted.roster.next();
        for (id, healthy) in &mut wanted.children {
            *healthy &= open.contains(id);
        }
        if wanted.resync_source.is_none() && !self.record.clean && open.len() > 1 {
            let local = open.iter().find(|id| self.is_local(**id));
            wanted.resync_source = local.or(open.first()).copied();
        }
        self.serves_at = if open.len() == all { ctx.now } else { ctx.now + READ_LEASE_OVER };
        self.phase = Phase::Claiming;
        self.change = Some(Change::new(wanted, Stage::Drain));
    }

    /// Serves, once its roster is known to the copies and no predecessor can read any more.
    pub fn settle_claim(&mut self, ctx: &mut Ctx<'_>) {
        if self.phase != Phase::Settling || self.change.is_some() {
            return;
        }
        if ctx.now < self.serves_at {
            let span = self.serves_at.since(ctx.now);
            ctx.wake_in(span, Timer::TargetServes(self.volume, self.epoch));
            return;
        }
        self.phase = if self.item.serve { Phase::Serving } else { Phase::Stopping };
        ctx.oracle.serves(self.volume);
        ctx.out.changed = true;
    }

    pub(super) fn beat_claim(&mut self, ctx: &mut Ctx<'_>) {
        let waited = |since: Time| ctx.now.since(since);
        match self.phase {
            Phase::Reading if waited(self.asked_at) > STORE_TIMEOUT => self.read_record(ctx),
            Phase::Fencing if waited(self.asked_at) > FENCE_TIMEOUT => {
                self.advance_fencing(ctx, true);
            }
            _ => {}
        }
    }
}
