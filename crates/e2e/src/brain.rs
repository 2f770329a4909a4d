//! The stand-in for the controller: hears engines, chooses where the target is, raises epochs.
//!
//! Records are in an embedded store and are changed by compare-and-swap, as the controller does it.
//! A process is dead when its stream closes or when it is silent for some heartbeats.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use model::{
    Epoch, InstanceId, Inventory, Key, Membership, NodeConfig, NodeId, PoolHealth, Record,
    ReplicaHealth, Revision, TargetHealth, Txn,
};
use ports::{Memberships, Store, StoreError, TxnOutcome};
use rpc::{Heard, SessionId, ToEngine, What};
use store::{Direct, embedded::Embedded};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::{debug, info, warn};

use crate::plan::{Course, Plan, Seat, VOLUME, pool_of, replica_of};

/// Three heartbeats and a little more.
const SILENCE: Duration = Duration::from_millis(1_800);
const LOOK: Duration = Duration::from_millis(50);
const HEARD_MAX: usize = 1024;

/// What is known now.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub seat: Option<Seat>,
    /// The target serves, at the newest epoch.
    pub is_serving: bool,
    pub record: Option<Membership>,
    /// Engines that are heard of.
    pub alive: Vec<NodeId>,
    pub inventories: BTreeMap<NodeId, Inventory>,
}

impl Seen {
    /// Served, and every copy recorded equal.
    pub fn is_whole(&self) -> bool {
        let is_whole = |record: &Membership| {
            record.resync_source.is_none() && record.children.values().all(|healthy| *healthy)
        };
        self.is_serving && self.record.as_ref().is_some_and(is_whole)
    }

    /// How many copies the record calls healthy.
    pub fn healthy(&self) -> usize {
        self.record.as_ref().map_or(0, |record| record.healthy().count())
    }
}

/// A brain that runs, until it is dropped.
#[derive(Debug)]
pub struct Brain {
    pub seen: watch::Receiver<Seen>,
    /// Where engines dial it.
    pub address: String,
    orders: mpsc::Sender<Order>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
enum Order {
    Move(NodeId),
}

impl Brain {
    /// Founds the volume in an empty store, or goes on with what the store says.
    pub async fn start(plan: Plan, store: Embedded) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (heard, incoming) = mpsc::channel(HEARD_MAX);
        let (orders, ordered) = mpsc::channel(16);
        let (tell, seen) = watch::channel(Seen::default());
        let records = Direct(store);
        found(&records.0, &plan).await?;
        let mut tasks = JoinSet::new();
        let own = records.clone();
        tasks.spawn(rpc::serve(listener, move |_: &_, _: Option<&_>| own.clone(), heard));
        let mind = Mind {
            plan,
            records,
            course: Course::default(),
            engines: BTreeMap::new(),
            sessions: BTreeMap::new(),
            generation: 1,
            wanted: None,
            tell,
        };
        tasks.spawn(mind.run(incoming, ordered));
        Ok(Self { seen, address, orders, _tasks: tasks })
    }

    /// Has the target moved there.
    pub async fn move_target(&self, to: NodeId) {
        // It ends only with the process.
        let _ = self.orders.send(Order::Move(to)).await;
    }

    /// Waits until it is so.
    pub async fn until(
        &self,
        what: &str,
        patience: Duration,
        is_so: impl Fn(&Seen) -> bool,
    ) -> anyhow::Result<Seen> {
        let mut seen = self.seen.clone();
        match tokio::time::timeout(patience, seen.wait_for(|seen| is_so(seen))).await {
            Ok(Ok(seen)) => return Ok(seen.clone()),
            Ok(Err(_)) => anyhow::bail!("the brain ended while waiting for: {what}"),
            Err(_) => {}
        }
        let last = self.seen.borrow().clone();
        let targets: Vec<_> =
            last.inventories.iter().map(|(node, seen)| (node, &seen.targets)).collect();
        anyhow::bail!(
            "waited {patience:?} in vain for: {what}; seat {:?}, alive {:?}, record {:?}, {:?}",
            last.seat,
            last.alive,
            last.record,
            targets
        )
    }
}

async fn found(store: &Embedded, plan: &Plan) -> Result<(), StoreError> {
    let membership = Membership::founded(VOLUME, plan.replicas());
    let volume = Record::Volume(Box::new(plan.record(&Course::default())));
    let membership = Record::Membership(Box::new(membership));
    let txn = Txn::default().put(Key::Volume(VOLUME), volume, Revision::ZERO).put(
        Key::Membership(VOLUME),
        membership,
        Revision::ZERO,
    );
    // Refused: it was founded before.
    store.commit(&txn.encode()).await.map(|_| ())
}

struct Engine {
    session: SessionId,
    instance: InstanceId,
    to: mpsc::Sender<ToEngine>,
    heard_at: Instant,
    inventory: Option<Inventory>,
    /// What it was told last, whatever the generation.
    told: Option<NodeConfig>,
}

struct Mind {
    plan: Plan,
    records: Direct<Embedded>,
    course: Course,
    engines: BTreeMap<NodeId, Engine>,
    sessions: BTreeMap<SessionId, NodeId>,
    generation: u64,
    /// Where somebody wants the target.
    wanted: Option<NodeId>,
    tell: watch::Sender<Seen>,
}

impl Mind {
    async fn run(mut self, mut from: mpsc::Receiver<Heard>, mut orders: mpsc::Receiver<Order>) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                heard = from.recv() => match heard {
                    Some(heard) => self.hear(heard),
                    None => return,
                },
                Some(Order::Move(to)) = orders.recv() => self.wanted = Some(to),
                _ = look.tick() => {}
            }
            while let Ok(heard) = from.try_recv() {
                self.hear(heard);
            }
            match self.records.read(VOLUME).await {
                Ok(Some(record)) => self.think(record).await,
                other => warn!(?other, "the record cannot be read"),
            }
        }
    }

    fn hear(&mut self, Heard { session, what }: Heard) {
        if let What::Opened { hello, to, .. } = what {
            info!(node = %hello.node, instance = %hello.instance, "engine came");
            self.sessions.insert(session, hello.node);
            self.course.addresses.insert(hello.node, hello.address);
            let engine = Engine {
                session,
                instance: hello.instance,
                to,
                heard_at: Instant::now(),
                inventory: None,
                told: None,
            };
            self.engines.insert(hello.node, engine);
            return;
        }
        let Some(node) = self.sessions.get(&session).copied() else { return };
        let Some(engine) = self.engines.get_mut(&node).filter(|e| e.session == session) else {
            return;
        };
        engine.heard_at = Instant::now();
        match what {
            What::Inventory(seen) => engine.inventory = Some(*seen),
            What::Difference(news) => {
                if let Some(seen) = &mut engine.inventory {
                    seen.generation = news.generation;
                    seen.sequence = news.sequence;
                    merge(&mut seen.pools, news.pools);
                    merge(&mut seen.replicas, news.replicas);
                    merge(&mut seen.targets, news.targets);
                }
            }
            What::Applied(Err(error)) => {
                warn!(%node, %error, "config refused");
                engine.told = None;
            }
            What::Closed => {
                info!(%node, "engine gone");
                self.engines.remove(&node);
                self.sessions.remove(&session);
            }
            _ => {}
        }
    }

    async fn think(&mut self, record: Membership) {
        for (node, engine) in &self.engines {
            let seen = engine.inventory.as_ref().and_then(|i| i.replicas.get(&replica_of(*node)));
            if seen.is_some_and(|seen| seen.health == ReplicaHealth::Online) {
                self.course.made.insert(*node, true);
            }
        }
        self.course.epoch = self.course.epoch.max(record.epoch);
        let record = match self.successor(&record) {
            Some((node, instance)) => self.raise(record, node, instance).await,
            None => record,
        };
        self.push();
        let seat = self.course.seat;
        let seen = Seen {
            seat,
            is_serving: seat.is_some_and(|seat| self.serves(seat)),
            record: Some(record),
            alive: self.plan.nodes().filter(|node| self.is_alive(*node)).collect(),
            inventories: self
                .engines
                .iter()
                .filter_map(|(node, engine)| Some((*node, engine.inventory.clone()?)))
                .collect(),
        };
        self.tell.send_replace(seen);
    }

    fn is_alive(&self, node: NodeId) -> bool {
        self.engines.get(&node).is_some_and(|engine| engine.heard_at.elapsed() < SILENCE)
    }

    fn serves(&self, seat: Seat) -> bool {
        let engine = self.engines.get(&seat.node).filter(|e| e.instance == seat.instance);
        let seen = engine.and_then(|e| e.inventory.as_ref()?.targets.get(&VOLUME));
        let is_so =
            seen.is_some_and(|t| t.epoch == seat.epoch && t.health == TargetHealth::Serving);
        is_so && self.is_alive(seat.node)
    }

    /// Where the target goes, if it is nowhere, was lost, or is wanted elsewhere.
    fn successor(&self, record: &Membership) -> Option<(NodeId, InstanceId)> {
        let is_ready = |node: &NodeId| {
            let engine = self.engines.get(node).filter(|_| self.is_alive(*node))?;
            let inventory = engine.inventory.as_ref()?;
            let pool = inventory.pools.get(&pool_of(*node))?;
            let is_here = inventory.replicas.contains_key(&replica_of(*node));
            (pool.health == PoolHealth::Online && is_here).then_some(engine.instance)
        };
        let is_held = self.course.seat.is_some_and(|seat| {
            let engine = self.engines.get(&seat.node).filter(|_| self.is_alive(seat.node));
            let is_over = |health: &TargetHealth| {
                matches!(health, TargetHealth::Fenced | TargetHealth::Failed { .. })
            };
            let seen = engine.and_then(|e| e.inventory.as_ref()?.targets.get(&VOLUME));
            let is_over = seen.is_some_and(|t| t.epoch == seat.epoch && is_over(&t.health));
            engine.is_some_and(|engine| engine.instance == seat.instance) && !is_over
        });
        let elsewhere = self.wanted.filter(|to| self.course.seat.is_none_or(|s| s.node != *to));
        if is_held && elsewhere.is_none() {
            return None;
        }
        if let Some(to) = elsewhere
            && let Some(instance) = is_ready(&to)
        {
            return Some((to, instance));
        }
        if is_held {
            return None;
        }
        if let Some(bare) = self.plan.bare() {
            let engine = self.engines.get(&bare).filter(|_| self.is_alive(bare))?;
            let are_ready = self
                .plan
                .nodes()
                .filter(|node| *node != bare)
                .all(|node| is_ready(&node).is_some());
            return are_ready.then_some((bare, engine.instance));
        }
        // Not the one that failed last, if there is another.
        let nodes = self.plan.nodes().filter(|node| record.is_healthy(replica_of(*node)));
        let mut able: Vec<_> = nodes.filter_map(|node| Some((node, is_ready(&node)?))).collect();
        able.sort_by_key(|(node, _)| self.course.seat.is_some_and(|seat| seat.node == *node));
        able.first().copied()
    }

    /// Layout and membership in one transaction.
    async fn raise(&mut self, old: Membership, node: NodeId, instance: InstanceId) -> Membership {
        let epoch = Epoch(old.epoch.0.max(self.course.epoch.0) + 1);
        let mut new = old.clone();
        (new.epoch, new.owner) = (epoch, None);
        let course = Course { epoch, ..self.course.clone() };
        let layout = Record::Volume(Box::new(self.plan.record(&course)));
        let record = Record::Membership(Box::new(new.clone()));
        let txn = Txn::default().put_blind(Key::Volume(VOLUME), layout).put(
            Key::Membership(VOLUME),
            record,
            old.revision,
        );
        match self.records.0.commit(&txn.encode()).await {
            Ok(TxnOutcome::Committed { revision }) => {
                info!(%node, %epoch, "target placed");
                new.revision = revision;
                self.course.epoch = epoch;
                self.course.seat = Some(Seat { node, instance, epoch });
                self.wanted = self.wanted.filter(|wanted| *wanted != node);
                new
            }
            // Whoever changed it is looked at again.
            other => {
                debug!(?other, "the epoch was not raised");
                old
            }
        }
    }

    /// Tells every engine what is new for it.
    fn push(&mut self) {
        for (node, engine) in &mut self.engines {
            let bare = self.plan.config(*node, engine.instance, Revision::ZERO, &self.course);
            if engine.told.as_ref() == Some(&bare) {
                continue;
            }
            self.generation += 1;
            let mut config = bare.clone();
            config.head.generation = Revision(self.generation);
            if engine.to.try_send(ToEngine::Apply(Box::new(config))).is_ok() {
                engine.told = Some(bare);
            }
        }
    }
}

fn merge<K: Ord, V>(all: &mut BTreeMap<K, V>, news: BTreeMap<K, Option<V>>) {
    for (key, value) in news {
        match value {
            Some(value) => all.insert(key, value),
            None => all.remove(&key),
        };
    }
}
