//! A whole cluster in one value: who is there, what is on its way, and what time it is.

mod faults;
mod judge;
mod processes;
mod promises;
mod records;
#[cfg(test)]
mod smoke;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use model::{HostId, Millis, NodeId, Time};
use reconcile::Event;
use storage_node::NodeMutation;

use self::promises::Promises;
pub use self::records::Records;
use crate::{
    Brain, Broken, Controller, Ctx, Hardware, Message, Network, NodeProcess, Oracle, Outbox, Party,
    Queue, Random, Timer,
    fakes::{disk::Disks, host::Host, store::Store},
    setup::Setup,
};

/// A run begins here: far enough from zero that clocks may lag.
pub const START: Time = Time(1_000_000);

pub struct Cluster {
    pub now: Time,
    pub store: Store,
    pub nodes: BTreeMap<NodeId, Machine>,
    pub hosts: BTreeMap<HostId, HostMachine>,
    pub controllers: Vec<Seat>,
    pub network: Network,
    pub oracle: Oracle,
    pub records: Records,
    pub events: u64,
    /// What users were answered, until it is taken.
    pub replies: Vec<Answer>,
    queue: Queue<Item>,
    random: Random,
    out: Outbox,
    pauses: BTreeMap<Party, Pause>,
    trace: VecDeque<String>,
    brain: NewBrain,
    promises: Promises,
    /// Steps of controllers that are gone.
    past_steps: BTreeMap<&'static str, u64>,
}

pub type Answer = (u64, Result<plan::Accepted, plan::Refusal>);

/// Makes the brain of one life of a controller.
pub type NewBrain = Box<dyn Fn(u8, model::InstanceId, u64) -> Box<dyn Brain>>;

/// A storage node: disks that survive, and an engine that does not.
#[derive(Debug, Default)]
pub struct Machine {
    /// What judges last saw on its disks.
    pub disks: Disks,
    pub hardware: Hardware,
    pub engine: Option<NodeProcess>,
    pub lives: u32,
    pub is_powered: bool,
    /// Gone for ever.
    pub is_lost: bool,
}

#[derive(Debug, Default)]
pub struct HostMachine {
    pub process: Option<Host>,
    pub lives: u32,
    pub is_powered: bool,
    pub index: usize,
    /// The node on the same machine.
    pub node: Option<NodeId>,
}

/// A place for a controller, whether one runs there or not.
#[derive(Debug, Default)]
pub struct Seat {
    pub process: Option<Controller>,
    pub lives: u32,
    /// How far the clock of this machine is off.
    pub ahead: Millis,
    pub behind: Millis,
}

#[derive(Debug)]
struct Pause {
    until: Time,
    backlog: Vec<Item>,
}

#[derive(Debug)]
enum Item {
    Deliver {
        from: Party,
        to: Party,
        message: Message,
    },
    Wake {
        party: Party,
        life: u32,
        timer: Timer,
    },
    Start(Party),
    Resume(Party),
    /// Some cut may be over.
    Healed,
    /// A fault is over.
    Undo(faults::Undo),
}

/// Lines of a trace that are kept.
const TRACE_MAX: usize = 2_000;

impl core::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cluster")
            .field("now", &self.now)
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    pub fn new(seed: u64, setup: &Setup, brain: NewBrain) -> Self {
        Self::with_mutation(seed, setup, brain, None)
    }

    /// With storage nodes that lack a rule.
    pub fn with_mutation(
        seed: u64,
        setup: &Setup,
        brain: NewBrain,
        mutation: Option<NodeMutation>,
    ) -> Self {
        let mut cluster = Self {
            now: START,
            store: Store::default(),
            nodes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            controllers: (0..setup.controllers).map(|_| Seat::default()).collect(),
            network: Network::default(),
            oracle: Oracle::new(),
            records: Records::default(),
            events: 0,
            replies: Vec::new(),
            queue: Queue::default(),
            random: Random::new(seed),
            out: Outbox::default(),
            pauses: BTreeMap::new(),
            trace: VecDeque::new(),
            brain,
            promises: Promises::default(),
            past_steps: BTreeMap::new(),
        };
        setup.build(&mut cluster, mutation);
        cluster
    }

    pub fn tracing(&mut self) {
        self.out.tracing = true;
    }

    /// Handles the next thing that happens, if it happens by `until`.
    pub fn step(&mut self, until: Time) -> bool {
        if self.queue.next_at().is_none_or(|at| at > until) {
            self.now = self.now.max(until);
            return false;
        }
        let Some((at, item)) = self.queue.pop() else { return false };
        self.now = at;
        self.events += 1;
        self.promises.is_stirred |= !matches!(item, Item::Deliver { .. } | Item::Wake { .. });
        self.happen(item);
        self.judge();
        true
    }

    /// Runs until then, or until a promise is broken.
    pub fn run_until(&mut self, until: Time) -> Result<(), Broken> {
        while self.step(until) {
            if let Some(broken) = self.oracle.broken.first() {
                return Err(broken.clone());
            }
        }
        Ok(())
    }

    pub fn run_for(&mut self, span: Millis) -> Result<(), Broken> {
        self.run_until(self.now + span)
    }

    pub fn trace_tail(&self) -> impl Iterator<Item = &str> {
        self.trace.iter().map(String::as_str)
    }

    /// Sends as the network would carry it.
    pub fn send(&mut self, from: Party, to: Party, message: Message) {
        let (at, again) = self.network.arrivals(&mut self.random, self.now, from, to, &message);
        if let Some(again) = again {
            self.queue.push(again, Item::Deliver { from, to, message: message.clone() });
        }
        if let Some(at) = at {
            self.queue.push(at, Item::Deliver { from, to, message });
        }
    }

    fn happen(&mut self, item: Item) {
        match item {
            Item::Deliver { from, to, message } => self.deliver(from, to, message),
            Item::Wake { party, life, timer } => self.wake(party, life, timer),
            Item::Start(party) => self.start(party),
            Item::Resume(party) => self.resume(party),
            Item::Healed => self.healed(),
            Item::Undo(undo) => self.undo(undo),
        }
    }

    fn deliver(&mut self, from: Party, to: Party, message: Message) {
        if let Some(pause) = self.pauses.get_mut(&to) {
            pause.backlog.push(Item::Deliver { from, to, message });
            return;
        }
        if self.out.tracing {
            self.note(&format!("{from} -> {to} {}", told(&message)));
        }
        if !self.is_running(to) {
            self.refuse(from, to, &message);
            return;
        }
        self.with(to, |machines, ctx| match machines {
            Running::Store(store) => {
                if let Message::ToStore { call, op } = message {
                    store.handle(ctx, from, call, &op);
                }
            }
            Running::Engine(engine, disks, hardware) => {
                engine.handle(disks, hardware, ctx, from, message);
            }
            Running::Host(host) => host.handle(ctx, from, message),
            Running::Controller(controller) => controller.handle(ctx, from, message),
            Running::User(replies) => {
                if let Message::Reply { id, reply } = message {
                    replies.push((id, reply));
                }
            }
        });
    }

    fn wake(&mut self, party: Party, life: u32, timer: Timer) {
        if self.life(party) != life || !self.is_running(party) {
            return;
        }
        if let Some(pause) = self.pauses.get_mut(&party) {
            pause.backlog.push(Item::Wake { party, life, timer });
            return;
        }
        self.with(party, |machines, ctx| match machines {
            Running::Engine(engine, disks, hardware) => {
                engine.wake(disks, hardware, ctx, timer);
            }
            Running::Host(host) => host.wake(ctx, timer),
            Running::Controller(controller) => controller.wake(ctx, timer),
            Running::Store(_) | Running::User(_) => {}
        });
        if timer == Timer::Beat {
            self.heartbeat(party);
        }
    }

    /// Heartbeats are told at once: a delay of milliseconds would change nothing but the number of
    /// events.
    fn heartbeat(&mut self, party: Party) {
        let heard = match party {
            Party::Host(host) => {
                let process = self.hosts.get_mut(&host).and_then(|host| host.process.as_mut());
                process.map(Host::take_heard).unwrap_or_default()
            }
            Party::Node(_) => std::collections::BTreeSet::new(),
            _ => {
                self.store.back_up(self.now);
                return;
            }
        };
        let instance = self.instance(party);
        for index in 0..self.controllers.len() {
            let to = Party::Controller(u8::try_from(index).unwrap_or(u8::MAX));
            let cut = self.network.is_cut(party, to, self.now);
            let lost = self.random.chance(self.network.weather.lost);
            if cut || lost || self.pauses.contains_key(&to) {
                continue;
            }
            let Some(controller) = self.controllers[index].process.as_mut() else { continue };
            let mut ctx = Ctx {
                now: self.now,
                random: &mut self.random,
                oracle: &mut self.oracle,
                out: &mut self.out,
            };
            let event = match party {
                Party::Host(host) => Event::HostHeartbeat { host, instance },
                Party::Node(node) => Event::Heartbeat { node, instance },
                _ => continue,
            };
            controller.tell(&mut ctx, event);
            for node in &heard {
                controller.tell(&mut ctx, Event::HeardThrough { node: *node });
            }
            self.flush(to);
        }
    }

    /// Lets one process act, and sends what it left.
    fn with(&mut self, party: Party, act: impl FnOnce(Running<'_>, &mut Ctx<'_>)) {
        let mut ctx = Ctx {
            now: self.now,
            random: &mut self.random,
            oracle: &mut self.oracle,
            out: &mut self.out,
        };
        let running = match party {
            Party::Store => Some(Running::Store(&mut self.store)),
            Party::User => Some(Running::User(&mut self.replies)),
            Party::Controller(index) => self
                .controllers
                .get_mut(usize::from(index))
                .and_then(|seat| seat.process.as_mut())
                .map(Running::Controller),
            Party::Node(node) => self.nodes.get_mut(&node).and_then(|machine| {
                let Machine { engine, disks, hardware, .. } = machine;
                let engine = engine.as_mut()?;
                Some(Running::Engine(engine, disks, hardware))
            }),
            Party::Host(host) => self
                .hosts
                .get_mut(&host)
                .and_then(|machine| machine.process.as_mut())
                .map(Running::Host),
        };
        if let Some(running) = running {
            act(running, &mut ctx);
        }
        self.flush(party);
    }

    fn flush(&mut self, from: Party) {
        let mut sent = core::mem::take(&mut self.out.sent);
        for (to, message) in sent.drain(..) {
            self.send(from, to, message);
        }
        self.out.sent = sent;
        let life = self.life(from);
        for (span, timer) in self.out.timers.drain(..) {
            self.queue.push(self.now + span, Item::Wake { party: from, life, timer });
        }
        self.out.changed = false;
        for note in core::mem::take(&mut self.out.notes) {
            self.note(&note);
        }
    }

    pub fn note(&mut self, words: &str) {
        if self.out.tracing {
            if self.trace.len() == TRACE_MAX {
                self.trace.pop_front();
            }
            let at = self.now.since(START);
            self.trace.push_back(format!("{:>4}.{:03} {words}", at.0 / 1_000, at.0 % 1_000));
        }
    }
}

/// A process that runs, with what belongs to it.
enum Running<'a> {
    Store(&'a mut Store),
    User(&'a mut Vec<Answer>),
    Controller(&'a mut Controller),
    Engine(&'a mut NodeProcess, &'a mut Disks, &'a mut Hardware),
    Host(&'a mut Host),
}

/// A message in one line.
fn told(message: &Message) -> String {
    let mut words = format!("{message:?}");
    if let Some((cut, _)) = words.char_indices().nth(320) {
        words.truncate(cut);
    }
    words
}
