//! Who waits for what, so that freed space wakes those who fit into it, the most endangered first.

#[cfg(test)]
mod tests;

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
    places: BTreeMap<Subject, Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    risk: Risk,
    room: Option<Bytes>,
    slot: bool,
}

impl Waiting {
    pub(crate) fn forget(&mut self, subject: Subject) {
        let Some(Place { risk, room, slot }) = self.places.remove(&subject) else { return };
        if let Some(class) = room.map(class_of)
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
        if let Some(class) = room.map(class_of) {
            self.room.entry(class).or_default().insert((risk, subject));
        }
        if slot {
            self.slots.insert((risk, subject));
        }
        if room.is_some() || slot {
            self.places.insert(subject, Place { risk, room, slot });
        }
    }

    /// The most endangered waiters that fit into `room` together, and not more than `most`.
    fn fitting(&self, room: Bytes, most: usize) -> Vec<Subject> {
        let mut found: Vec<(Risk, Subject)> = Vec::new();
        for waiters in self.room.range(..=class_of(room)).map(|(_, waiters)| waiters) {
            found.extend(waiters.iter().take(most).copied());
        }
        found.sort_unstable();
        let mut left = room;
        found.retain(|(_, subject)| {
            let need = self.places.get(subject).and_then(|place| place.room);
            let fits = need.is_some_and(|need| need <= left);
            if let Some(need) = need.filter(|_| fits) {
                left = left.saturating_sub(need);
            }
            fits
        });
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
                Cause::Until(at) if at > self.now => self.queue.wake_at(subject, at),
                // A deadline that has passed changed nothing: planning at once would not either.
                Cause::Until(_) | Cause::News => {}
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
