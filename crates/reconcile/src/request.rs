//! Users' requests: accepted as soon as they are durable.

#[cfg(test)]
mod tests;

use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::String,
    vec::Vec,
};

use model::{EventKind, Revision, Severity, Subject, Txn};
use plan::{Accepted, Drill, Planner, Refusal, Request};

use crate::{Effect, Outcome, Reconciler, RequestId, commit::Purpose, limits::REQUEST_TRIES};

#[derive(Debug, Default)]
pub(crate) struct Requests {
    flying: BTreeMap<RequestId, Pending>,
    /// Lost a race with another write: admitted again once the world has moved on.
    retries: Vec<(RequestId, Pending)>,
    recovery: Option<RecoveryRun>,
}

#[derive(Clone, Debug)]
struct Pending {
    request: Request,
    if_spec: Option<u64>,
    tries: u32,
    seen: Revision,
}

#[derive(Debug)]
struct RecoveryRun {
    id: RequestId,
    txns: VecDeque<Txn>,
    left_out: Vec<String>,
}

impl<P: Planner> Reconciler<P> {
    pub(crate) fn request(&mut self, id: RequestId, request: Request, if_spec: Option<u64>) {
        self.admit(id, Pending { request, if_spec, tries: 0, seen: Revision::ZERO });
    }

    fn admit(&mut self, id: RequestId, mut pending: Pending) {
        if !self.may_plan() {
            self.reply(id, Err(Refusal::NotLeading));
            return;
        }
        if let Request::Recover { era, accept_data_loss } = &pending.request {
            self.begin_recovery(id, *era, &accept_data_loss.clone());
            return;
        }
        match plan::admit(&self.world, &pending.request, pending.if_spec) {
            Err(refusal) => self.reply(id, Err(refusal)),
            Ok(txn) if txn.writes.is_empty() && !pending.request.is_told_alone() => {
                let reply = Accepted { revision: self.world.revision, words: Vec::new() };
                self.reply(id, Ok(reply));
            }
            Ok(txn) => {
                let subject = pending.request.subject();
                let words = pending.request.words();
                let txn = self.tell(txn, subject, (EventKind::Asked, Severity::Normal), words);
                pending.tries += 1;
                pending.seen = self.world.revision;
                self.requests.flying.insert(id, pending);
                self.send(None, txn, Purpose::Request(id));
            }
        }
    }

    fn reply(&mut self, id: RequestId, reply: Result<Accepted, Refusal>) {
        self.effects.push(Effect::Reply { id, reply });
    }

    pub(crate) fn request_done(&mut self, id: RequestId, revision: Revision) {
        if let Some(pending) = self.requests.flying.remove(&id) {
            self.queue.push(pending.request.subject());
            self.effects.extend(self.strike(&pending.request));
            self.reply(id, Ok(Accepted { revision, words: Vec::new() }));
        }
    }

    /// Told first, then done: nobody wonders afterwards who ended a target.
    fn strike(&self, request: &Request) -> Option<Effect> {
        let Request::DrillVolume { volume, drill: Drill::Strike { .. } } = request else {
            return None;
        };
        let target = self.world.volume(*volume)?.record.layout.target.as_ref()?;
        Some(Effect::Strike { node: target.node, volume: *volume, epoch: target.epoch })
    }

    pub(crate) fn request_failed(&mut self, id: RequestId, outcome: Outcome) {
        let Some(pending) = self.requests.flying.remove(&id) else { return };
        if outcome == Outcome::Unavailable {
            self.reply(id, Err(Refusal::StoreUnavailable));
        } else if pending.tries >= REQUEST_TRIES {
            let why = "other changes kept coming first: try again".into();
            self.reply(id, Err(Refusal::Conflict { why }));
        } else {
            self.requests.retries.push((id, pending));
        }
    }

    /// Its outcome is not known: the client asks again, and a repeated request is recognised.
    pub(crate) fn request_lost(&mut self, id: RequestId) {
        if self.requests.flying.remove(&id).is_some() {
            self.reply(id, Err(Refusal::NotLeading));
        }
    }

    /// Requests that lost a race are admitted again as soon as the world has moved on.
    pub(crate) fn retry_requests(&mut self) {
        if self.requests.retries.is_empty() {
            return;
        }
        for (id, pending) in core::mem::take(&mut self.requests.retries) {
            if self.may_plan() && pending.seen == self.world.revision {
                self.requests.retries.push((id, pending));
            } else {
                self.admit(id, pending);
            }
        }
    }

    fn begin_recovery(
        &mut self,
        id: RequestId,
        era: model::Era,
        accepted: &alloc::collections::BTreeSet<model::VolumeId>,
    ) {
        if self.requests.recovery.is_some() {
            let why = "a recovery is running".into();
            self.reply(id, Err(Refusal::Conflict { why }));
            return;
        }
        match plan::recover(&self.world, era, accepted) {
            Err(refusal) => self.reply(id, Err(refusal)),
            Ok(recovery) => {
                let txns = recovery.txns.into();
                let left_out = recovery.left_out;
                self.requests.recovery = Some(RecoveryRun { id, txns, left_out });
                self.recovery_goes_on(self.world.revision);
            }
        }
    }

    pub(crate) fn recovery_goes_on(&mut self, revision: Revision) {
        let Some(run) = &mut self.requests.recovery else { return };
        if let Some(txn) = run.txns.pop_front() {
            let left = run.txns.len();
            let words = format!("recovered from the pools, {left} records to go");
            let kind = (EventKind::Asked, Severity::Warning);
            let txn = self.tell(txn, Subject::Cluster, kind, words);
            self.send(None, txn, Purpose::Recover);
            return;
        }
        if let Some(run) = self.requests.recovery.take() {
            self.delivery.all_whole();
            self.reply(run.id, Ok(Accepted { revision, words: run.left_out }));
        }
    }

    pub(crate) fn recovery_failed(&mut self, outcome: Outcome) {
        if let Some(run) = self.requests.recovery.take() {
            let refusal = match outcome {
                Outcome::Unavailable => Refusal::StoreUnavailable,
                _ => Refusal::Conflict { why: "something changed meanwhile: recover again".into() },
            };
            self.reply(run.id, Err(refusal));
        }
    }

    pub(crate) fn abandon_recovery(&mut self) {
        if let Some(run) = self.requests.recovery.take() {
            self.reply(run.id, Err(Refusal::NotLeading));
        }
    }
}
