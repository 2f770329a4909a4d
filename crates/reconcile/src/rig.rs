//! A reconciler and a store that does and tells everything at once, unless a test holds it back.

use alloc::{
    collections::{BTreeMap, VecDeque},
    string::{String, ToString as _},
    vec::Vec,
};

use model::{
    Change, Entry, InstanceId, Inventory, LeaseId, Millis, NodeConfig, NodeId, Revision, Time, Txn,
    Write,
};
use plan::{Accepted, Refusal, Request};

use crate::{
    Config, Effect, Event, LeaseAnswer, Outcome, Reconciler, RequestId, limits::CAMPAIGN_EVERY,
};

pub(crate) const NODE: NodeId = NodeId::from_u128(1);
pub(crate) const PROCESS: InstanceId = InstanceId::from_u128(2);

pub(crate) struct World {
    pub(crate) reconciler: Reconciler,
    pub(crate) now: Time,
    store: BTreeMap<String, Entry>,
    revision: Revision,
    leases: u64,
    /// What commits are answered with, instead of being done.
    pub(crate) outcome: Option<Outcome>,
    /// The store answers renewals.
    pub(crate) renews: bool,
    /// The watch is told of changes; those of meanwhile wait for `watch`.
    pub(crate) watches: bool,
    unseen: Vec<Event>,
    pub(crate) commits: Vec<Txn>,
    pub(crate) applied: Vec<NodeConfig>,
    pub(crate) replies: Vec<Result<Accepted, Refusal>>,
}

impl World {
    /// A controller that has founded its store and leads.
    pub(crate) fn leading() -> Self {
        let mut world = Self {
            reconciler: Reconciler::new(Config::new(InstanceId::from_u128(9), 1)),
            now: Time(1_000),
            store: BTreeMap::new(),
            revision: Revision(1),
            leases: 0,
            outcome: None,
            renews: true,
            watches: true,
            unseen: Vec::new(),
            commits: Vec::new(),
            applied: Vec::new(),
            replies: Vec::new(),
        };
        world.tell(Event::Tick);
        world.pass(CAMPAIGN_EVERY);
        assert!(world.reconciler.is_leader());
        world
    }

    /// The same with one node, which has reported.
    pub(crate) fn with_node() -> Self {
        let mut world = Self::leading();
        let (name, address) = ("n".to_string(), "127.0.0.1:1".to_string());
        world.tell(Event::NodeRegistered { node: NODE, name, address, instance: PROCESS });
        let inventory = Inventory {
            node: NODE,
            instance: PROCESS,
            generation: Revision::ZERO,
            sequence: 1,
            pools: BTreeMap::new(),
            replicas: BTreeMap::new(),
            targets: BTreeMap::new(),
            devices: Vec::new(),
        };
        world.tell(Event::Inventory(inventory.into()));
        world.commits.clear();
        world
    }

    pub(crate) fn tell(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.reconciler.handle(self.now, event) {
                events.extend(self.carry_out(effect));
            }
        }
    }

    /// Lets time pass, with every deadline on the way.
    pub(crate) fn pass(&mut self, span: Millis) {
        let end = self.now + span;
        while let Some(next) = self.reconciler.next_deadline().filter(|next| *next < end) {
            self.now = next.max(self.now + Millis(1));
            self.tell(Event::Tick);
        }
        self.now = end;
        self.tell(Event::Tick);
    }

    pub(crate) fn cordon(&mut self, cordoned: bool) {
        let request = Request::CordonNode { node: NODE, cordoned };
        self.tell(Event::Request { id: RequestId(1), request, if_spec: None });
    }

    /// The watch tells what it held back.
    pub(crate) fn watch(&mut self) {
        self.watches = true;
        for event in core::mem::take(&mut self.unseen) {
            self.tell(event);
        }
    }

    /// Somebody else writes, whatever is compared.
    pub(crate) fn write(&mut self, txn: &Txn) {
        let (_, event) = self.commit(txn);
        self.tell(event);
    }

    fn carry_out(&mut self, effect: Effect) -> Vec<Event> {
        match effect {
            Effect::Load => {
                let entries = self.store.values().cloned().collect();
                Vec::from([Event::Loaded { entries, revision: self.revision }])
            }
            Effect::Commit { id, txn } => {
                self.commits.push(txn.clone());
                let entries: Vec<Entry> = self.store.values().cloned().collect();
                let refused = (!txn.encode().holds(&entries)).then_some(Outcome::Refused);
                if let Some(outcome) = self.outcome.or(refused) {
                    return Vec::from([Event::Committed { id, outcome }]);
                }
                let (revision, changed) = self.commit(&txn);
                let outcome = Outcome::Committed { revision };
                let mut events = Vec::from([Event::Committed { id, outcome }]);
                let told = if self.watches { &mut events } else { &mut self.unseen };
                told.push(changed);
                events
            }
            Effect::GrantLease { .. } => {
                self.leases += 1;
                Vec::from([Event::Lease(LeaseAnswer::Granted { lease: LeaseId(self.leases) })])
            }
            Effect::RenewLease { lease } if self.renews => {
                Vec::from([Event::Lease(LeaseAnswer::Renewed { lease })])
            }
            Effect::Apply { config, .. } => {
                self.applied.push(config);
                Vec::new()
            }
            Effect::Reply { reply, .. } => {
                self.replies.push(reply);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn commit(&mut self, txn: &Txn) -> (Revision, Event) {
        self.revision = self.revision.next();
        let modified = self.revision;
        let mut changes = Vec::new();
        for write in txn.encode().writes {
            match write {
                Write::Put { key, value, lease } => {
                    let created = self.store.get(&key).map_or(modified, |entry| entry.created);
                    let entry = Entry { key: key.clone(), value, created, modified, lease };
                    self.store.insert(key, entry.clone());
                    changes.push(Change::Put(entry));
                }
                Write::Delete { key } => {
                    self.store.remove(&key);
                    changes.push(Change::Deleted { key, modified });
                }
            }
        }
        (modified, Event::Changed { revision: modified, changes })
    }
}
