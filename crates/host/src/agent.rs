//! The one task that owns what is wanted and what is seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use model::{HostConfig, HostId, HostInventory, InstanceId, NodeId, Revision, VolumeId};
use ports::EngineError;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, MissedTickBehavior, interval, sleep},
};
use tracing::{info, warn};

use crate::{
    desired::Desired,
    limits,
    local::Local,
    paths::{Held, Paths},
};

#[derive(Debug)]
pub(crate) enum Order {
    Apply { config: Box<HostConfig>, reply: oneshot::Sender<Result<Revision, EngineError>> },
    Inventory { reply: oneshot::Sender<HostInventory> },
}

/// Nodes that answered this host, and when that was found.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) nodes: BTreeSet<NodeId>,
    pub(crate) at: Instant,
}

/// Who this is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) host: HostId,
    pub(crate) name: String,
    pub(crate) instance: InstanceId,
    /// The folder of what applications need to find.
    pub(crate) run: PathBuf,
    /// What keeps the paths, in a word.
    pub(crate) way: &'static str,
}

#[derive(Debug)]
pub(crate) struct Agent {
    identity: Identity,
    desired: Desired,
    paths: Box<dyn Paths>,
    held: BTreeMap<VolumeId, Held>,
    sequence: u64,
    turns: watch::Sender<u64>,
    heard: watch::Sender<Heard>,
}

/// Reaches the agent, from the streams to the controllers.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    orders: mpsc::Sender<Order>,
    /// Changes whenever an inventory may differ from the last one.
    pub(crate) turns: watch::Receiver<u64>,
    pub(crate) heard: watch::Receiver<Heard>,
}

impl Handle {
    pub(crate) async fn apply(&self, config: Box<HostConfig>) -> Result<Revision, EngineError> {
        let (reply, replied) = oneshot::channel();
        let gone = || EngineError::Unreachable { reason: "the host has stopped".into() };
        self.orders.send(Order::Apply { config, reply }).await.map_err(|_| gone())?;
        replied.await.unwrap_or_else(|_| Err(gone()))
    }

    /// `None` when the host has stopped.
    pub(crate) async fn inventory(&self) -> Option<HostInventory> {
        let (reply, replied) = oneshot::channel();
        self.orders.send(Order::Inventory { reply }).await.ok()?;
        replied.await.ok()
    }
}

enum Event {
    Order(Order),
    News,
    Beat,
}

impl Agent {
    pub(crate) fn new(
        identity: Identity,
        paths: Box<dyn Paths>,
    ) -> (Self, Handle, mpsc::Receiver<Order>) {
        let (orders, ordered) = mpsc::channel(limits::ORDERS_MAX);
        let (turns, turned) = watch::channel(0);
        let nobody = Heard { nodes: BTreeSet::new(), at: Instant::now() };
        let (heard, hearing) = watch::channel(nobody);
        let desired = Desired::new(identity.instance);
        let held = BTreeMap::new();
        let agent = Self { identity, desired, paths, held, sequence: 0, turns, heard };
        (agent, Handle { orders, turns: turned, heard: hearing }, ordered)
    }

    /// Runs until nobody can reach it any more. `news` is rung by the paths.
    pub(crate) async fn run(mut self, mut orders: mpsc::Receiver<Order>, news: Arc<Notify>) {
        let mut beat = interval(limits::HEARD_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let look_every = self.paths.look_every();
        self.look();
        self.write_local();
        loop {
            let event = tokio::select! {
                () = news.notified() => Event::News,
                () = pause(look_every) => Event::News,
                order = orders.recv() => match order {
                    Some(order) => Event::Order(order),
                    None => return,
                },
                _ = beat.tick() => Event::Beat,
            };
            match event {
                Event::Order(Order::Apply { config, reply }) => {
                    let answer = self.apply(*config);
                    // Who asked may be gone.
                    let _ = reply.send(answer);
                }
                Event::Order(Order::Inventory { reply }) => {
                    let inventory = self.inventory();
                    let _ = reply.send(inventory);
                }
                Event::News => self.look(),
                Event::Beat => self.beat(),
            }
        }
    }

    fn apply(&mut self, config: HostConfig) -> Result<Revision, EngineError> {
        let generation = self.desired.take(config)?;
        self.obey();
        self.look();
        self.turns.send_modify(|turn| *turn += 1);
        Ok(generation)
    }

    /// Has the paths be what is wanted.
    fn obey(&mut self) {
        if !self.desired.is_told() {
            return;
        }
        for (volume, part) in self.desired.parts() {
            // Without a path nothing serves for now: what there is, is kept.
            if let Some(path) = &part.path {
                self.paths.follow(*volume, path);
            }
        }
        for volume in self.paths.look().into_keys() {
            if !self.desired.parts().contains_key(&volume) {
                self.paths.leave(volume);
            }
        }
    }

    fn look(&mut self) {
        let held = self.paths.look();
        if held == self.held {
            return;
        }
        for (volume, new) in &held {
            let old = self.held.get(volume).map(|old| &old.paths);
            for path in new.paths.iter().filter(|path| old.is_none_or(|o| !o.contains(path))) {
                let (node, epoch) = (path.node, path.epoch);
                info!(%volume, %node, %epoch, health = ?path.health, "path changed");
            }
        }
        for volume in self.held.keys().filter(|volume| !held.contains_key(volume)) {
            info!(%volume, "volume left");
        }
        self.held = held;
        self.write_local();
        self.turns.send_modify(|turn| *turn += 1);
    }

    fn beat(&mut self) {
        self.look();
        let heard = Heard { nodes: self.paths.heard(), at: Instant::now() };
        if !heard.nodes.is_empty() {
            // Nobody listens while no controller is connected.
            self.heard.send_replace(heard);
        }
    }

    fn inventory(&mut self) -> HostInventory {
        self.sequence += 1;
        let paths = self.held.iter().map(|(volume, held)| (*volume, held.paths.clone()));
        HostInventory {
            host: self.identity.host,
            instance: self.identity.instance,
            generation: self.desired.generation(),
            sequence: self.sequence,
            paths: paths.filter(|(_, paths)| !paths.is_empty()).collect(),
            shares: BTreeMap::new(),
        }
    }

    fn write_local(&self) {
        let Identity { host, name, run, way, .. } = &self.identity;
        let local = Local {
            host: *host,
            name: name.clone(),
            way: (*way).into(),
            volumes: self.held.clone(),
        };
        if let Err(error) = local.write(run) {
            warn!(%error, "what applications look for could not be written");
        }
    }
}

async fn pause(span: Option<Duration>) {
    match span {
        Some(span) => sleep(span).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
