//! What changed at which revision, as far back as the bounds allow.
//!
//! Each change remembers what it replaced, so that a listing in the past is the present with the
//! later changes undone. Every revision since the oldest has exactly one step, so a step is found
//! by counting.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use ports::{Entry, Revision, StoreError, WatchEvent};

use super::record::Changed;

/// How much history is kept. Beyond it the oldest revisions are compacted unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub changes: usize,
    /// Bytes of the values that only history may still hold.
    pub bytes: usize,
}

/// 10,000 changes are minutes of a busy cluster: a watcher that is away for longer lists again.
/// 64 MiB keep values of the largest size from filling the memory.
impl Default for Bounds {
    fn default() -> Self {
        Self { changes: 10_000, bytes: 64 * 1024 * 1024 }
    }
}

/// A new store is at revision 1 and the first change makes revision 2, as in etcd.
pub(super) const FOUNDED: Revision = Revision(1);

#[derive(Clone, Debug)]
pub(super) struct History {
    bounds: Bounds,
    oldest: Revision,
    steps: VecDeque<Arc<Step>>,
    changes: usize,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) changes: Vec<(Changed, Replaced)>,
    bytes: usize,
}

/// What was there before a change.
pub(super) type Replaced = Option<Arc<Entry>>;

impl History {
    /// Nothing is remembered of what happened at `revision` or before.
    pub(super) fn after(revision: Revision, bounds: Bounds) -> Self {
        let oldest = revision.next();
        Self { bounds, oldest, steps: VecDeque::new(), changes: 0, bytes: 0 }
    }

    /// The first revision that is still known.
    pub(super) fn oldest(&self) -> Revision {
        self.oldest
    }

    /// Bytes of the values that only history may still hold.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    pub(super) fn push(&mut self, changes: Vec<(Changed, Replaced)>) {
        let bytes = changes.iter().map(|(change, replaced)| bytes_held(change, replaced)).sum();
        self.changes += changes.len();
        self.bytes += bytes;
        self.steps.push_back(Arc::new(Step { changes, bytes }));
        while self.changes > self.bounds.changes || self.bytes > self.bounds.bytes {
            self.forget_oldest();
        }
    }

    pub(super) fn forget_before(&mut self, before: Revision) {
        while self.oldest < before && !self.steps.is_empty() {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(step) = self.steps.pop_front() {
            self.changes -= step.changes.len();
            self.bytes -= step.bytes;
            self.oldest = self.oldest.next();
        }
    }

    /// The steps from `from` on, in order, with their revisions.
    pub(super) fn since(
        &self,
        from: Revision,
    ) -> Result<impl Iterator<Item = (Revision, &Step)>, StoreError> {
        // Nothing ever happened at the founding, so nothing of it can be missing.
        let from = from.max(FOUNDED.next());
        if from < self.oldest {
            return Err(StoreError::Compacted { oldest: self.oldest });
        }
        let skipped = usize::try_from(from.0 - self.oldest.0).unwrap_or(usize::MAX);
        let steps = self.steps.iter().skip(skipped);
        Ok((from.0..).map(Revision).zip(steps.map(AsRef::as_ref)))
    }

    /// What keys under `prefix` that changed after `at` were at `at`.
    pub(super) fn undone_to(
        &self,
        at: Revision,
        prefix: &str,
    ) -> Result<BTreeMap<&str, Option<&Arc<Entry>>>, StoreError> {
        let mut undone = BTreeMap::new();
        for (_, step) in self.since(at.next())? {
            for (change, replaced) in &step.changes {
                if change.key().starts_with(prefix) {
                    undone.entry(change.key().as_str()).or_insert(replaced.as_ref());
                }
            }
        }
        Ok(undone)
    }
}

impl Step {
    /// What a watch of `prefix` sees of this step, if anything.
    pub(super) fn event(&self, revision: Revision, prefix: &str) -> Option<WatchEvent> {
        let changes: Vec<_> = self
            .changes
            .iter()
            .filter(|(change, _)| change.key().starts_with(prefix))
            .map(|(change, _)| change.told(revision))
            .collect();
        (!changes.is_empty()).then_some(WatchEvent { revision, changes })
    }
}

fn bytes_held(change: &Changed, replaced: &Replaced) -> usize {
    let put = match change {
        Changed::Put(entry) => entry.value.len(),
        Changed::Deleted(_) => 0,
    };
    put + replaced.as_ref().map_or(0, |entry| entry.value.len())
}
