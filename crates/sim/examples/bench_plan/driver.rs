//! A driver for one controller on a store in memory: performs its effects at once, and times single
//! events.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use model::{
    Bytes, Change, Difference, Entry, InstanceId, Key, LeaseId, NodeId, Record, Revision, Time,
    VolumeId, Write, limits::HEARTBEAT_EVERY,
};
use plan::Request;
use ports::Store as _;
use reconcile::{CommitId, Config, Effect, Event, LeaseAnswer, Outcome, Reconciler, RequestId};

use crate::cluster::{HOST, Shape, instance, node_id, pool_id};

pub(crate) struct Driver {
    pub(crate) brain: Reconciler,
    now: Time,
    revision: u64,
    /// The store: what each key holds, and the revision that created it.
    created: BTreeMap<String, Revision>,
    nodes: usize,
    sequence: u64,
}

/// Effects that must be performed before the next event, as events.
type Pending = Vec<Event>;

impl Driver {
    pub(crate) fn standby() -> Self {
        let config = Config::new(InstanceId::from_u128(99), 99);
        Self {
            brain: Reconciler::new(config),
            now: Time(1_000_000),
            revision: 0,
            created: BTreeMap::new(),
            nodes: 0,
            sequence: 1,
        }
    }

    /// Leads a healthy cluster, with everyone heard and nothing left to do.
    pub(crate) fn leading(shape: &Shape) -> Self {
        let mut driver = Self::standby();
        let entries = entries(shape);
        driver.created = entries.iter().map(|e| (e.key.clone(), e.created)).collect();
        driver.loaded(entries, Time(1_000_000));
        driver.nodes = shape.pools;
        driver.settle(vec![Event::Tick]);
        driver.beat();
        for inventory in shape.inventories() {
            driver.settle(vec![Event::Inventory(inventory.into())]);
        }
        driver.settle(vec![Event::HostInventory(shape.host_inventory())]);
        for _ in 0..8 {
            driver.beat();
        }
        assert!(driver.brain.is_leader(), "nobody else runs");
        driver
    }

    pub(crate) fn loaded(&mut self, entries: Vec<Entry>, now: Time) {
        self.now = self.now.max(now);
        self.revision = self.revision.max(entries.len() as u64 + 1);
        let revision = Revision(self.revision);
        let follow = self.brain.handle(self.now, Event::Loaded { entries, revision });
        let follow = self.perform(follow);
        self.settle(follow);
    }

    /// Half a second passes, and everyone is heard.
    fn beat(&mut self) {
        self.now = self.now + HEARTBEAT_EVERY;
        for index in 0..self.nodes {
            let (node, instance) = (node_id(index), instance(index));
            self.settle(vec![Event::Heartbeat { node, instance }]);
        }
        self.settle(vec![Event::HostHeartbeat { host: HOST, instance: instance(100_000) }]);
        self.settle(vec![Event::Tick]);
    }

    /// Hands in events and whatever follows from them, until nothing does.
    fn settle(&mut self, events: Pending) -> usize {
        let mut events = events;
        let mut commits = 0;
        loop {
            if events.is_empty() {
                if self.brain.next_deadline() > Some(self.now) {
                    return commits;
                }
                events.push(Event::Tick);
            }
            for event in std::mem::take(&mut events) {
                commits += usize::from(matches!(event, Event::Committed { .. }));
                let effects = self.brain.handle(self.now, event);
                events.extend(self.perform(effects));
            }
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) -> Pending {
        let mut events = Pending::new();
        for effect in effects {
            match effect {
                Effect::Commit { id, txn } => {
                    self.revision += 1;
                    let (changed, done) = self.commit(id, &txn.writes);
                    events.extend([changed, done]);
                }
                Effect::GrantLease { .. } => {
                    events.push(Event::Lease(LeaseAnswer::Granted { lease: LeaseId(1) }));
                }
                Effect::RenewLease { lease } => {
                    events.push(Event::Lease(LeaseAnswer::Renewed { lease }));
                }
                Effect::Apply { node, config } => {
                    let answer = Ok(config.head.generation);
                    events.push(Event::NodeAnswered { node, answer });
                }
                Effect::ApplyHost { host, config } => {
                    let answer = Ok(config.head.generation);
                    events.push(Event::HostAnswered { host, answer });
                }
                Effect::Load
                | Effect::RevokeLease { .. }
                | Effect::Reply { .. }
                | Effect::Note { .. }
                | Effect::Strike { .. } => {}
            }
        }
        events
    }

    fn commit(&mut self, id: CommitId, writes: &[Write]) -> (Event, Event) {
        let revision = Revision(self.revision);
        let changes = writes.iter().map(|write| match write {
            Write::Put { key, value: record, .. } => {
                let key = key.to_string();
                let created = *self.created.entry(key.clone()).or_insert(revision);
                let value = record.encode();
                Change::Put(Entry { key, value, created, modified: revision, lease: None })
            }
            Write::Delete { key } => {
                self.created.remove(&key.to_string());
                Change::Deleted { key: key.to_string(), modified: revision }
            }
        });
        let changes = changes.collect();
        let outcome = Outcome::Committed { revision };
        (Event::Changed { revision, changes }, Event::Committed { id, outcome })
    }

    /// The time of one event; what follows from it is performed outside the measurement.
    fn timed(&mut self, event: Event) -> Duration {
        let begun = Instant::now();
        let effects = self.brain.handle(self.now, event);
        let elapsed = begun.elapsed();
        let follow = self.perform(effects);
        self.settle(follow);
        elapsed
    }

    pub(crate) fn timed_request(&mut self, request: Request) -> Duration {
        let id = RequestId(self.revision);
        self.timed(Event::Request { id, request, if_spec: None })
    }

    /// A target records that one of its copies is not healthy any more.
    pub(crate) fn timed_fault(&mut self, volume: VolumeId) -> Duration {
        let view = self.brain.world().volume(volume).expect("it was loaded");
        let mut membership = view.membership.clone().expect("every volume has one");
        if let Some(last) = membership.children.values_mut().last() {
            *last = false;
        }
        membership.roster = membership.roster.next();
        self.revision += 1;
        let revision = Revision(self.revision);
        let key = Key::Membership(volume).to_string();
        let created = self.created.get(&key).copied().unwrap_or(revision);
        let value = Record::Membership(membership.into()).encode();
        let entry = Entry { key, value, created, modified: revision, lease: None };
        self.timed(Event::Changed { revision, changes: vec![Change::Put(entry)] })
    }

    pub(crate) fn timed_space_change(&mut self, shape: &Shape, index: usize) -> Duration {
        let pool = index % shape.pools;
        self.sequence += 1;
        let node = self.brain.world().node(node_id(pool)).expect("it was loaded");
        let inventory = node.inventory.as_ref().expect("it was heard");
        // Room for one more volume: the most endangered waiter is woken, planned and committed.
        let spare = Bytes::mib(1_100);
        let event = Event::Difference(Difference {
            node: node_id(pool),
            instance: instance(pool),
            generation: inventory.generation,
            base: inventory.sequence,
            sequence: inventory.sequence + 1,
            pools: BTreeMap::from([(pool_id(pool), Some(shape.pool_seen(spare)))]),
            replicas: BTreeMap::new(),
            targets: BTreeMap::new(),
        });
        self.timed(event)
    }

    /// Closes a node's stream and works through everything that follows.
    pub(crate) fn kill_node(&mut self, node: NodeId) -> (Duration, usize) {
        let known = self.brain.world().node(node).and_then(|view| view.record.layout.instance);
        let instance = known.expect("it registered");
        let begun = Instant::now();
        let commits = self.settle(vec![Event::NodeClosed { node, instance }]);
        (begun.elapsed(), commits)
    }
}

fn entries(shape: &Shape) -> Vec<Entry> {
    let entry = |(index, (key, record)): (u64, (Key, Record))| Entry {
        key: key.to_string(),
        value: record.encode(),
        created: Revision(index),
        modified: Revision(index),
        lease: None,
    };
    (1..).zip(shape.records()).map(entry).collect()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Writes a cluster's records into an embedded store.
pub(crate) fn fill(shape: &Shape, folder: &Path) {
    let store = store::embedded::Embedded::open(folder).expect("a fresh folder");
    let entries = entries(shape);
    runtime().block_on(async {
        for chunk in entries.chunks(64) {
            let put = |entry: &Entry| Write::put(entry.key.clone(), entry.value.clone());
            let txn = ports::Txn { compares: vec![], writes: chunk.iter().map(put).collect() };
            store.commit(&txn).await.expect("the disk takes it");
        }
    });
}

/// Opens it and reads everything, as a controller does at its start.
pub(crate) fn load(folder: &Path) -> Vec<Entry> {
    let store = store::embedded::Embedded::open(folder).expect("it was closed");
    runtime().block_on(async {
        let mut entries = Vec::new();
        let mut after = None;
        let mut at = None;
        loop {
            let page = store.list("", after.as_deref(), 1_000, at).await.expect("it is open");
            at = Some(page.revision);
            entries.extend(page.entries);
            after = page.next;
            if after.is_none() {
                return entries;
            }
        }
    })
}
