//! The store of the membership record: one record, changed only by compare-and-swap.

use mirror::{StoreAnswer, StoreRequest};
use model::Membership;
use storage_node::TargetKey;

use super::world::{Event, Question, STORE, World};
use crate::simulated_node::time;

/// What a question to the store may take before nobody waits any more.
const STORE_TIMEOUT: u64 = 2_000_000;

#[derive(Debug)]
pub(super) struct Store {
    pub(super) record: Membership,
    /// As it was at the first claim.
    backup: Option<Membership>,
    /// Until then nobody is answered.
    pub(super) down_until: u64,
    /// Until then every answer takes this long.
    pub(super) slow: Option<(u64, u64)>,
    /// So many answers to come are lost, though the change was made.
    pub(super) lost_answers: u32,
}

impl Store {
    pub(super) const fn new(record: Membership) -> Self {
        Self { record, backup: None, down_until: 0, slow: None, lost_answers: 0 }
    }

    pub(super) fn answer(&mut self, request: StoreRequest) -> StoreAnswer {
        match request {
            StoreRequest::Read => StoreAnswer::Record(self.record.clone()),
            StoreRequest::Swap(record) => {
                let key = |record: &Membership| (record.revision, record.epoch);
                if key(&self.record) != key(&record) {
                    return StoreAnswer::Conflict;
                }
                let revision = self.record.revision.next();
                self.record = *record;
                self.record.revision = revision;
                self.backup.get_or_insert_with(|| self.record.clone());
                StoreAnswer::Committed(revision)
            }
        }
    }

    /// The members are those of the backup again; the control plane sees to it that epochs only
    /// go up, and starts a new target.
    pub(super) fn set_back(&mut self) {
        let Some(backup) = self.backup.clone() else { return };
        let (epoch, revision) = (self.record.epoch, self.record.revision.next());
        self.record = Membership { epoch, revision, owner: None, ..backup };
    }

    /// The control plane raises the epoch, in one transaction with the layout.
    pub(super) fn raise(&mut self) -> u64 {
        self.record.epoch = self.record.epoch.next();
        self.record.owner = None;
        self.record.revision = self.record.revision.next();
        self.record.epoch.0
    }
}

impl World {
    pub(super) fn ask_store(
        &mut self,
        node: usize,
        target: TargetKey,
        call: u64,
        request: StoreRequest,
    ) {
        let question = Question { node, process: self.nodes[node].process, target, call };
        self.questions.insert(question);
        let answer = StoreAnswer::Unknown;
        // Whoever waits longer than this hears that nobody knows.
        self.after(STORE_TIMEOUT, Event::Answer { question, answer });
        if self.is_cut(node, STORE) {
            return;
        }
        let delay = self.store_latency();
        self.after(delay, Event::Ask { question, request });
    }

    /// Long, while the store is slow: a change may be made that its asker no longer waits for.
    fn store_latency(&mut self) -> u64 {
        let now = self.now;
        let slow = self.store.slow.filter(|(until, _)| now < *until).map_or(0, |(_, by)| by);
        self.latency() + self.random.between(slow / 2, slow)
    }

    pub(super) fn store_asked(&mut self, question: Question, request: StoreRequest) {
        let is_swap = matches!(request, StoreRequest::Swap(_));
        if self.now < self.store.down_until {
            // It may have got through after all, later.
            if is_swap && self.random.chance(500) {
                let delay = self.store.down_until - self.now;
                self.after(delay, Event::Late { request });
            }
            return;
        }
        let before = self.store.record.clone();
        let answer = self.store.answer(request);
        self.recorded(&before);
        if is_swap && self.store.lost_answers > 0 {
            self.store.lost_answers -= 1;
            return;
        }
        let delay = self.store_latency();
        self.after(delay, Event::Answer { question, answer });
    }

    pub(super) fn store_late(&mut self, request: StoreRequest) {
        let before = self.store.record.clone();
        self.store.answer(request);
        self.recorded(&before);
    }

    pub(super) fn store_answers(&mut self, question: Question, answer: StoreAnswer) {
        let Question { node, process, target, call } = question;
        if answer != StoreAnswer::Unknown && self.is_cut(node, STORE) {
            return;
        }
        if !self.questions.remove(&question) || self.nodes[node].process != process {
            return;
        }
        let now = self.now;
        let Some(running) = &mut self.nodes[node].running else { return };
        running.machine.store_answered(time(now), target, call, answer);
        self.turn(node);
    }
}
