//! Targets in their processes: what they send, what they are told, and what they ask the store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use block::{BLOCK, Buffer};
use mirror::{Input, Notice, Output, Phase, Seat, StoreAnswer, Target, Throttle, Times};
use model::{Bytes, ChildItem, Epoch, InstanceId, ReplicaId, TargetItem};

use super::{
    store::Ask,
    wire::{Down, Up, Wire},
    world::{BLOCKS, Event, GEOMETRY, HOST, STORE, VOLUME, World, node_id, replica_id},
};

#[derive(Debug)]
pub(super) struct Site {
    pub(super) node: usize,
    pub(super) machine: Target<Buffer>,
    pub(super) item: TargetItem,
    /// The question that the store was asked last.
    call: u64,
    tick_at: u64,
    /// Its connections, by its own numbers.
    wires: BTreeMap<(ReplicaId, u64), u64>,
    /// Nothing more may be acknowledged.
    pub(super) is_over: bool,
    pub(super) since: u64,
}

/// What a question to the store may take before nobody waits any more.
const STORE_TIMEOUT: u64 = 2_000_000;

impl World {
    pub(super) fn start_target(&mut self, node: usize, process: u64, epoch: u64) {
        let is_there = self.nodes[node].is_up() && self.nodes[node].process == process;
        if !is_there || self.store.record.epoch.0 != epoch {
            return;
        }
        // An engine has one target of a volume: the older one ends here.
        let older = self.targets.iter().find(|(_, site)| site.node == node).map(|(e, _)| *e);
        if let Some(older) = older {
            self.drop_target(older);
        }
        let item = self.item(epoch);
        let seat = Seat {
            volume: VOLUME,
            instance: InstanceId::from_u128(u128::from(epoch)),
            node: node_id(node),
            times: Times { idle: model::Millis(3_000), ..Times::default() },
            geometry: GEOMETRY,
            throttle: Throttle { rate: 8_000, window: 2 },
        };
        let mut out = Vec::new();
        let machine = Target::start(seat, item.clone(), self.time(), &mut out);
        let machine = match self.rules.mirror {
            Some(flaw) => machine.flawed(flaw),
            None => machine,
        };
        self.note(|| format!("target {epoch} starts on node {node}"));
        let site = Site {
            node,
            machine,
            item,
            call: 0,
            tick_at: u64::MAX,
            wires: BTreeMap::new(),
            is_over: false,
            since: self.now,
        };
        self.targets.insert(epoch, site);
        self.target_says(epoch, out);
        self.set_tick(epoch);
    }

    fn item(&self, epoch: u64) -> TargetItem {
        let children = (0..self.copies).map(|node| ChildItem {
            replica: replica_id(node),
            node: node_id(node),
            rebuild: self.may_rebuild(),
            retire: false,
        });
        TargetItem {
            epoch: Epoch(epoch),
            instance: InstanceId::from_u128(u128::from(epoch)),
            serve: true,
            size: Bytes(BLOCKS * BLOCK as u64),
            children: children.collect(),
            hosts: BTreeSet::from([HOST]),
            snapshots: self.snapshots.items(),
        }
    }

    pub(super) fn configure(&mut self, epoch: u64, change: impl FnOnce(&mut TargetItem)) {
        let Some(site) = self.targets.get_mut(&epoch) else { return };
        change(&mut site.item);
        let item = site.item.clone();
        self.tell(epoch, Input::Config(item));
    }

    pub(super) fn tell(&mut self, epoch: u64, input: Input<Buffer>) {
        let now = self.time();
        let Some(site) = self.targets.get_mut(&epoch) else { return };
        let mut out = Vec::new();
        let before = site.machine.seen();
        site.machine.handle(now, input, &mut out);
        let after = site.machine.seen();
        let is_told = before == after || out.iter().any(|output| matches!(output, Output::Seen));
        let words = || format!("nobody hears that {before:?} became {after:?}");
        self.check("told", if is_told { Ok(()) } else { Err(words()) });
        self.target_says(epoch, out);
        self.set_tick(epoch);
    }

    pub(super) fn tick(&mut self, epoch: u64) {
        let now = self.time();
        let Some(site) = self.targets.get_mut(&epoch) else { return };
        site.tick_at = u64::MAX;
        if site.machine.next_deadline().is_some_and(|at| at <= now) {
            self.tell(epoch, Input::Tick);
        } else {
            self.set_tick(epoch);
        }
    }

    fn set_tick(&mut self, epoch: u64) {
        let now = self.now;
        let Some(site) = self.targets.get_mut(&epoch) else { return };
        let Some(deadline) = site.machine.next_deadline() else { return };
        let at = (deadline.0 * 1_000).max(now + 1_000);
        if at < site.tick_at {
            site.tick_at = at;
            self.after(at - now, Event::Tick { epoch });
        }
    }

    fn target_says(&mut self, epoch: u64, outputs: Vec<Output<Buffer>>) {
        for output in outputs {
            match output {
                Output::Open { child, session, .. } => self.open_wire(epoch, child, session),
                Output::Close { child, session } => self.target_closes(epoch, child, session),
                Output::Send { child, session, tag, request } => {
                    let site = self.targets.get(&epoch);
                    let wire = site.and_then(|site| site.wires.get(&(child, session))).copied();
                    if let Some(wire) = wire {
                        self.send_down(wire, Down::Ask(tag, request));
                    }
                }
                Output::Reply(reply) => {
                    let is_over = self.targets.get(&epoch).is_none_or(|site| site.is_over);
                    let words = || format!("target {epoch} answers after its end");
                    self.check("10", if is_over { Err(words()) } else { Ok(()) });
                    self.host_told(epoch, reply);
                }
                Output::CloseHost { session } => self.host_closed(epoch, session),
                Output::ReadRecord => self.ask_store(epoch, Ask::Read),
                Output::Commit { record, expected } => {
                    let record = Box::new(record);
                    self.ask_store(epoch, Ask::Swap { record, expected });
                }
                Output::Seen => self.look_at(epoch),
                Output::Notice(notice) => self.notice(epoch, &notice),
            }
        }
    }

    fn look_at(&mut self, epoch: u64) {
        let Some(site) = self.targets.get_mut(&epoch) else { return };
        let phase = site.machine.phase();
        let is_over = matches!(phase, Phase::Stopped | Phase::Fenced | Phase::Failed(_));
        if is_over && !site.is_over {
            site.is_over = true;
            let words = format!("target {epoch} is over: {phase:?}");
            self.note(|| words);
        }
    }

    fn notice(&mut self, epoch: u64, notice: &Notice) {
        self.note(|| format!("target {epoch}: {notice:?}"));
        let kind = match notice {
            Notice::Serving => "serving",
            Notice::Lost { .. } => "lost",
            Notice::Excluded { .. } => "excluded",
            Notice::Returned { is_partial: true, .. } => "returned for a part",
            Notice::Returned { is_partial: false, .. } => "returned for all",
            Notice::Admitted { .. } => "admitted",
            Notice::SelfFenced => "self-fenced",
            Notice::UnflushedLost => "unflushed lost",
            Notice::RecordOlder => "record older",
            Notice::SnapshotFailed { .. } => "snapshot failed",
            Notice::SnapshotBrought { .. } => "snapshot brought",
        };
        *self.counts.notices.entry(kind).or_default() += 1;
    }

    fn ask_store(&mut self, epoch: u64, ask: Ask) {
        let Some(site) = self.targets.get_mut(&epoch) else { return };
        site.call += 1;
        let (call, node) = (site.call, site.node);
        let answer = StoreAnswer::Unknown;
        // Whoever waits longer than this hears that nobody knows.
        self.after(STORE_TIMEOUT, Event::Told { epoch, call, answer });
        if self.is_cut(node, STORE) {
            return;
        }
        let delay = self.store_latency();
        self.after(delay, Event::Ask { epoch, call, ask });
    }

    /// Long, while the store is slow: a change may be made that its asker no longer waits for.
    fn store_latency(&mut self) -> u64 {
        let now = self.now;
        let slow = self.store.slow.filter(|(until, _)| now < *until).map_or(0, |(_, by)| by);
        self.latency() + self.random.between(slow / 2, slow)
    }

    pub(super) fn store_asked(&mut self, epoch: u64, call: u64, ask: Ask) {
        if self.now < self.store.down_until {
            // It may have got through after all, later.
            if matches!(ask, Ask::Swap { .. }) && self.random.chance(500) {
                let delay = self.store.down_until - self.now;
                self.after(delay, Event::Late { ask });
            }
            return;
        }
        let is_swap = matches!(ask, Ask::Swap { .. });
        let before = self.store.record.clone();
        let answer = self.store.answer(ask);
        self.recorded(&before);
        if is_swap && self.store.lost_answers > 0 {
            self.store.lost_answers -= 1;
            return;
        }
        let delay = self.store_latency();
        self.after(delay, Event::Told { epoch, call, answer });
    }

    pub(super) fn store_late(&mut self, ask: Ask) {
        let before = self.store.record.clone();
        self.store.answer(ask);
        self.recorded(&before);
    }

    pub(super) fn store_told(&mut self, epoch: u64, call: u64, answer: StoreAnswer) {
        let Some(site) = self.targets.get_mut(&epoch) else { return };
        if site.call != call || site.is_over {
            return;
        }
        if answer != StoreAnswer::Unknown && self.is_cut(self.targets[&epoch].node, STORE) {
            return;
        }
        if let Some(site) = self.targets.get_mut(&epoch) {
            // Nothing more is expected of this question.
            site.call += 1;
        }
        self.tell(epoch, Input::Store(answer));
    }

    fn open_wire(&mut self, epoch: u64, child: ReplicaId, session: u64) {
        let Some(to) = (0..self.copies).find(|node| replica_id(*node) == child) else { return };
        let Some(site) = self.targets.get_mut(&epoch) else { return };
        self.next_wire += 1;
        let id = self.next_wire;
        site.wires.insert((child, session), id);
        let wire = Wire {
            epoch,
            session,
            child,
            from: site.node,
            to,
            accepted: None,
            down: VecDeque::new(),
            up: VecDeque::new(),
            target_gone: false,
            replica_gone: false,
        };
        self.wires.insert(id, wire);
        self.send_down(id, Down::Open);
    }

    fn wire_latency(&mut self, wire: u64) -> u64 {
        match self.wires.get(&wire) {
            Some(wire) if wire.is_local() => 5,
            _ => self.latency(),
        }
    }

    fn send_down(&mut self, id: u64, what: Down) {
        let delay = self.wire_latency(id);
        let now = self.now;
        let Some(wire) = self.wires.get_mut(&id) else { return };
        if wire.target_gone || wire.replica_gone {
            return;
        }
        let at = wire.after_down(now + delay);
        wire.down.push_back((at, what));
        self.after(at - now, Event::Pump { wire: id });
    }

    pub(super) fn send_up(&mut self, id: u64, what: Up) {
        let delay = self.wire_latency(id);
        let now = self.now;
        let Some(wire) = self.wires.get_mut(&id) else { return };
        if wire.target_gone || wire.replica_gone {
            return;
        }
        let at = wire.after_up(now + delay);
        wire.up.push_back((at, what));
        self.after(at - now, Event::Pump { wire: id });
    }

    fn target_closes(&mut self, epoch: u64, child: ReplicaId, session: u64) {
        let Some(site) = self.targets.get_mut(&epoch) else { return };
        let Some(id) = site.wires.remove(&(child, session)) else { return };
        self.lose_target_end(id, true);
    }

    /// The target's end is gone; what it sent, or a part of it, still arrives, then the end.
    pub(super) fn lose_target_end(&mut self, id: u64, keeps_all: bool) {
        let delay = self.wire_latency(id);
        let now = self.now;
        let Some(wire) = self.wires.get_mut(&id) else { return };
        wire.target_gone = true;
        wire.up.clear();
        if wire.replica_gone {
            self.wires.remove(&id);
            return;
        }
        if !keeps_all {
            let count = u64::try_from(wire.down.len()).unwrap_or(0);
            let kept = self.random.between(0, count);
            wire.down.truncate(usize::try_from(kept).unwrap_or(0));
        }
        let at = wire.after_down(now + delay);
        wire.down.push_back((at, Down::Close));
        self.after(at - now, Event::Pump { wire: id });
    }

    /// The replica's end is gone; what it answered may still arrive.
    pub(super) fn replica_closes(&mut self, id: u64) {
        self.send_up(id, Up::Closed);
        let Some(wire) = self.wires.get_mut(&id) else { return };
        wire.replica_gone = true;
        wire.down.clear();
        if wire.target_gone {
            self.wires.remove(&id);
        }
    }

    /// Delivers what is due, unless the two do not hear each other.
    pub(super) fn pump(&mut self, id: u64) {
        loop {
            let now = self.now;
            let Some(wire) = self.wires.get(&id) else { return };
            if self.is_cut(wire.from, wire.to) {
                return;
            }
            let is_due = |at: Option<u64>| at.is_some_and(|at| at <= now);
            let down = is_due(wire.down.front().map(|(at, _)| *at));
            let up = is_due(wire.up.front().map(|(at, _)| *at));
            let Some(wire) = self.wires.get_mut(&id) else { return };
            if down && let Some((_, what)) = wire.down.pop_front() {
                self.arrives_down(id, what);
            } else if up && let Some((_, what)) = wire.up.pop_front() {
                self.arrives_up(id, what);
            } else {
                return;
            }
            if self.wires.get(&id).is_some_and(Wire::is_over) {
                self.wires.remove(&id);
            }
        }
    }

    fn arrives_down(&mut self, id: u64, what: Down) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let node = wire.to;
        let process = self.nodes[node].process;
        let mut out = Vec::new();
        match what {
            Down::Open => {
                if self.nodes[node].replica().is_some() {
                    wire.accepted = Some(process);
                } else {
                    self.replica_closes(id);
                }
                return;
            }
            Down::Ask(tag, request) => {
                if wire.accepted != Some(process) {
                    return;
                }
                let Some(replica) = self.nodes[node].replica() else { return };
                replica.request(id, tag, request, &mut out);
            }
            Down::Close => {
                let is_its = wire.accepted == Some(process);
                self.wires.remove(&id);
                if let Some(replica) = self.nodes[node].replica().filter(|_| is_its) {
                    replica.closed(id, &mut out);
                }
            }
        }
        self.replica_says(node, out);
    }

    fn arrives_up(&mut self, id: u64, what: Up) {
        let Some(wire) = self.wires.get(&id) else { return };
        let (epoch, child, session) = (wire.epoch, wire.child, wire.session);
        match what {
            Up::Answer(tag, answer) => {
                self.tell(epoch, Input::Answer { child, session, tag, answer });
            }
            Up::Closed => {
                self.wires.remove(&id);
                if let Some(site) = self.targets.get_mut(&epoch) {
                    site.wires.remove(&(child, session));
                }
                self.tell(epoch, Input::ChildClosed { child, session });
            }
        }
    }

    fn drop_target(&mut self, epoch: u64) {
        let Some(site) = self.targets.remove(&epoch) else { return };
        for wire in site.wires.into_values() {
            self.lose_target_end(wire, true);
        }
        self.host_lost_target(epoch);
    }

    /// Targets die with their process.
    pub(super) fn lose_targets(&mut self, node: usize) {
        let gone: Vec<u64> =
            self.targets.iter().filter(|(_, s)| s.node == node).map(|(epoch, _)| *epoch).collect();
        for epoch in gone {
            self.targets.remove(&epoch);
            self.host_lost_target(epoch);
        }
    }

    /// Connections of a process that died: the other end finds out, some time later.
    pub(super) fn lose_wires(&mut self, node: usize) {
        let ids: Vec<u64> = self.wires.keys().copied().collect();
        for id in ids {
            let Some(wire) = self.wires.get(&id) else { continue };
            let (from, to) = (wire.from, wire.to);
            if from == node && to == node {
                self.wires.remove(&id);
            } else if from == node && !wire.target_gone {
                self.lose_target_end(id, false);
            } else if to == node && wire.accepted.is_some() {
                self.replica_closes(id);
            }
        }
    }
}
