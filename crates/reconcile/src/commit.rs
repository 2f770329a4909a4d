//! Commits under way: one per subject, guarded by the lead, with the space they take set aside.

#[cfg(test)]
mod tests;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};

use model::{Compare, EventKind, Expect, Key, Record, Revision, Severity, Subject, Txn, Write};
use plan::{Planner, Pledge, Step};

use crate::{CommitId, Effect, Outcome, Reconciler, RequestId, limits::COMMITS_IN_FLIGHT};

#[derive(Debug, Default)]
pub(crate) struct Commits {
    next: u64,
    flying: BTreeMap<CommitId, Flight>,
    busy: BTreeMap<Subject, Again>,
    /// Committed, and not yet seen in the watch: the subject rests until its own change is known.
    landed: BTreeMap<(Revision, CommitId), Flight>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    No,
    Yes,
}

#[derive(Debug)]
struct Flight {
    subject: Option<Subject>,
    purpose: Purpose,
    pledge: Pledge,
    pools: Vec<model::PoolId>,
}

#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    Step(&'static str),
    Register,
    Request(RequestId),
    Recover,
}

impl Commits {
    pub(crate) fn is_empty(&self) -> bool {
        self.flying.is_empty() && self.landed.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.flying.len() >= COMMITS_IN_FLIGHT
    }

    pub(crate) fn is_busy(&self, subject: Subject) -> bool {
        self.busy.contains_key(&subject)
    }

    pub(crate) fn plan_again(&mut self, subject: Subject) {
        if let Some(again) = self.busy.get_mut(&subject) {
            *again = Again::Yes;
        }
    }

    pub(crate) fn next_id(&mut self) -> CommitId {
        self.next += 1;
        CommitId(self.next)
    }
}

impl<P: Planner> Reconciler<P> {
    pub(crate) fn commit_step(&mut self, step: &Step) {
        let Some(txn) = plan::apply(&self.world, step) else {
            // What it was about is gone: the watch has it already.
            self.queue.back_off(step.subject, self.now);
            return;
        };
        let words = format!("{}, because {}", step.action, step.why);
        let severity = step.action.severity();
        let txn = self.tell(txn, step.subject, (EventKind::Stepped, severity), words);
        self.commit(step.subject, txn, Purpose::Step(step.action.kind()));
    }

    /// Adds the event that tells of it.
    pub(crate) fn tell(
        &mut self,
        txn: Txn,
        subject: Subject,
        kind: (EventKind, Severity),
        words: String,
    ) -> Txn {
        let name = self.name_of(subject).or_else(|| named_in(&txn, subject));
        let name = name.unwrap_or_else(|| subject.to_string());
        self.effects.push(Effect::Note { words: format!("{subject} {name}: {words}") });
        self.journal.add(txn, self.now, (subject, name), kind, words)
    }

    fn name_of(&self, subject: Subject) -> Option<String> {
        let world = &self.world;
        match subject {
            Subject::Volume(id) => world.volume(id).map(|view| view.record.meta.name.clone()),
            Subject::Node(id) => world.node(id).map(|view| view.record.meta.name.clone()),
            Subject::Pool(id) => world.pools.get(&id).map(|view| view.record.meta.name.clone()),
            Subject::Snapshot(id) => world.snapshots.get(&id).map(|s| s.meta.name.clone()),
            Subject::Host(id) => world.hosts.get(&id).map(|view| view.record.meta.name.clone()),
            Subject::Cluster => None,
        }
    }

    pub(crate) fn commit(&mut self, subject: Subject, txn: Txn, purpose: Purpose) {
        self.commits.busy.insert(subject, Again::No);
        self.send(Some(subject), txn, purpose);
    }

    /// Sends a guarded commit: it is refused if this controller does not lead any more.
    pub(crate) fn send(&mut self, subject: Option<Subject>, mut txn: Txn, purpose: Purpose) {
        let Some(created) = self.lead.created() else { return };
        let guard = Compare { key: Key::Leader, expect: Expect::CreatedAt(created) };
        txn.compares.insert(0, guard);
        let pledge = self.world.pledge(&txn);
        let pools = self.pools_left(&txn);
        let id = self.commits.next_id();
        self.commits.flying.insert(id, Flight { subject, purpose, pledge, pools });
        self.effects.push(Effect::Commit { id, txn });
    }

    /// Pools that a transaction takes replicas out of: they may have room when it is done.
    fn pools_left(&self, txn: &Txn) -> Vec<model::PoolId> {
        let mut pools = BTreeSet::new();
        for write in &txn.writes {
            let Key::Volume(id) = write.key() else {
                continue;
            };
            let old = self.world.volume(*id).into_iter();
            pools.extend(old.flat_map(|view| &view.record.layout.replicas).map(|r| r.pool));
        }
        pools.into_iter().collect()
    }

    pub(crate) fn committed(&mut self, id: CommitId, outcome: Outcome) {
        if self.lead_committed(id, outcome) || outcome == Outcome::Unknown {
            return;
        }
        let Some(flight) = self.commits.flying.remove(&id) else { return };
        match outcome {
            Outcome::Committed { revision } if revision > self.world.revision => {
                self.commits.landed.insert((revision, id), flight);
            }
            Outcome::Committed { revision } => self.landed(flight, revision),
            Outcome::Refused | Outcome::Unavailable => self.failed(&flight, outcome),
            Outcome::Unknown => {}
        }
    }

    /// The watch has caught up: commits up to here are part of the world.
    pub(crate) fn land(&mut self) {
        while let Some(entry) = self.commits.landed.first_entry() {
            let revision = entry.key().0;
            if revision > self.world.revision {
                break;
            }
            let flight = entry.remove();
            self.landed(flight, revision);
        }
    }

    fn landed(&mut self, flight: Flight, revision: Revision) {
        self.world.release(&flight.pledge);
        match flight.purpose {
            Purpose::Step(kind) => {
                *self.stats.steps.entry(kind).or_default() += 1;
                if matches!(kind, "EndRebuild" | "DropReplica" | "DeleteVolume") {
                    self.wake_for_slots();
                }
            }
            Purpose::Register => *self.stats.steps.entry("Register").or_default() += 1,
            Purpose::Request(id) => self.request_done(id, revision),
            Purpose::Recover => self.recovery_goes_on(revision),
        }
        for pool in flight.pools {
            self.wake_for_room(pool);
        }
        if let Some(subject) = flight.subject {
            self.commits.busy.remove(&subject);
            self.queue.succeeded(subject);
            self.queue.push(subject);
        }
    }

    fn failed(&mut self, flight: &Flight, outcome: Outcome) {
        self.stats.conflicts += 1;
        self.world.release(&flight.pledge);
        match flight.purpose {
            Purpose::Request(id) => self.request_failed(id, outcome),
            Purpose::Recover => self.recovery_failed(outcome),
            Purpose::Step(_) | Purpose::Register => {}
        }
        if let Some(subject) = flight.subject {
            let again = self.commits.busy.remove(&subject);
            self.queue.back_off(subject, self.now);
            if again == Some(Again::Yes) && outcome == Outcome::Refused {
                self.queue.push(subject);
            }
        }
    }

    /// Out of office: what is under way may still commit or be refused, and nobody waits for it.
    pub(crate) fn drop_commits(&mut self) {
        let flying = core::mem::take(&mut self.commits.flying).into_values();
        let landed = core::mem::take(&mut self.commits.landed).into_values();
        let flights: Vec<Flight> = flying.chain(landed).collect();
        for flight in flights {
            self.world.release(&flight.pledge);
            if let Purpose::Request(id) = flight.purpose {
                self.request_lost(id);
            }
        }
        self.commits.busy.clear();
    }
}

/// The name of what a transaction makes: nobody knows it yet.
fn named_in(txn: &Txn, subject: Subject) -> Option<String> {
    txn.writes.iter().find_map(|write| {
        let Write::Put { value: record, .. } = write else { return None };
        let (made, name) = match record {
            Record::Volume(volume) => (Subject::Volume(volume.meta.id), &volume.meta.name),
            Record::Pool(pool) => (Subject::Pool(pool.meta.id), &pool.meta.name),
            Record::Snapshot(snapshot) => {
                (Subject::Snapshot(snapshot.meta.id), &snapshot.meta.name)
            }
            _ => return None,
        };
        (made == subject).then(|| name.clone())
    })
}
