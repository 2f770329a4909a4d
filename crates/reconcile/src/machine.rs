//! The machine itself: one event, one turn.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    vec::Vec,
};

use model::{InstanceId, Millis, Subject, Time, limits::HEARTBEAT_EVERY};
use plan::{Planner, Rules, World};

use crate::{
    Effect, Event, commit::Commits, deliver::Delivery, detect::Detector, journal::Journal,
    lead::Lead, limits::PLANS_PER_TURN, queue::Queue, register::Registry, request::Requests,
    waiting::Waiting,
};

#[derive(Clone, Debug)]
pub struct Config {
    /// This process: random, new at every start.
    pub instance: InstanceId,
    /// For jitter and new ids: random.
    pub seed: u64,
    pub periods: Periods,
    /// Where this controller takes users' requests while it leads.
    pub address: Option<String>,
}

impl Config {
    pub fn new(instance: InstanceId, seed: u64) -> Self {
        Self { instance, seed, periods: Periods::default(), address: None }
    }
}

/// How often everything of a kind is planned again, changed or not.
#[derive(Clone, Copy, Debug)]
pub struct Periods {
    pub nodes: Millis,
    pub pools: Millis,
    pub volumes: Millis,
    pub snapshots: Millis,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            nodes: Millis::seconds(10),
            pools: Millis::seconds(30),
            volumes: Millis::seconds(60),
            snapshots: Millis::seconds(60),
        }
    }
}

/// Counters for people and for the simulator.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Committed steps by kind.
    pub steps: BTreeMap<&'static str, u64>,
    pub plans: u64,
    pub conflicts: u64,
    pub terms: u64,
}

#[derive(Debug)]
pub struct Reconciler<P = Rules> {
    pub(crate) config: Config,
    pub(crate) planner: P,
    pub(crate) world: World,
    pub(crate) lead: Lead,
    pub(crate) queue: Queue,
    pub(crate) waiting: Waiting,
    pub(crate) commits: Commits,
    pub(crate) delivery: Delivery,
    pub(crate) detector: Detector,
    pub(crate) registry: Registry,
    pub(crate) requests: Requests,
    pub(crate) journal: Journal,
    pub(crate) stats: Stats,
    pub(crate) now: Time,
    pub(crate) effects: Vec<Effect>,
    sweeps: [Time; 4],
}

impl Reconciler<Rules> {
    pub fn new(config: Config) -> Self {
        Self::with_planner(config, Rules)
    }
}

impl<P: Planner> Reconciler<P> {
    pub fn with_planner(config: Config, planner: P) -> Self {
        Self {
            queue: Queue::new(config.seed),
            config,
            planner,
            world: World::default(),
            lead: Lead::default(),
            waiting: Waiting::default(),
            commits: Commits::default(),
            delivery: Delivery::default(),
            detector: Detector::default(),
            registry: Registry::default(),
            requests: Requests::default(),
            journal: Journal::default(),
            stats: Stats::default(),
            now: Time(0),
            effects: Vec::new(),
            sweeps: [Time(0); 4],
        }
    }

    pub fn world(&self) -> &World {
        &self.world
    }

    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    pub fn is_leader(&self) -> bool {
        self.lead.is_leading()
    }

    /// What is queued, in flight or on its way to an engine.
    pub fn busy_with(&self) -> Option<&'static str> {
        if !self.queue.is_empty() {
            return Some("subjects to plan");
        }
        if !self.commits.is_empty() {
            return Some("commits that are not answered");
        }
        (!self.delivery.is_idle(&self.world)).then_some("configs on their way")
    }

    /// When to hand in a `Tick` at the latest.
    pub fn next_deadline(&self) -> Option<Time> {
        let regular = (self.now + HEARTBEAT_EVERY).min(self.next_judgement().max(self.now));
        let ready = (!self.queue.is_empty() && self.may_plan()).then_some(self.now);
        let timer = self.queue.next_timer().map(|timer| timer.max(self.now));
        [Some(regular), ready, timer].into_iter().flatten().min()
    }

    /// One event; everything that follows from it and can be done now.
    pub fn handle(&mut self, now: Time, event: Event) -> Vec<Effect> {
        self.now = now.max(self.now);
        self.world.now = self.now;
        self.detector.begin_turn(self.now);
        self.take(event);
        self.campaign();
        self.judge();
        self.sweep();
        self.queue.wake_timers(self.now);
        self.retry_requests();
        if self.may_plan() {
            self.plan_queued();
            self.deliver();
        }
        core::mem::take(&mut self.effects)
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::Loaded { entries, revision } => self.loaded(entries, revision),
            Event::Changed { revision, changes } => self.changed(revision, changes),
            Event::WatchLost => self.watch_lost(),
            Event::Committed { id, outcome } => self.committed(id, outcome),
            Event::Lease(answer) => self.lease_answered(answer),
            Event::NodeRegistered { node, name, address, instance } => {
                self.node_registered(node, name, address, instance);
            }
            Event::HostRegistered { host, name, nqn, node, instance } => {
                self.host_registered(host, name, nqn, node, instance);
            }
            Event::Inventory(inventory) => self.inventory(*inventory),
            Event::Difference(difference) => self.difference(difference),
            Event::HostInventory(inventory) => self.host_inventory(inventory),
            Event::Heartbeat { node, instance } => self.heartbeat(node, instance),
            Event::HostHeartbeat { host, instance } => self.host_heartbeat(host, instance),
            Event::HeardThrough { node } => self.detector.heard_through(node, self.now),
            Event::NodeClosed { node, instance } => self.node_closed(node, instance),
            Event::HostClosed { host, instance } => self.host_closed(host, instance),
            Event::NodeAnswered { node, answer } => self.node_answered(node, &answer),
            Event::HostAnswered { host, answer } => self.host_answered(host, &answer),
            Event::Request { id, request, if_spec } => self.request(id, request, if_spec),
        }
    }

    /// Leads, with its term on record and everything loaded.
    pub(crate) fn may_plan(&self) -> bool {
        self.lead.is_leading() && self.world.cluster.is_some()
    }

    pub(crate) fn touch(&mut self, touched: BTreeSet<Subject>) {
        for subject in touched {
            self.queue.push(subject);
        }
    }

    fn plan_queued(&mut self) {
        for _ in 0..PLANS_PER_TURN {
            if self.commits.is_full() {
                break;
            }
            let Some(subject) = self.queue.pop() else { break };
            if self.commits.is_busy(subject) {
                // Its own commit wakes it again.
                self.commits.plan_again(subject);
                continue;
            }
            self.waiting.forget(subject);
            if self.register_if_due(subject) {
                continue;
            }
            self.stats.plans += 1;
            let plan = self.planner.plan(&self.world, subject);
            match plan.step {
                Some(step) => self.commit_step(&step),
                None => self.wait(subject, &plan.waits),
            }
        }
    }

    /// Everything of a kind is looked at again on its period: whatever was missed is found.
    fn sweep(&mut self) {
        if !self.may_plan() {
            return;
        }
        let periods = self.config.periods;
        let spans = [periods.nodes, periods.pools, periods.volumes, periods.snapshots];
        for (index, span) in spans.into_iter().enumerate() {
            if self.now < self.sweeps[index] {
                continue;
            }
            self.sweeps[index] = self.now + span;
            let world = &self.world;
            let subjects: Vec<Subject> = match index {
                0 => {
                    let hosts = self.registry.hosts().map(Subject::Host);
                    let nodes = self.registry.nodes().map(Subject::Node);
                    let known = world.nodes.keys().copied().map(Subject::Node);
                    nodes.chain(known).chain(hosts).chain([Subject::Cluster]).collect()
                }
                1 => world.pools.keys().copied().map(Subject::Pool).collect(),
                2 => world.volumes.keys().copied().map(Subject::Volume).collect(),
                _ => world.snapshots.keys().copied().map(Subject::Snapshot).collect(),
            };
            for subject in subjects {
                self.queue.push(subject);
            }
        }
    }
}
