//! The promises of crate `invariants`, judged on every commit.

use std::collections::{BTreeMap, BTreeSet};

use invariants::{Author, Seen, check_all, check_commit, check_commit_seen, check_seen};
use model::{HostId, Inventory, Key, NodeId, Record, Time, Write, limits::DEAD_AFTER};

use super::{Cluster, records::Committed};
use crate::{Party, fakes::store::Writer, names};

#[derive(Debug, Default)]
pub(super) struct Promises {
    records: invariants::Records,
    /// Since when each node and host is up and in touch with everybody.
    steady_since: BTreeMap<Party, Time>,
    /// Who is up and in touch may have changed since that was looked at. Talk alone changes nothing
    /// of it, and most events are talk.
    pub(super) is_stirred: bool,
}

/// Bytes that may be promised per byte of capacity: the planner's own limit, stated again.
const OVERCOMMIT: u64 = 4;

impl Cluster {
    pub(super) fn judge_commits(&mut self) {
        if core::mem::take(&mut self.promises.is_stirred) {
            self.note_steady();
        }
        for committed in core::mem::take(&mut self.records.commits) {
            self.judge_commit(&committed);
        }
    }

    fn judge_commit(&mut self, committed: &Committed) {
        let writer = self.store.authors.remove(&committed.revision);
        let Committed { revision, writes, is_garbled, is_whole } = committed;
        if *is_whole {
            self.promises.records = invariants::Records::loaded(*revision, writes);
            return;
        }
        let author = if *is_garbled { Author::Recovery } else { self.author(writer, writes) };
        let commit = self.promises.records.apply(*revision, author, writes);
        // A bench without a controller that founded the store keeps records as it likes.
        if !self.records.by_key.contains_key(&Key::Cluster) {
            return;
        }
        let mut broken = check_commit(&self.promises.records, &commit);
        if needs_sight(writes) {
            let inventories = self.true_inventories();
            let (steady, steady_hosts) = self.steady();
            let seen = Seen {
                inventories: &inventories,
                steady: &steady,
                steady_hosts: &steady_hosts,
                overcommit: OVERCOMMIT,
            };
            broken.extend(check_commit_seen(&self.promises.records, &commit, &seen));
            broken.extend(check_seen(&self.promises.records, &seen));
        }
        for broken in broken {
            let words = format!("{} ({author:?} at revision {revision})", broken.words);
            let words = format!("{}: {words}", broken.subject);
            self.oracle.break_promise(broken.promise, words);
        }
    }

    fn author(&self, by: Option<Writer>, writes: &[Write]) -> Author {
        let Some(Writer { party, guard, process }) = by else { return Author::Other };
        match (party, guard) {
            // A fault, or its repair.
            (Party::Store, _) => Author::Recovery,
            (Party::Controller(_), _) if is_recovery(writes) => Author::Recovery,
            (Party::Controller(_), Some(created)) if self.may_lead(party) => {
                Author::Leader { created }
            }
            (Party::Node(_), _) => match process {
                Some(instance) => Author::Engine { instance },
                None => engine(writes, &self.promises.records),
            },
            _ => Author::Other,
        }
    }

    /// The leader's key, if there is one, was made by a process of this seat: a guard alone can be
    /// copied.
    fn may_lead(&self, party: Party) -> bool {
        let seat = names::pack(&party.to_string());
        self.promises.records.leader.is_none_or(|leader| {
            (1..=self.life(party)).any(|life| names::instance(seat, life) == leader.instance)
        })
    }

    /// Everything once more, where nothing is under way.
    pub fn judge_records(&mut self) {
        for broken in check_all(&self.promises.records) {
            let words = format!("{}: {}", broken.subject, broken.words);
            self.oracle.break_promise(broken.promise, words);
        }
    }

    fn true_inventories(&self) -> BTreeMap<NodeId, Inventory> {
        let mut inventories = BTreeMap::new();
        for (node, machine) in &self.nodes {
            if let Some(engine) = &machine.engine {
                inventories.insert(*node, engine.inventory());
            }
        }
        inventories
    }

    fn note_steady(&mut self) {
        let nodes = self.nodes.keys().map(|node| Party::Node(*node));
        let parties: Vec<_> =
            nodes.chain(self.hosts.keys().map(|host| Party::Host(*host))).collect();
        for party in parties {
            if self.is_in_touch(party) {
                self.promises.steady_since.entry(party).or_insert(self.now);
            } else {
                self.promises.steady_since.remove(&party);
            }
        }
    }

    /// A node with every controller; a host with every node as well.
    fn is_in_touch(&self, party: Party) -> bool {
        let controllers = (0..self.controllers.len())
            .map(|index| Party::Controller(u8::try_from(index).unwrap_or(u8::MAX)));
        let is_host = matches!(party, Party::Host(_));
        let nodes = self.nodes.keys().filter(|_| is_host).map(|node| Party::Node(*node));
        let is_cut = |peer: Party| {
            self.network.is_cut(party, peer, self.now) || self.network.is_cut(peer, party, self.now)
        };
        self.is_running(party)
            && !self.pauses.contains_key(&party)
            && self.network.is_calm()
            && !controllers.chain(nodes).any(is_cut)
    }

    fn steady(&self) -> (BTreeSet<NodeId>, BTreeSet<HostId>) {
        let (mut nodes, mut hosts) = (BTreeSet::new(), BTreeSet::new());
        for party in self.promises.steady_since.keys().filter(|party| self.is_steady(**party)) {
            match party {
                Party::Node(node) => nodes.insert(*node),
                Party::Host(host) => !self.has_just_lost_a_path(*host) && hosts.insert(*host),
                _ => false,
            };
        }
        (nodes, hosts)
    }

    fn has_just_lost_a_path(&self, host: HostId) -> bool {
        let process = self.hosts.get(&host).and_then(|machine| machine.process.as_ref());
        process.is_some_and(|process| process.has_just_lost_a_path(self.now))
    }

    /// Up and in touch for so long that everybody must know.
    pub(super) fn is_steady(&self, party: Party) -> bool {
        // Twice the time: a controller may have begun to listen only now.
        let long = |since: &Time| self.now.since(*since).0 >= 2 * DEAD_AFTER.0;
        self.promises.steady_since.get(&party).is_some_and(long)
    }
}

/// Looking at the true machines is dear: only where a promise is about them.
fn needs_sight(writes: &[Write]) -> bool {
    writes.iter().any(|write| {
        matches!(
            write,
            Write::Put { key: Key::Volume(_) | Key::Snapshot(_) | Key::Node(_), .. }
                | Write::Delete { key: Key::Tombstone(..) }
        )
    })
}

fn is_recovery(writes: &[Write]) -> bool {
    writes.iter().any(|write| {
        matches!(write, Write::Put { value: Record::Event(event), .. }
            if event.words.starts_with("recovered from the pools"))
    })
}

/// A model of an engine does not say which process it is: the one that the record names, now or
/// before.
fn engine(writes: &[Write], records: &invariants::Records) -> Author {
    let owner = writes.iter().find_map(|write| match write {
        Write::Put { key: Key::Membership(volume), value: Record::Membership(new), .. } => {
            let old = records.memberships.get(volume).and_then(|old| old.owner);
            new.owner.or(old)
        }
        _ => None,
    });
    owner.map_or(Author::Other, |instance| Author::Engine { instance })
}
