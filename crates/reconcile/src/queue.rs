//! What is to be planned, and when: first come, first planned; retries back off.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use model::{Millis, Subject, Time};

use crate::limits::{BACKOFF_MAX, BACKOFF_MIN};

#[derive(Debug)]
pub(crate) struct Queue {
    ready: VecDeque<Subject>,
    queued: BTreeSet<Subject>,
    timers: BTreeSet<(Time, Subject)>,
    /// The earliest timer of each subject, so that it has one and not hundreds.
    timer_of: BTreeMap<Subject, Time>,
    tries: BTreeMap<Subject, u32>,
    jitter: u64,
}

impl Queue {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            ready: VecDeque::new(),
            queued: BTreeSet::new(),
            timers: BTreeSet::new(),
            timer_of: BTreeMap::new(),
            tries: BTreeMap::new(),
            jitter: seed | 1,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub(crate) fn push(&mut self, subject: Subject) {
        if self.queued.insert(subject) {
            self.ready.push_back(subject);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Subject> {
        let subject = self.ready.pop_front()?;
        self.queued.remove(&subject);
        Some(subject)
    }

    /// Plans the subject again at `at`, or earlier if it has an earlier timer or news.
    pub(crate) fn wake_at(&mut self, subject: Subject, at: Time) {
        if let Some(known) = self.timer_of.get(&subject) {
            if *known <= at {
                return;
            }
            self.timers.remove(&(*known, subject));
        }
        self.timer_of.insert(subject, at);
        self.timers.insert((at, subject));
    }

    pub(crate) fn wake_timers(&mut self, now: Time) {
        while let Some((at, subject)) = self.timers.first().copied() {
            if at > now {
                break;
            }
            self.timers.remove(&(at, subject));
            self.timer_of.remove(&subject);
            self.push(subject);
        }
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// After a failure: later each time, and not all at once.
    pub(crate) fn back_off(&mut self, subject: Subject, now: Time) {
        let tries = self.tries.entry(subject).or_default();
        *tries = tries.saturating_add(1);
        let doubled = BACKOFF_MIN.0 << (*tries - 1).min(20);
        let span = doubled.min(BACKOFF_MAX.0);
        let at = now + Millis(span / 2 + self.random() % (span / 2 + 1));
        self.wake_at(subject, at);
    }

    pub(crate) fn succeeded(&mut self, subject: Subject) {
        self.tries.remove(&subject);
    }

    pub(crate) fn clear(&mut self) {
        self.ready.clear();
        self.queued.clear();
        self.timers.clear();
        self.timer_of.clear();
        self.tries.clear();
    }

    /// xorshift64: jitter needs no more.
    fn random(&mut self) -> u64 {
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        self.jitter
    }
}
