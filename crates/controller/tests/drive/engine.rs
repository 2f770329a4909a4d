//! An engine without data that speaks the real stream and does what its configs say, at once.
//!
//! Its pools and replicas outlive its process, its targets do not, as with the real one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use model::{
    Buried, Bytes, ChildSeen, Difference, Epoch, InstanceId, Inventory, Key, Mark, NodeConfig,
    NodeId, NodePart, PoolHealth, PoolId, PoolItem, PoolSeen, ReplicaHealth, ReplicaId,
    ReplicaItem, ReplicaSeen, Revision, Roster, Scope, TargetHealth, TargetItem, TargetSeen,
    VolumeId,
};
use ports::{EngineError, Memberships};
use rpc::{
    Asked, Hello, MembershipAnswer, Receiver, Sender, Through, ToController, ToEngine, split,
};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::{Duration, MissedTickBehavior, interval, sleep},
};

/// What survives a process.
#[derive(Clone, Debug, Default)]
pub struct Disks(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    pools: BTreeMap<PoolId, PoolSeen>,
    replicas: BTreeMap<ReplicaId, ReplicaSeen>,
}

/// A running engine; dropping it kills it.
#[derive(Debug)]
pub struct Engine {
    pub node: NodeId,
    _tasks: JoinSet<()>,
}

struct State {
    node: NodeId,
    instance: InstanceId,
    disks: Disks,
    generation: Revision,
    parts: BTreeMap<Key, NodePart>,
    targets: BTreeMap<VolumeId, TargetSeen>,
    sequence: u64,
}

#[derive(Clone)]
struct Shared {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<u64>,
    memberships: Through,
}

const CAPACITY: Bytes = Bytes::gib(1_000_000);
const REDIAL: Duration = Duration::from_millis(30);

impl Engine {
    pub fn start(number: u128, disks: &Disks, controllers: &[SocketAddr]) -> Self {
        let node = NodeId::from_u128(number);
        let instance = InstanceId(uuid::Uuid::new_v4());
        let state = State {
            node,
            instance,
            disks: disks.clone(),
            generation: Revision::ZERO,
            parts: BTreeMap::new(),
            targets: BTreeMap::new(),
            sequence: 1,
        };
        let (memberships, asked) = Through::new();
        let (changed, _) = watch::channel(1);
        let shared = Shared { state: Arc::new(Mutex::new(state)), changed, memberships };
        let mut tasks = JoinSet::new();
        let (lines, connected) = watch::channel(None);
        tasks.spawn(pass_on(asked, connected));
        for controller in controllers {
            tasks.spawn(dial(*controller, shared.clone(), lines.clone()));
        }
        Self { node, _tasks: tasks }
    }
}

type Line = mpsc::Sender<Asked>;

/// Membership questions go to whichever controller was reached last.
async fn pass_on(mut asked: mpsc::Receiver<Asked>, connected: watch::Receiver<Option<Line>>) {
    while let Some(question) = asked.recv().await {
        let line = connected.borrow().clone();
        if let Some(line) = line {
            let _ = line.send(question).await;
        }
    }
}

async fn dial(to: SocketAddr, shared: Shared, lines: watch::Sender<Option<Line>>) {
    loop {
        if let Ok(stream) = TcpStream::connect(to).await {
            let (line, questions) = mpsc::channel(64);
            let _ = lines.send(Some(line));
            let (incoming, outgoing) = split(stream).unwrap();
            let _ = converse(shared.clone(), incoming, outgoing, questions).await;
        }
        sleep(REDIAL).await;
    }
}

async fn converse(
    shared: Shared,
    mut incoming: Receiver<ToEngine>,
    mut outgoing: Sender<ToController>,
    mut questions: mpsc::Receiver<Asked>,
) -> Result<(), rpc::FrameError> {
    outgoing.send(&ToController::Hello(shared.hello())).await?;
    let mut told = shared.lock().inventory();
    outgoing.send(&ToController::Inventory(Box::new(told.clone()))).await?;
    let mut changed = shared.changed.subscribe();
    changed.mark_changed();
    let mut beat = interval(rpc::limits::HEARTBEAT_PERIOD);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked: BTreeMap<u64, oneshot::Sender<MembershipAnswer>> = BTreeMap::new();
    let mut calls = 0;
    let (heard, mut hearing) = mpsc::channel(64);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok(Some(message)) = incoming.next().await {
            if heard.send(message).await.is_err() {
                break;
            }
        }
    });
    loop {
        tokio::select! {
            message = hearing.recv() => match message {
                None | Some(ToEngine::Refused { .. }) => return Ok(()),
                Some(ToEngine::Apply(config)) => {
                    let answer = shared.apply(&config, &mut tasks);
                    outgoing.send(&ToController::Applied(answer)).await?;
                }
                Some(ToEngine::Inventory) => {
                    told = shared.lock().inventory();
                    outgoing.send(&ToController::Inventory(Box::new(told.clone()))).await?;
                }
                Some(ToEngine::Strike { volume, epoch }) => {
                    shared.lock().targets.retain(|id, seen| (*id, seen.epoch) != (volume, epoch));
                }
                Some(ToEngine::Answer { call, answer }) => {
                    if let Some(waiting) = asked.remove(&call) {
                        let _ = waiting.send(answer);
                    }
                }
            },
            Some(Asked { ask, answer }) = questions.recv() => {
                calls += 1;
                asked.insert(calls, answer);
                outgoing.send(&ToController::Ask { call: calls, ask }).await?;
            }
            Ok(()) = changed.changed() => {
                let now = shared.lock().inventory();
                let difference = difference(&told, &now);
                told = now;
                outgoing.send(&ToController::Difference(Box::new(difference))).await?;
            }
            _ = beat.tick() => outgoing.send(&ToController::Heartbeat).await?,
        }
    }
}

fn difference(old: &Inventory, new: &Inventory) -> Difference {
    fn part<K: Ord + Copy, V: Clone + PartialEq>(
        old: &BTreeMap<K, V>,
        new: &BTreeMap<K, V>,
    ) -> BTreeMap<K, Option<V>> {
        let gone = old.keys().filter(|key| !new.contains_key(key)).map(|key| (*key, None));
        let changed = new.iter().filter(|(key, value)| old.get(key) != Some(value));
        gone.chain(changed.map(|(key, value)| (*key, Some(value.clone())))).collect()
    }
    Difference {
        node: new.node,
        instance: new.instance,
        generation: new.generation,
        base: old.sequence,
        sequence: new.sequence,
        pools: part(&old.pools, &new.pools),
        replicas: part(&old.replicas, &new.replicas),
        targets: part(&old.targets, &new.targets),
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn hello(&self) -> Hello {
        let state = self.lock();
        let name = format!("n{}", state.node.0.as_u128());
        let address = format!("127.0.0.1:{}", 40_000 + state.node.0.as_u128());
        let (node, instance) = (state.node, state.instance);
        let speaks = rpc::Speaks::OWN;
        Hello { node, name, address, instance, version: "test".into(), speaks }
    }

    fn news(&self) {
        self.lock().sequence += 1;
        self.changed.send_modify(|count| *count += 1);
    }

    fn apply(&self, config: &NodeConfig, tasks: &mut JoinSet<()>) -> Result<Revision, EngineError> {
        let wanted = self.lock().apply(config)?;
        for (volume, item) in wanted {
            let shared = self.clone();
            tasks.spawn(async move { shared.follow_target(volume, item).await });
        }
        self.news();
        Ok(config.head.generation)
    }

    /// Claims the membership record, serves, and records a clean end.
    async fn follow_target(self, volume: VolumeId, item: TargetItem) {
        let Ok(Some(mut record)) = self.memberships.read(volume).await else { return };
        let instance = self.lock().instance;
        if record.epoch != item.epoch {
            if record.epoch > item.epoch {
                self.set_target(volume, &item, TargetHealth::Fenced);
            }
            return;
        }
        record.owner = item.serve.then_some(instance);
        record.clean = !item.serve;
        record.resync_source = None;
        if self.memberships.swap(&record).await.is_err() {
            return;
        }
        if item.serve {
            self.set_target(volume, &item, TargetHealth::Serving);
        } else {
            self.lock().targets.remove(&volume);
            self.news();
        }
    }

    fn set_target(&self, volume: VolumeId, item: &TargetItem, health: TargetHealth) {
        if let Some(seen) = self.lock().targets.get_mut(&volume)
            && seen.epoch == item.epoch
        {
            seen.health = health;
        }
        self.news();
    }
}

impl State {
    /// Takes a config; the targets that it is about are still to be followed.
    fn apply(&mut self, config: &NodeConfig) -> Result<Vec<(VolumeId, TargetItem)>, EngineError> {
        let head = &config.head;
        if head.instance != self.instance {
            return Err(EngineError::OtherInstance { instance: self.instance });
        }
        match head.scope {
            Scope::Difference { base } if base != self.generation => {
                return Err(EngineError::NeedsWhole { at: self.generation });
            }
            Scope::Difference { .. } => {}
            Scope::Whole => self.parts.clear(),
        }
        let mark = Mark { era: head.era, term: head.term, revision: head.generation };
        for (key, part) in &config.parts {
            match part {
                Some(part) => self.parts.insert(key.clone(), part.clone()),
                None => self.parts.remove(key),
            };
        }
        let parts: Vec<NodePart> = config.parts.values().flatten().cloned().collect();
        for part in &parts {
            if let NodePart::Pool(item) = part {
                self.disks.make_pool(item, mark);
            }
        }
        let mut wanted = Vec::new();
        for part in parts {
            let NodePart::Volume(part) = part else { continue };
            for item in &part.replicas {
                self.disks.make_replica(part.volume, item, mark);
            }
            if let Some(item) = part.target {
                self.note_target(part.volume, &item);
                wanted.push((part.volume, item));
            }
        }
        self.bury(config);
        self.generation = head.generation;
        Ok(wanted)
    }

    fn note_target(&mut self, volume: VolumeId, item: &TargetItem) {
        let known = self.targets.get(&volume).filter(|seen| seen.epoch == item.epoch).cloned();
        let child = ChildSeen { copied: None, is_full: false, instance: None };
        let children = item.children.iter().map(|each| (each.replica, child)).collect();
        let health = known.map_or(TargetHealth::Starting, |seen| seen.health);
        let seen = TargetSeen {
            epoch: item.epoch,
            health,
            size: item.size,
            hosts: BTreeSet::new(),
            children,
            failed_snapshots: Vec::new(),
        };
        self.targets.insert(volume, seen);
    }

    fn bury(&mut self, config: &NodeConfig) {
        let mut disks = self.disks.0.lock().unwrap();
        for key in config.parts.iter().filter(|(_, part)| part.is_some()).map(|(key, _)| key) {
            let Key::Tombstone(_, buried) = key else { continue };
            match buried {
                Buried::Target { volume, epoch } => {
                    self.targets.retain(|id, seen| id != volume || seen.epoch != *epoch);
                }
                Buried::Replica { replica, .. } => {
                    disks.replicas.remove(replica);
                }
                Buried::Snapshot { snapshot, replica, .. } => {
                    if let Some(seen) = disks.replicas.get_mut(replica) {
                        seen.snapshots.remove(snapshot);
                    }
                }
                Buried::Pool { pool } => {
                    disks.pools.remove(pool);
                    disks.replicas.retain(|_, seen| seen.pool != *pool);
                }
            }
        }
    }

    fn inventory(&self) -> Inventory {
        let disks = self.disks.0.lock().unwrap();
        let named = |key: &Key| self.parts.contains_key(key);
        let pools = disks.pools.iter().filter(|(id, _)| named(&Key::Pool(**id)));
        let open = |seen: &ReplicaSeen| named(&Key::Pool(seen.pool));
        let replicas = disks.replicas.iter().filter(|(_, seen)| open(seen));
        Inventory {
            node: self.node,
            instance: self.instance,
            generation: self.generation,
            sequence: self.sequence,
            pools: pools.map(|(id, seen)| (*id, seen.clone())).collect(),
            replicas: replicas.map(|(id, seen)| (*id, seen.clone())).collect(),
            targets: self.targets.clone(),
            devices: Vec::new(),
        }
    }
}

impl Disks {
    fn make_pool(&self, item: &PoolItem, mark: Mark) {
        let health = if item.must_exist { PoolHealth::Missing } else { PoolHealth::Online };
        let mut disks = self.0.lock().unwrap();
        let seen = disks.pools.entry(item.id).or_insert(PoolSeen {
            health,
            capacity: CAPACITY,
            used: Bytes::ZERO,
            reserved: Bytes::ZERO,
            mark: None,
            carried: None,
        });
        if seen.health == PoolHealth::Online {
            seen.mark = Some(mark);
        }
    }

    fn make_replica(&self, volume: VolumeId, item: &ReplicaItem, mark: Mark) {
        let health = if item.must_exist { ReplicaHealth::Missing } else { ReplicaHealth::Online };
        let mut disks = self.0.lock().unwrap();
        let seen = disks.replicas.entry(item.id).or_insert(ReplicaSeen {
            volume,
            pool: item.pool,
            health,
            size: item.size,
            epoch: Epoch::ZERO,
            roster: Roster(1),
            members: BTreeMap::new(),
            birth: Some(mark),
            snapshots: BTreeMap::new(),
            carried: None,
            instance: None,
        });
        seen.size = seen.size.max(item.size);
        let admitted = item.admission.map_or(Epoch::ZERO, |admission| admission.epoch);
        seen.epoch = seen.epoch.max(admitted);
    }
}
