//! Hosts: who is connected, and who must still hear that unflushed writes may be gone.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use model::{HostId, TargetItem};

use super::{Output, Phase, Target, Turn};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Hosts {
    sessions: BTreeMap<u64, HostId>,
    /// Their next flush fails.
    owed: BTreeSet<HostId>,
}

impl Hosts {
    pub(super) fn host(&self, session: u64) -> Option<HostId> {
        self.sessions.get(&session).copied()
    }

    pub(super) fn has(&self, host: HostId) -> bool {
        self.sessions.values().any(|other| *other == host)
    }

    pub(super) fn all(&self) -> BTreeSet<HostId> {
        self.sessions.values().copied().collect()
    }

    pub(super) fn sessions(&self) -> Vec<u64> {
        self.sessions.keys().copied().collect()
    }

    pub(super) fn take_sessions(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.sessions).into_keys().collect()
    }

    pub(super) fn owe(&mut self, hosts: &BTreeSet<HostId>) {
        self.owed.extend(hosts);
    }

    /// True once for each host that is owed.
    pub(super) fn pay(&mut self, host: HostId) -> bool {
        self.owed.remove(&host)
    }

    pub(super) fn is_paid(&self) -> bool {
        self.owed.is_empty()
    }
}

impl<D: Clone> Target<D> {
    pub(super) fn host_opened(&mut self, turn: &mut Turn<'_, D>, session: u64, host: HostId) {
        if self.phase != Phase::Serving || !self.item.hosts.contains(&host) {
            turn.put(Output::CloseHost { session });
            return;
        }
        self.hosts.sessions.insert(session, host);
        turn.put(Output::Seen);
    }

    /// Nobody waits for answers any more. What was begun goes on, and keeps its lock.
    pub(super) fn host_closed(&mut self, turn: &mut Turn<'_, D>, session: u64) {
        if self.hosts.sessions.remove(&session).is_none() {
            return;
        }
        self.ops.each(|_, op| op.asker = op.asker.filter(|asker| asker.session != session));
        // A write that was not begun never happens; reads and flushes are of no use.
        let queued = core::mem::take(&mut self.queue);
        for id in queued {
            let is_orphan = self.ops.get(id).is_none_or(|op| {
                op.asker.is_none() && matches!(op.work, super::command::Work::Write(_))
            });
            if is_orphan {
                self.ops.remove(id);
            } else {
                self.queue.push_back(id);
            }
        }
        self.ops.retain(|op| {
            let is_query =
                matches!(op.work, super::command::Work::Read(_) | super::command::Work::Flush(_));
            !is_query || op.asker.is_some()
        });
        turn.put(Output::Seen);
    }

    pub(super) fn configure(&mut self, turn: &mut Turn<'_, D>, item: TargetItem) {
        if self.item == item || item.epoch != self.epoch {
            return;
        }
        self.item = item;
        self.is_snapshot_due = true;
        self.name_children(turn);
        let hosts = &self.item.hosts;
        let gone = self.hosts.sessions.iter().filter(|(_, host)| !hosts.contains(*host));
        let gone: Vec<_> = gone.map(|(session, _)| *session).collect();
        for session in gone {
            self.host_closed(turn, session);
            turn.put(Output::CloseHost { session });
        }
        self.hosts.owed.retain(|host| self.item.hosts.contains(host));
        if !self.item.serve {
            self.begin_stop(turn);
        }
        self.open_children(turn);
        turn.put(Output::Seen);
    }
}
