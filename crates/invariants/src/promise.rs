//! What a promise is, and the list of them.

use core::fmt;

use model::Key;

use crate::{
    Committed, Records, Seen, asked_for, attempts, broken::Report, copies_kept, create_once,
    exclusive_host, fence_before_start, hands, ids, last_copy, leader_guard, membership_owner,
    names, no_false_alarm, one_epoch, one_per_node, references, serving_first, snapshots, space,
    spread, switchover_order, tombstones,
};

/// In the order in which a reader should worry.
pub const PROMISES: &[Promise] = &[
    copies_kept::PROMISE,
    last_copy::PROMISE,
    membership_owner::PROMISE,
    one_epoch::PROMISE,
    fence_before_start::PROMISE,
    serving_first::PROMISE,
    no_false_alarm::PROMISE,
    switchover_order::PROMISE,
    exclusive_host::PROMISE,
    tombstones::PROMISE,
    asked_for::PROMISE,
    ids::PROMISE,
    create_once::PROMISE,
    snapshots::PROMISE,
    attempts::PROMISE,
    space::PROMISE,
    one_per_node::PROMISE,
    spread::PROMISE,
    references::PROMISE,
    names::PROMISE,
    hands::PROMISE,
    leader_guard::PROMISE,
];

/// One promise: a name, a claim, and up to four ways to judge it.
pub struct Promise {
    pub name: &'static str,
    pub claim: &'static str,
    record: Option<fn(&Records, &Key, &mut Report)>,
    commit: Option<fn(Committed<'_>, &mut Report)>,
    seen: Option<fn(&Records, &Seen<'_>, &mut Report)>,
    commit_seen: Option<fn(Committed<'_>, &Seen<'_>, &mut Report)>,
}

impl Promise {
    pub(crate) const fn new(name: &'static str, claim: &'static str) -> Self {
        Self { name, claim, record: None, commit: None, seen: None, commit_seen: None }
    }

    /// Judged of one record and what it refers to.
    pub(crate) const fn of_records(mut self, judge: fn(&Records, &Key, &mut Report)) -> Self {
        self.record = Some(judge);
        self
    }

    /// Judged of both sides of a commit.
    pub(crate) const fn of_commits(mut self, judge: fn(Committed<'_>, &mut Report)) -> Self {
        self.commit = Some(judge);
        self
    }

    /// Judged of the records beside the true machines.
    pub(crate) const fn of_machines(mut self, judge: fn(&Records, &Seen<'_>, &mut Report)) -> Self {
        self.seen = Some(judge);
        self
    }

    /// Judged of a commit beside the true machines.
    pub(crate) const fn of_commits_beside_machines(
        mut self,
        judge: fn(Committed<'_>, &Seen<'_>, &mut Report),
    ) -> Self {
        self.commit_seen = Some(judge);
        self
    }

    pub(crate) fn judge_record(&self, records: &Records, key: &Key, report: &mut Report) {
        if let Some(judge) = self.record {
            judge(records, key, report);
        }
    }

    pub(crate) fn judge_commit(&self, committed: Committed<'_>, report: &mut Report) {
        if let Some(judge) = self.commit {
            judge(committed, report);
        }
    }

    pub(crate) fn judge_seen(&self, records: &Records, seen: &Seen<'_>, report: &mut Report) {
        if let Some(judge) = self.seen {
            judge(records, seen, report);
        }
    }

    pub(crate) fn judge_commit_seen(
        &self,
        committed: Committed<'_>,
        seen: &Seen<'_>,
        report: &mut Report,
    ) {
        if let Some(judge) = self.commit_seen {
            judge(committed, seen, report);
        }
    }
}

impl fmt::Debug for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.claim)
    }
}
