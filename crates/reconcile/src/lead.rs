//! Taking and losing the lead.
//!
//! ```text
//! Loading ─▶ Standby ─▶ Granting ─▶ Claiming ─▶ Entering ─▶ Leading
//!    ▲          ▲                                              │
//!    └──────────┴──────────────── resigned, or the watch ended ┘
//! ```
//! Claiming writes the leader's key under a lease; Entering writes the term (and founds the cluster
//! if the store is new). Every later write is guarded by the key's create revision, so that what a
//! deposed leader still sends is refused by the store.

#[cfg(test)]
mod tests;

use alloc::format;

use model::{
    Cluster, Compare, Era, Expect, Extra, InstanceId, Key, LeaseId, Record, Revision, SCHEMA, Term,
    Time, Txn, Write, limits::LEASE_TTL,
};
use plan::Planner;

use crate::{
    CommitId, Effect, LeaseAnswer, Outcome, Reconciler,
    limits::{ANSWER_WITHIN, CAMPAIGN_EVERY, RENEW_EVERY},
};

#[derive(Debug, Default)]
pub(crate) struct Lead {
    stage: Stage,
    loaded: bool,
    asked_to_load: bool,
    /// The create revision of the leader's key, whoever it is.
    leader: Option<Revision>,
    next_campaign: Time,
    /// That the records are too new was told to people.
    is_told: bool,
    /// Leases we no longer need: revoked, so that nobody waits for them to end.
    stale_lease: Option<LeaseId>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Standby,
    Granting {
        until: Time,
    },
    Claiming {
        lease: Lease,
        commit: CommitId,
    },
    Entering {
        lease: Lease,
        created: Revision,
        commit: CommitId,
        term: InstanceId,
    },
    Leading {
        lease: Lease,
        created: Revision,
        term: InstanceId,
    },
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: LeaseId,
    /// Counted from when the grant or renewal was asked for: the store may count from later on.
    good_until: Time,
    next_renewal: Time,
    asked_at: Time,
}

impl Lead {
    pub(crate) const fn is_leading(&self) -> bool {
        matches!(self.stage, Stage::Leading { .. })
    }

    pub(crate) const fn is_loaded(&self) -> bool {
        self.loaded
    }

    pub(crate) fn set_loaded(&mut self) {
        self.loaded = true;
        self.asked_to_load = true;
    }

    pub(crate) fn set_unloaded(&mut self) {
        self.loaded = false;
        self.asked_to_load = true;
        self.leader = None;
    }

    pub(crate) const fn created(&self) -> Option<Revision> {
        match self.stage {
            Stage::Leading { created, .. } => Some(created),
            _ => None,
        }
    }

    pub(crate) const fn term(&self) -> Option<InstanceId> {
        match self.stage {
            Stage::Leading { term, .. } => Some(term),
            _ => None,
        }
    }

    fn lease_mut(&mut self) -> Option<&mut Lease> {
        match &mut self.stage {
            Stage::Claiming { lease, .. }
            | Stage::Entering { lease, .. }
            | Stage::Leading { lease, .. } => Some(lease),
            Stage::Standby | Stage::Granting { .. } => None,
        }
    }
}

impl<P: Planner> Reconciler<P> {
    /// What the passing of time asks for: loading, campaigning, renewing, resigning.
    pub(crate) fn campaign(&mut self) {
        let now = self.now;
        if !self.lead.asked_to_load {
            self.lead.asked_to_load = true;
            self.effects.push(Effect::Load);
        }
        if let Some(lease) = self.lead.stale_lease.take() {
            self.effects.push(Effect::RevokeLease { lease });
        }
        if self.world.too_new().is_some() && !matches!(self.lead.stage, Stage::Standby) {
            self.resign();
        }
        match self.lead.stage {
            Stage::Standby => self.stand(),
            Stage::Granting { until } if now >= until => self.lead.stage = Stage::Standby,
            Stage::Granting { .. } => {}
            Stage::Claiming { lease, .. }
            | Stage::Entering { lease, .. }
            | Stage::Leading { lease, .. } => {
                if now >= lease.good_until {
                    self.resign();
                } else if now >= lease.next_renewal {
                    if let Some(lease) = self.lead.lease_mut() {
                        lease.next_renewal = now + RENEW_EVERY;
                        lease.asked_at = now;
                    }
                    self.effects.push(Effect::RenewLease { lease: lease.id });
                }
            }
        }
    }

    fn stand(&mut self) {
        if let Some(words) = self.world.too_new().filter(|_| !self.lead.is_told) {
            self.lead.is_told = true;
            self.effects.push(Effect::Note { words: format!("it does not lead: {words}") });
        }
        let may = self.lead.loaded && self.lead.leader.is_none() && self.may_read_schema();
        if may && self.now >= self.lead.next_campaign {
            self.lead.next_campaign = self.now + CAMPAIGN_EVERY;
            self.lead.stage = Stage::Granting { until: self.now + ANSWER_WITHIN };
            self.effects.push(Effect::GrantLease { ttl: LEASE_TTL });
        }
    }

    /// An older controller does not lead on a newer schema, nor on one it cannot read.
    fn may_read_schema(&self) -> bool {
        let readable = self.world.quarantine(model::Subject::Cluster).is_none();
        readable && self.world.too_new().is_none()
    }

    pub(crate) fn lease_answered(&mut self, answer: LeaseAnswer) {
        match (answer, self.lead.stage) {
            (LeaseAnswer::Granted { lease }, Stage::Granting { until }) => {
                let asked_at = until - ANSWER_WITHIN;
                let commit = self.commits.next_id();
                let lease = Lease {
                    id: lease,
                    good_until: asked_at + LEASE_TTL,
                    next_renewal: self.now + RENEW_EVERY,
                    asked_at,
                };
                self.lead.stage = Stage::Claiming { lease, commit };
                let record = Record::Leader(self.config.instance);
                let (key, lease) = (Key::Leader, Some(lease.id));
                let mut txn = Txn::default().guard(Compare::at(key.clone(), Revision::ZERO));
                txn.writes.push(Write::Put { key, value: record, lease });
                self.effects.push(Effect::Commit { id: commit, txn });
            }
            (LeaseAnswer::Granted { lease }, _) => self.lead.stale_lease = Some(lease),
            (LeaseAnswer::Renewed { lease }, _) => {
                if let Some(own) = self.lead.lease_mut().filter(|own| own.id == lease) {
                    own.good_until = own.asked_at + LEASE_TTL;
                }
            }
            (LeaseAnswer::Ended { lease }, _) => {
                if self.lead.lease_mut().is_some_and(|own| own.id == lease) {
                    self.resign();
                }
            }
            (LeaseAnswer::Unavailable, Stage::Granting { .. }) => {
                self.lead.stage = Stage::Standby;
            }
            (LeaseAnswer::Unavailable, _) => {}
        }
    }

    /// Whether a commit was one of the steps into office.
    pub(crate) fn lead_committed(&mut self, id: CommitId, outcome: Outcome) -> bool {
        match self.lead.stage {
            Stage::Claiming { lease, commit } if commit == id => {
                match outcome {
                    Outcome::Committed { revision } => self.enter(lease, revision),
                    Outcome::Refused | Outcome::Unavailable => self.resign(),
                    Outcome::Unknown => {}
                }
                true
            }
            Stage::Entering { lease, created, commit, term } if commit == id => {
                match outcome {
                    Outcome::Committed { .. } => {
                        self.stats.terms += 1;
                        self.lead.stage = Stage::Leading { lease, created, term };
                        self.take_office();
                    }
                    Outcome::Refused | Outcome::Unavailable => self.resign(),
                    Outcome::Unknown => {}
                }
                true
            }
            _ => false,
        }
    }

    /// Writes the term, so that pools can tell this history from any other.
    fn enter(&mut self, lease: Lease, created: Revision) {
        let commit = self.commits.next_id();
        let term = self.random_id(commit.0);
        let address = self.config.address.clone();
        let record = Record::Term(Term { leader: term, address, extra: Extra::new() });
        let number = self.world.history.next_number();
        let mut txn = Txn::default()
            .guard(Compare { key: Key::Leader, expect: Expect::CreatedAt(created) })
            .put(Key::Term(number), record, Revision::ZERO);
        if self.world.cluster.is_none() {
            let era = Era(self.random_id(commit.0 ^ (1 << 62)).0);
            let former = [].into();
            let cluster = Cluster { era, schema: SCHEMA, former, extra: Extra::new() };
            txn = txn.put(Key::Cluster, Record::Cluster(cluster), Revision::ZERO);
        }
        self.lead.stage = Stage::Entering { lease, created, commit, term };
        self.effects.push(Effect::Commit { id: commit, txn });
    }

    fn take_office(&mut self) {
        let number = self.commits.next_id().0 ^ (1 << 61);
        self.world.salt = self.random_id(number).0.as_u128();
        self.delivery.all_whole();
        let all = self.world.subjects().collect();
        self.touch(all);
        let nodes = self.registry.nodes().map(model::Subject::Node);
        let hosts = self.registry.hosts().map(model::Subject::Host);
        let registered = nodes.chain(hosts).collect();
        self.touch(registered);
    }

    /// An id that this process makes once: its own random identity, and a number that only grows in
    /// it. A revision would not do: a store that is set back counts the same ones again.
    fn random_id(&self, number: u64) -> InstanceId {
        let own = self.config.instance.0.as_u128() ^ u128::from(self.config.seed).rotate_left(64);
        let mut mixed =
            own ^ u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        mixed ^= mixed >> 67;
        mixed = mixed.wrapping_mul(0xda94_2042_e4dd_58b5_bf58_476d_1ce4_e5b9);
        InstanceId::from_u128(mixed ^ (mixed >> 59))
    }

    pub(crate) fn leader_seen(&mut self, created: Revision) {
        self.lead.leader = Some(created);
        if self.lead.created().is_some_and(|own| own != created) {
            self.resign();
        }
    }

    pub(crate) fn leader_gone(&mut self) {
        self.lead.leader = None;
        self.lead.next_campaign = self.now;
        if self.lead.is_leading() || matches!(self.lead.stage, Stage::Entering { .. }) {
            self.resign();
        }
    }

    /// Out of office. The world stays warm.
    pub(crate) fn resign(&mut self) {
        if let Some(lease) = self.lead.lease_mut().map(|lease| lease.id) {
            self.lead.stale_lease = Some(lease);
        }
        self.lead.stage = Stage::Standby;
        self.lead.next_campaign = self.now + CAMPAIGN_EVERY;
        self.drop_commits();
        self.abandon_recovery();
    }
}
