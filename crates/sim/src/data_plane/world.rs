//! The whole: nodes, streams, the store, the control plane and the host, and the queue that moves
//! them.

use std::collections::{BTreeMap, BTreeSet};

use mirror::{StoreAnswer, StoreRequest};
use model::{InstanceId, Membership, NodeConfig, NodeId, PoolId, ReplicaId, VolumeId};
use storage_node::{NodeMutation, TargetKey};

use super::{
    Fault, control::Control, host::Host, node::Node, oracle::Oracle, snapshots::Snapshots,
    store::Store,
};
use crate::{
    Random,
    streams::{StreamId, Streams},
};

/// Nodes of a world, each with two disks; replicas lie on the first of them.
pub(super) const NODES: usize = 3;
pub const COPIES_MOST: usize = NODES;
/// The store and the control plane, where parties are counted.
pub(super) const STORE: usize = 100;
/// The host, which is never cut off.
pub(super) const HOST_PARTY: usize = 200;
/// Blocks of the volume: three regions.
pub(super) const BLOCKS: u64 = 3 * block::REGION;
/// Where hosts write: at both ends, and over the seams of regions.
pub(super) const WINDOWS: &[block::Extent] = &[
    block::Extent::new(0, 10),
    block::Extent::new(block::REGION - 6, 12),
    block::Extent::new(2 * block::REGION - 3, 8),
    block::Extent::new(BLOCKS - 9, 9),
];
// All different: names on the wire are made of them.
pub(super) const VOLUME: VolumeId = VolumeId::from_u128(1);
/// Lies on the second pools, and is not served.
pub(super) const IDLE_VOLUME: VolumeId = VolumeId::from_u128(2);
pub(super) const HOST: model::HostId = model::HostId::from_u128(0x100);
pub(super) const GEOMETRY: mirror::Geometry =
    mirror::Geometry { region: block::REGION, segment: 256 };

/// Which rules hold: all of them, but in a proof that something notices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    pub mirror: Option<mirror::Flaw>,
    pub pool: Option<pool::Flaw>,
    pub node: Option<NodeMutation>,
}

/// A promise that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Of the list of invariants.
    pub promise: &'static str,
    pub words: String,
}

/// A target's question to the store, and who asked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    pub(super) node: usize,
    pub(super) process: u64,
    pub(super) target: TargetKey,
    pub(super) call: u64,
}

#[derive(Debug)]
pub(super) enum Event {
    /// A disk of a node, as this process uses it, ends something.
    Disk {
        node: usize,
        disk: usize,
        process: u64,
    },
    /// What is due on a stream is delivered.
    Pump {
        stream: StreamId,
    },
    /// A node looks at the clock.
    Wake {
        node: usize,
        process: u64,
    },
    /// A question arrives at the store.
    Ask {
        question: Question,
        request: StoreRequest,
    },
    /// Its answer arrives at the target.
    Answer {
        question: Question,
        answer: StoreAnswer,
    },
    /// A change of which its asker heard nothing arrives late.
    Late {
        request: StoreRequest,
    },
    Config {
        node: usize,
        config: Box<NodeConfig>,
    },
    SendConfig {
        node: usize,
    },
    AskInventory {
        node: usize,
        process: u64,
    },
    StartProcess {
        node: usize,
        process: u64,
    },
    Control,
    Host,
    Fault(Fault),
    Heal {
        a: usize,
        b: usize,
    },
    HealDisk {
        node: usize,
    },
    FreeSpace {
        node: usize,
    },
    /// Copies may go on.
    Rebuild,
    TakeImage {
        node: usize,
        age: u64,
        down: u64,
    },
    PutImage {
        node: usize,
        image: Box<pool::SimDisk>,
        down: u64,
    },
}

#[derive(Debug)]
pub(super) struct World {
    /// In microseconds.
    pub(super) now: u64,
    order: u64,
    queue: BTreeMap<(u64, u64), Event>,
    pub(super) random: Random,
    pub(super) copies: usize,
    pub(super) nodes: Vec<Node>,
    pub(super) streams: Streams,
    pub(super) store: Store,
    /// Questions that wait for an answer.
    pub(super) questions: BTreeSet<Question>,
    pub(super) control: Control,
    pub(super) snapshots: Snapshots,
    pub(super) host: Host,
    pub(super) oracle: Oracle,
    /// Pairs of parties that do not hear each other, and how often.
    pub(super) cuts: BTreeMap<(usize, usize), u32>,
    pub(super) rules: Rules,
    pub(super) stage: Stage,
    pub(super) lost_power: bool,
    /// The record says what was long ago, and nobody has claimed it since.
    pub(super) is_set_back: bool,
    /// Only an older image was there to serve from, and nothing that was left could tell.
    pub(super) is_blind: bool,
    pub(super) broken: Option<Broken>,
    pub(super) counts: Counts,
    pub(super) trace: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Faults,
    /// Nothing new goes wrong.
    Calm,
    /// Nodes are told to stop.
    Stopping,
}

/// What happened, by kind.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub events: u64,
    pub faults: BTreeMap<&'static str, u64>,
    pub checks: BTreeMap<&'static str, u64>,
    pub notices: BTreeMap<&'static str, u64>,
}

pub(super) fn replica_id(node: usize) -> ReplicaId {
    ReplicaId::from_u128(0x10 + number(node))
}

/// Of the volume that is not served.
pub(super) fn idle_replica_id(node: usize) -> ReplicaId {
    ReplicaId::from_u128(0x20 + number(node))
}

pub(super) fn node_id(node: usize) -> NodeId {
    NodeId::from_u128(0x200 + number(node))
}

/// The pool on a disk of a node.
pub(super) fn pool_id(node: usize, disk: usize) -> PoolId {
    PoolId::from_u128(0x300 + 0x10 * number(disk) + number(node))
}

/// Replicas that are imported later have numbers that follow.
pub(super) fn instance(node: usize, process: u64) -> InstanceId {
    InstanceId::from_u128((1 + number(node)) << 64 | u128::from(process) << 32)
}

pub(super) fn number(node: usize) -> u128 {
    u128::try_from(node).unwrap_or(0)
}

impl World {
    pub(super) fn new(seed: u64, copies: usize, rules: Rules, is_traced: bool) -> Self {
        let mut random = Random::new(seed);
        let record = Membership::founded(VOLUME, (0..copies).map(replica_id));
        let nodes = (0..NODES).map(|node| Node::new(node, &mut random)).collect();
        let mut world = Self {
            now: 0,
            order: 0,
            queue: BTreeMap::new(),
            random,
            copies,
            nodes,
            streams: Streams::default(),
            store: Store::new(record),
            questions: BTreeSet::new(),
            control: Control::new(NODES),
            snapshots: Snapshots::default(),
            host: Host::default(),
            oracle: Oracle::new(BLOCKS),
            cuts: BTreeMap::new(),
            rules,
            stage: Stage::Faults,
            lost_power: false,
            is_set_back: false,
            is_blind: false,
            broken: None,
            counts: Counts::default(),
            trace: is_traced.then(Vec::new),
        };
        for node in 0..NODES {
            world.format(node, 0);
            world.format(node, 1);
            world.start_process(node, 0);
        }
        world.after(0, Event::Control);
        world.after(1_000, Event::Host);
        world
    }

    pub(super) fn after(&mut self, delay: u64, event: Event) {
        self.order += 1;
        self.queue.insert((self.now + delay, self.order), event);
    }

    pub(super) fn at(&mut self, at: u64, event: Event) {
        self.after(at.saturating_sub(self.now), event);
    }

    /// What a message or an I/O takes, mostly little.
    pub(super) fn latency(&mut self) -> u64 {
        if self.random.chance(20) {
            self.random.between(5_000, 60_000)
        } else {
            self.random.between(50, 2_000)
        }
    }

    pub(super) fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cuts.contains_key(&(a.min(b), a.max(b)))
    }

    pub(super) fn note(&mut self, words: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9}.{:03} {}", now / 1_000, now % 1_000, words()));
        }
    }

    pub(super) fn breaks(&mut self, promise: &'static str, words: impl Into<String>) {
        let words = words.into();
        if self.is_blind {
            return;
        }
        self.note(|| format!("BROKEN {promise}: {words}"));
        self.broken.get_or_insert(Broken { promise, words });
    }

    /// Counts one look at a promise, and what came of it.
    pub(super) fn check(&mut self, promise: &'static str, result: Result<(), String>) {
        *self.counts.checks.entry(promise).or_default() += 1;
        if let Err(words) = result {
            self.breaks(promise, words);
        }
    }

    /// Everything up to `until`, or to the first broken promise.
    pub(super) fn run_until(&mut self, until: u64) {
        while self.broken.is_none()
            && let Some(next) = self.queue.first_entry()
            && next.key().0 <= until
        {
            let ((at, _), event) = next.remove_entry();
            self.now = at;
            self.counts.events += 1;
            self.happen(event);
        }
        self.now = self.now.max(until);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Disk { node, disk, process } => self.disk_ends(node, disk, process),
            Event::Pump { stream } => self.pump(stream),
            Event::Wake { node, process } => self.wake(node, process),
            Event::Ask { question, request } => self.store_asked(question, request),
            Event::Answer { question, answer } => self.store_answers(question, answer),
            Event::Late { request } => self.store_late(request),
            Event::Config { node, config } => self.config_arrives(node, *config),
            Event::SendConfig { node } => self.send_config(node),
            Event::AskInventory { node, process } => self.ask_inventory(node, process),
            Event::StartProcess { node, process } => self.start_process(node, process),
            Event::Control => self.controls(),
            Event::Host => self.host_acts(),
            Event::Fault(fault) => self.strike(fault),
            Event::Heal { a, b } => self.heal(a, b),
            Event::HealDisk { node } => self.heal_disk(node),
            Event::FreeSpace { node } => self.free_space(node),
            Event::Rebuild => self.tell_rebuild(),
            Event::TakeImage { node, age, down } => self.take_image(node, age, down),
            Event::PutImage { node, image, down } => self.put_image(node, *image, down),
        }
    }

    pub(super) fn heal(&mut self, a: usize, b: usize) {
        let pair = (a.min(b), a.max(b));
        if let Some(count) = self.cuts.get_mut(&pair) {
            *count -= 1;
            if *count == 0 {
                self.cuts.remove(&pair);
                self.note(|| format!("{a} and {b} hear each other again"));
            }
        }
        for stream in self.streams.ids() {
            self.after(0, Event::Pump { stream });
        }
    }
}
