//! Starting, killing, pausing: what happens to processes and machines from outside.

use model::{InstanceId, Millis, NodeId, PoolId};

use pool::Crash;

use super::{Cluster, Item, Machine, Pause, Running};
use crate::{
    Controller, Ctx, Hardware, Message, NodeProcess, Party, StreamEvent,
    fakes::{
        disk::{Condition, Disk, Disks},
        host::Host,
    },
    names,
    node_process::refresh_at_rest,
};

impl Cluster {
    pub fn is_running(&self, party: Party) -> bool {
        match party {
            Party::Store | Party::User => true,
            Party::Controller(index) => {
                self.controllers.get(usize::from(index)).is_some_and(|seat| seat.process.is_some())
            }
            Party::Node(node) => self.nodes.get(&node).is_some_and(|m| m.engine.is_some()),
            Party::Host(host) => self.hosts.get(&host).is_some_and(|m| m.process.is_some()),
        }
    }

    /// The number of the process that runs there or ran there last.
    pub(super) fn life(&self, party: Party) -> u32 {
        match party {
            Party::Store | Party::User => 0,
            Party::Controller(index) => {
                self.controllers.get(usize::from(index)).map_or(0, |seat| seat.lives)
            }
            Party::Node(node) => self.nodes.get(&node).map_or(0, |machine| machine.lives),
            Party::Host(host) => self.hosts.get(&host).map_or(0, |machine| machine.lives),
        }
    }

    pub fn instance(&self, party: Party) -> InstanceId {
        let life = self.life(party);
        match party {
            Party::Node(node) => names::instance(node.0, life),
            Party::Host(host) => names::instance(host.0, life),
            other => names::instance(names::pack(&other.to_string()), life),
        }
    }

    fn is_powered(&self, party: Party) -> bool {
        match party {
            Party::Store | Party::User | Party::Controller(_) => true,
            Party::Node(node) => self.nodes.get(&node).is_some_and(|m| m.is_powered),
            Party::Host(host) => self.hosts.get(&host).is_some_and(|m| m.is_powered),
        }
    }

    pub fn start_in(&mut self, party: Party, span: Millis) {
        self.queue.push(self.now + span, Item::Start(party));
    }

    /// Starts a process, if its machine has power and none runs.
    pub fn start(&mut self, party: Party) {
        self.promises.is_stirred = true;
        if self.is_running(party) || !self.is_powered(party) {
            return;
        }
        let controllers = u8::try_from(self.controllers.len()).unwrap_or(u8::MAX);
        let life = self.life(party) + 1;
        self.set_life(party, life);
        let instance = self.instance(party);
        self.note(&format!("{party} starts as {}", names::label(instance.0)));
        let mut ctx = Ctx {
            now: self.now,
            random: &mut self.random,
            oracle: &mut self.oracle,
            out: &mut self.out,
        };
        match party {
            Party::Store | Party::User => {}
            Party::Controller(index) => {
                let seed = ctx.random.draw();
                let brain = (self.brain)(index, instance, seed);
                let mut process = Controller::start(index, instance, brain, life, &mut ctx);
                let seat = &mut self.controllers[usize::from(index)];
                (process.ahead, process.behind) = (seat.ahead, seat.behind);
                seat.process = Some(process);
            }
            Party::Node(node) => {
                let machine = self.nodes.entry(node).or_default();
                let hardware = &mut machine.hardware;
                let engine = NodeProcess::start(node, instance, controllers, hardware, &mut ctx);
                machine.engine = Some(engine);
            }
            Party::Host(host) => {
                let machine = self.hosts.entry(host).or_default();
                let process = Host::start(host, instance, machine, controllers, &mut ctx);
                machine.process = Some(process);
            }
        }
        self.flush(party);
        if let Party::Controller(index) = party {
            self.greet(index);
        }
    }

    fn set_life(&mut self, party: Party, life: u32) {
        match party {
            Party::Store | Party::User => {}
            Party::Controller(index) => self.controllers[usize::from(index)].lives = life,
            Party::Node(node) => self.nodes.entry(node).or_default().lives = life,
            Party::Host(host) => self.hosts.entry(host).or_default().lives = life,
        }
    }

    /// A controller that starts is connected to by everybody.
    fn greet(&mut self, controller: u8) {
        let nodes: Vec<_> = self.nodes.keys().map(|node| Party::Node(*node)).collect();
        let hosts: Vec<_> = self.hosts.keys().map(|host| Party::Host(*host)).collect();
        for party in nodes.into_iter().chain(hosts) {
            self.greet_from(party, controller);
        }
    }

    fn greet_from(&mut self, party: Party, controller: u8) {
        if self.pauses.contains_key(&party) {
            return;
        }
        self.with(party, |running, ctx| match running {
            Running::Engine(engine, ..) => engine.greet(ctx, controller),
            Running::Host(host) => host.greet(ctx, controller),
            _ => {}
        });
    }

    /// Kills a process. Its connections are reset: everybody it can reach knows at once.
    pub fn kill(&mut self, party: Party) {
        if !self.is_running(party) {
            return;
        }
        let instance = self.instance(party);
        self.note(&format!("{party} is killed"));
        self.remove(party);
        self.crash_disks(party, Crash::Process);
        for peer in self.everybody() {
            if peer != party {
                self.send(party, peer, Message::Reset(instance));
            }
        }
    }

    fn remove(&mut self, party: Party) {
        self.promises.is_stirred = true;
        self.pauses.remove(&party);
        match party {
            Party::Store | Party::User => {}
            Party::Controller(index) => {
                if let Some(past) = self.controllers[usize::from(index)].process.take() {
                    for (kind, count) in &past.brain.stats().steps {
                        *self.past_steps.entry(*kind).or_default() += count;
                    }
                }
                self.store.forget(party);
            }
            Party::Node(node) => self.nodes.entry(node).or_default().engine = None,
            Party::Host(host) => self.hosts.entry(host).or_default().process = None,
        }
    }

    /// Takes the power of a machine: nobody hears anything, of a host on it neither.
    pub fn power_off(&mut self, node: NodeId) {
        self.note(&format!("{} loses power", names::label(node.0)));
        self.remove(Party::Node(node));
        self.crash_disks(Party::Node(node), Crash::Power);
        self.nodes.entry(node).or_default().is_powered = false;
        for host in self.hosts_on(node) {
            self.remove(Party::Host(host));
            self.hosts.entry(host).or_default().is_powered = false;
        }
    }

    /// Ends what a node had under way on its disks, and looks at what is left.
    fn crash_disks(&mut self, party: Party, crash: Crash) {
        let Party::Node(node) = party else { return };
        let Some(machine) = self.nodes.get_mut(&node) else { return };
        machine.hardware.crash(crash);
        refresh_at_rest(&mut machine.disks, &machine.hardware, |_| true, &mut self.oracle);
    }

    pub fn power_on(&mut self, node: NodeId) {
        self.promises.is_stirred = true;
        self.nodes.entry(node).or_default().is_powered = true;
        let span = Millis(self.random.between(200, 2_000));
        self.start_in(Party::Node(node), span);
        for host in self.hosts_on(node) {
            self.hosts.entry(host).or_default().is_powered = true;
            self.start_in(Party::Host(host), span);
        }
    }

    fn hosts_on(&self, node: NodeId) -> Vec<model::HostId> {
        let on = self.hosts.iter().filter(|(_, machine)| machine.node == Some(node));
        on.map(|(host, _)| *host).collect()
    }

    /// Stops a process without killing it: everything reaches it late.
    pub fn pause(&mut self, party: Party, span: Millis) {
        self.promises.is_stirred = true;
        if self.is_running(party) {
            let until = self.now + span;
            let pause = self.pauses.entry(party).or_insert(Pause { until, backlog: Vec::new() });
            pause.until = pause.until.max(until);
            self.queue.push(until, Item::Resume(party));
        }
    }

    pub(super) fn resume(&mut self, party: Party) {
        if self.pauses.get(&party).is_some_and(|pause| pause.until <= self.now)
            && let Some(pause) = self.pauses.remove(&party)
        {
            for item in pause.backlog {
                self.queue.push(self.now, item);
            }
        }
    }

    /// Nobody is paused, cut off or in bad weather any more.
    pub fn calm(&mut self) {
        self.promises.is_stirred = true;
        let paused: Vec<_> = self.pauses.keys().copied().collect();
        for party in paused {
            if let Some(pause) = self.pauses.get_mut(&party) {
                pause.until = self.now;
            }
            self.resume(party);
        }
        self.network.heal();
        self.store.outage = None;
        self.end_flaps();
        self.reconnect_all();
    }

    /// Machines that lost power for a time have it again, and every process runs. What was taken
    /// away for ever stays away.
    pub fn power_all_on(&mut self) {
        let off: Vec<NodeId> = self
            .nodes
            .iter()
            .filter(|(_, machine)| !machine.is_powered && !machine.is_lost)
            .map(|(node, _)| *node)
            .collect();
        for node in off {
            self.power_on(node);
        }
        for party in self.everybody() {
            if !self.is_running(party) {
                self.start_in(party, Millis(500));
            }
        }
    }

    /// Committed steps by kind, of all controllers that ran.
    pub fn steps(&self) -> std::collections::BTreeMap<&'static str, u64> {
        let mut steps = self.past_steps.clone();
        for controller in self.controllers.iter().filter_map(|seat| seat.process.as_ref()) {
            for (kind, count) in &controller.brain.stats().steps {
                *steps.entry(*kind).or_default() += count;
            }
        }
        steps
    }

    pub fn cut(&mut self, from: Party, to: Party, span: Millis) {
        self.promises.is_stirred = true;
        if !self.share_a_machine(from, to) {
            self.network.cut(from, to, self.now + span);
            self.queue.push(self.now + span, Item::Healed);
        }
    }

    /// Cuts a machine off from everybody else.
    pub fn isolate(&mut self, party: Party, span: Millis) {
        for peer in self.everybody() {
            if peer != party {
                self.cut(party, peer, span);
                self.cut(peer, party, span);
            }
        }
    }

    fn share_a_machine(&self, one: Party, other: Party) -> bool {
        match (one, other) {
            (Party::Node(node), Party::Host(host)) | (Party::Host(host), Party::Node(node)) => {
                self.hosts.get(&host).is_some_and(|machine| machine.node == Some(node))
            }
            _ => one == other,
        }
    }

    pub(super) fn healed(&mut self) {
        for (from, to) in self.network.healed(self.now) {
            self.reconnect(from, to);
        }
    }

    fn reconnect(&mut self, from: Party, to: Party) {
        match (from, to) {
            (party, Party::Controller(index)) | (Party::Controller(index), party) => {
                self.greet_from(party, index);
            }
            _ => {}
        }
    }

    fn reconnect_all(&mut self) {
        for index in 0..self.controllers.len() {
            self.greet(u8::try_from(index).unwrap_or(u8::MAX));
        }
    }

    pub fn everybody(&self) -> Vec<Party> {
        let controllers = (0..self.controllers.len())
            .map(|index| Party::Controller(u8::try_from(index).unwrap_or(u8::MAX)));
        let nodes = self.nodes.keys().map(|node| Party::Node(*node));
        let hosts = self.hosts.keys().map(|host| Party::Host(*host));
        core::iter::once(Party::Store).chain(controllers).chain(nodes).chain(hosts).collect()
    }

    /// A message for a process that is not there: refused at once if its machine is.
    pub(super) fn refuse(&mut self, from: Party, to: Party, message: &Message) {
        let is_close = matches!(message, Message::Stream(piece)
            if matches!(piece.event, StreamEvent::Close));
        let answered = matches!(message, Message::Reset(_) | Message::Reply { .. }) || is_close;
        if self.is_powered(to) && !answered && self.life(to) > 0 {
            let instance = self.instance(to);
            self.send(to, from, Message::Reset(instance));
        }
    }

    /// Changes the disks of a node under its engine.
    pub fn change_disks(&mut self, node: NodeId, change: impl FnOnce(&mut Disks, &mut Hardware)) {
        if let Some(machine) = self.nodes.get_mut(&node) {
            let Machine { disks, hardware, .. } = machine;
            change(disks, hardware);
            let is_pulled = |disk: &Disk| disk.condition == Condition::Absent;
            refresh_at_rest(disks, hardware, is_pulled, &mut self.oracle);
        }
        self.with(Party::Node(node), |running, ctx| {
            if let Running::Engine(engine, disks, hardware) = running {
                engine.disks_changed(disks, hardware, ctx);
            }
        });
    }

    pub fn node_of(&self, pool: PoolId) -> Option<NodeId> {
        self.nodes.iter().find(|(_, m)| m.disks.disk_of(pool).is_some()).map(|(node, _)| *node)
    }
}
