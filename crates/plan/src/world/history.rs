//! The store's past, by which pools recognise it.
//!
//! Every leader writes a term when it takes office, and the revisions at which terms were created
//! divide the history. A pool remembers the newest (era, term, revision) that it was configured at.
//! If the store does not know that term, or the term ended before that revision, the pool has seen
//! commits which this store has lost: it was set back in time, or replaced.

use alloc::{collections::BTreeMap, format, string::String};

use model::{Cluster, InstanceId, Mark, Revision, limits::TERMS_MAX};

#[derive(Clone, Debug, Default)]
pub struct History {
    /// Terms by the revision that created them: number and leader.
    terms: BTreeMap<Revision, (u64, InstanceId)>,
}

/// What a mark says about this store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It lies in this store's past.
    Proven,
    /// Nothing can be said: too old to be remembered, or of an era that was recovered from.
    Unproven { why: String },
    /// It lies in a past that this store does not have.
    Foreign { why: String },
}

impl History {
    pub fn add(&mut self, created: Revision, number: u64, leader: InstanceId) {
        self.terms.insert(created, (number, leader));
    }

    pub fn prune(&mut self, number: u64) {
        self.terms.retain(|_, (own, _)| *own != number);
    }

    /// The number for the next term.
    pub fn next_number(&self) -> u64 {
        self.terms.values().map(|(number, _)| number + 1).max().unwrap_or(1)
    }

    /// Terms beyond the limit, oldest first.
    pub fn surplus(&self) -> impl Iterator<Item = u64> + '_ {
        let surplus = self.terms.len().saturating_sub(TERMS_MAX);
        self.terms.values().take(surplus).map(|(number, _)| *number)
    }

    pub fn judge(&self, mark: &Mark, cluster: &Cluster) -> Verdict {
        if mark.era != cluster.era {
            return if cluster.former.contains(&mark.era) {
                Verdict::Unproven { why: "it comes from before a recovery".into() }
            } else {
                let why = "it belongs to another store than this one".into();
                Verdict::Foreign { why }
            };
        }
        let Some((created, _)) = self.terms.iter().find(|(_, (_, leader))| *leader == mark.term)
        else {
            return match self.terms.keys().next() {
                Some(oldest) if mark.revision < *oldest => Verdict::Unproven {
                    why: "it was away for longer than the store remembers".into(),
                },
                _ => Verdict::Foreign {
                    why: format!(
                        "it has seen revision {} of a leader that this store never had",
                        mark.revision
                    ),
                },
            };
        };
        let ended = self.terms.range(created.next()..).next().map(|(revision, _)| *revision);
        // A term without a successor is its leader's own, and every leader begins with a new one:
        // what it has configured it knows.
        if ended.is_some_and(|ended| mark.revision >= ended) {
            let why = format!("it has seen revision {}, which this store lost", mark.revision);
            return Verdict::Foreign { why };
        }
        Verdict::Proven
    }
}
