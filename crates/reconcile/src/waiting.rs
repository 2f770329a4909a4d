//! Who waits for what, so that freed space wakes those who fit into it, the most endangered first.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use model::{Bytes, Cause, PoolId, Subject, Wait};
use plan::Planner;

use crate::{Reconciler, limits::WOKEN_AT_ONCE};

/// Healthy copies left: fewer come first.
type Risk = usize;

#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Waiters for room, by the power of two that their need fits into.
    room: BTreeMap<u32, BTreeSet<(Risk, Subject)>>,
    slots: BTreeSet<(Risk, Subject)>,
    /// Where each waiter stands, to find it again.
    places: BTreeMap<Subject, (Risk, Option<u32>, bool)>,
}

impl Waiting {
    pub(crate) fn forget(&mut self, subject: Subject) {
        let Some((risk, class, slot)) = self.places.remove(&subject) else { return };
        if let Some(class) = class
            && let Some(waiters) = self.room.get_mut(&class)
        {
            waiters.remove(&(risk, subject));
            if waiters.is_empty() {
                self.room.remove(&class);
            }
        }
        if slot {
            self.slots.remove(&(risk, subject));
        }
    }

    fn add(&mut self, subject: Subject, risk: Risk, room: Option<Bytes>, slot: bool) {
        self.forget(subject);
        let class = room.map(class_of);
        if let Some(class) = class {
            self.room.entry(class).or_default().insert((risk, subject));
        }
        if slot {
            self.slots.insert((risk, subject));
        }
        if class.is_some() || slot {
            self.places.insert(subject, (risk, class, slot));
        }
    }

    /// The most endangered waiters whose need may fit into `room`.
    fn fitting(&self, room: Bytes, most: usize) -> Vec<Subject> {
        let mut found: Vec<(Risk, Subject)> = Vec::new();
        for waiters in self.room.range(..=class_of(room)).map(|(_, waiters)| waiters) {
            found.extend(waiters.iter().take(most).copied());
        }
        found.sort_unstable();
        found.into_iter().take(most).map(|(_, subject)| subject).collect()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The smallest power of two that holds it.
fn class_of(bytes: Bytes) -> u32 {
    u64::BITS - bytes.0.leading_zeros()
}

impl<P: Planner> Reconciler<P> {
    /// Nothing to do for a subject now: remembers for what it waits.
    pub(crate) fn wait(&mut self, subject: Subject, waits: &[Wait]) {
        let mut room = None;
        let mut slot = false;
        for wait in waits {
            match wait.cause() {
                Cause::Room(bytes) => room = Some(bytes),
                Cause::Slot => slot = true,
                Cause::Until(at) => self.queue.wake_at(subject, at),
                Cause::News => {}
            }
        }
        if room.is_some() || slot {
            let risk = match subject {
                Subject::Volume(id) => self.world.redundancy(id),
                _ => usize::MAX,
            };
            self.waiting.add(subject, risk, room, slot);
        }
        self.queue.succeeded(subject);
    }

    /// A pool may have room now.
    pub(crate) fn wake_for_room(&mut self, pool: PoolId) {
        if self.waiting.room.is_empty() {
            return;
        }
        let room = self.world.room(pool);
        for subject in self.waiting.fitting(room, WOKEN_AT_ONCE) {
            self.queue.push(subject);
        }
    }

    /// A rebuild slot may be free now.
    pub(crate) fn wake_for_slots(&mut self) {
        let woken: Vec<Subject> =
            self.waiting.slots.iter().take(WOKEN_AT_ONCE).map(|(_, subject)| *subject).collect();
        for subject in woken {
            self.queue.push(subject);
        }
    }
}
