//! A control plane of a few lines: one target at a time, a new epoch for each, and configs that
//! reach every node sooner or later.

use std::collections::BTreeMap;

use model::{
    Bytes, ChildItem, EngineError, Epoch, InstanceId, NodeConfig, ReplicaId, Revision, TargetItem,
};
use storage_node::Ticket;

use super::world::{BLOCKS, Event, HOST, NODES, STORE, World, instance, node_id, replica_id};
use crate::simulated_node::time;

#[derive(Debug, Default)]
pub(super) struct Control {
    /// The newest epoch that was issued.
    pub(super) current: u64,
    /// Until then the newest target is being started.
    starting_until: u64,
    /// Where somebody wants it served from, and until when the old one may stop by itself.
    pub(super) wish: Option<(usize, Option<u64>)>,
    /// As many are being copied to elsewhere as may be.
    pub(super) no_rebuild_until: u64,
    /// Counts changes of what is wanted.
    pub(super) generation: u64,
    pub(super) target: Option<IssuedTarget>,
    /// Nodes and epochs of targets that were replaced, and whether a tombstone names them.
    pub(super) replaced: Vec<(usize, u64, bool)>,
    /// By node.
    pub(super) syncs: Vec<ConfigSync>,
    last_ticket: u64,
}

/// The target that is wanted.
#[derive(Clone, Debug)]
pub(super) struct IssuedTarget {
    pub(super) node: usize,
    process: u64,
    pub(super) item: TargetItem,
    since: u64,
    /// Replicas are told first whom to let in, by this generation.
    admitted_by: u64,
    /// Who has not heard of it by then is taken for dead.
    waits_until: u64,
    pub(super) is_started: bool,
}

/// What a node was told, and what it said.
#[derive(Debug, Default)]
pub(super) struct ConfigSync {
    /// The newest generation that it has taken.
    applied: u64,
    /// Configs without an answer, and since when.
    asked: BTreeMap<Ticket, u64>,
    try_again_at: u64,
    /// Something that only takes space, and how many blocks.
    pub(super) filler: Option<(ReplicaId, u64)>,
    pub(super) old_fillers: Vec<ReplicaId>,
    fillers: u128,
}

/// A node answers a config within this, whatever its disks do: its patience with work is a second.
const APPLIED_WITHIN: u64 = 5_000_000;
const TRY_AGAIN: u64 = 500_000;

impl Control {
    pub(super) fn new(nodes: usize) -> Self {
        let syncs = std::iter::repeat_with(ConfigSync::default).take(nodes).collect();
        Self { generation: 1, syncs, ..Self::default() }
    }

    /// Nobody waits for its answers any more.
    pub(super) fn process_died(&mut self, node: usize) {
        self.syncs[node].asked.clear();
    }

    pub(super) fn process_started(&mut self, node: usize) {
        let sync = &mut self.syncs[node];
        (sync.applied, sync.try_again_at) = (0, 0);
    }
}

impl World {
    pub(super) fn controls(&mut self) {
        let delay = self.random.between(50_000, 400_000);
        self.after(delay, Event::Control);
        self.control_snapshots();
        self.judge_configs();
        self.sync_configs();
        if self.now < self.store.down_until || self.now < self.control.starting_until {
            return;
        }
        self.bury_replaced();
        if self.is_starting() {
            return self.start_when_admitted();
        }
        let is_alive = self.is_target_alive();
        let is_stuck = is_alive && !self.is_target_serving() && self.is_target_late();
        match self.control.wish {
            Some((node, None)) if is_alive => {
                let wait = self.random.between(1, 4_000_000);
                self.control.wish = Some((node, Some(self.now + wait)));
                self.note(|| format!("the target is to move to node {node}"));
                // Some move without asking the old one: it is found to be cut off.
                if self.random.chance(600) {
                    self.configure(|item| item.serve = false);
                }
            }
            Some((node, until)) if !is_alive || until.is_none_or(|until| until <= self.now) => {
                self.control.wish = None;
                self.switch(node);
            }
            None if !is_alive || is_stuck => {
                let node = self.random.below(u64::try_from(NODES).unwrap_or(1));
                self.switch(usize::try_from(node).unwrap_or(0));
            }
            _ => {}
        }
    }

    /// The target of the newest epoch, where it runs.
    pub(super) fn current_target(&self) -> Option<&mirror::Target<block::Buffer>> {
        let issued = self.control.target.as_ref()?;
        let target = self.nodes[issued.node].target()?;
        (target.epoch().0 == self.control.current).then_some(target)
    }

    fn is_target_alive(&self) -> bool {
        self.current_target().is_some_and(|target| !target.is_over())
    }

    pub(super) fn is_target_serving(&self) -> bool {
        self.current_target().is_some_and(mirror::Target::is_serving)
    }

    fn is_target_late(&self) -> bool {
        let since = self.control.target.as_ref().map_or(self.now, |target| target.since);
        self.now - since > 12_000_000
    }

    pub(super) const fn may_rebuild(&self) -> bool {
        self.now >= self.control.no_rebuild_until
    }

    pub(super) fn tell_rebuild(&mut self) {
        let rebuild = self.may_rebuild();
        self.configure(|item| {
            item.children.iter_mut().for_each(|child| child.rebuild = rebuild);
        });
    }

    /// Old targets end sooner or later, if they hear of it.
    fn bury_replaced(&mut self) {
        let next = self.control.replaced.iter().position(|(_, _, is_buried)| !is_buried);
        if let Some(next) = next
            && self.random.chance(10)
        {
            self.control.replaced[next].2 = true;
            self.changed();
        }
    }

    fn switch(&mut self, wanted: usize) {
        let up: Vec<usize> = (0..NODES).filter(|node| self.nodes[*node].is_up()).collect();
        let any = self.random.pick(&up).copied();
        let Some(node) = up.iter().copied().find(|node| *node == wanted).or(any) else { return };
        let before = self.store.record.clone();
        let epoch = self.store.raise();
        self.recorded(&before);
        if let Some(old) = self.control.target.take() {
            self.control.replaced.push((old.node, old.item.epoch.0, false));
        }
        self.control.current = epoch;
        self.note(|| format!("epoch {epoch} is for node {node}"));
        let process = self.nodes[node].process;
        let item = self.item(epoch, instance(node, process));
        // Now and then somebody who is alive is taken for dead.
        let patience = if self.random.chance(150) { 0 } else { 2_500_000 };
        self.control.target = Some(IssuedTarget {
            node,
            process,
            item,
            since: self.now,
            admitted_by: self.control.generation + 1,
            waits_until: self.now + patience,
            is_started: false,
        });
        self.changed();
        self.start_when_admitted();
    }

    fn is_starting(&self) -> bool {
        let issued = self.control.target.as_ref();
        issued.is_some_and(|issued| {
            let it = &self.nodes[issued.node];
            !issued.is_started && it.running.is_some() && it.process == issued.process
        })
    }

    /// The target starts when every replica that counts lets it in, or its node is taken for dead.
    fn start_when_admitted(&mut self) {
        let Some(issued) = &self.control.target else { return };
        let (node, generation) = (issued.node, issued.admitted_by);
        let is_behind = |node: usize| {
            let is_there = self.nodes[node].running.is_some() && !self.is_cut(node, STORE);
            let counts = self.store.record.is_recorded_healthy(replica_id(node));
            is_there && counts && self.control.syncs[node].applied < generation
        };
        if self.now < issued.waits_until && (0..self.copies).any(is_behind) {
            return;
        }
        let delay = self.random.between(1_000, 300_000);
        if let Some(issued) = &mut self.control.target {
            issued.is_started = true;
        }
        self.control.generation += 1;
        self.control.syncs[node].try_again_at = self.now + delay;
        self.control.starting_until = self.now + delay + 300_000;
        self.after(delay, Event::SendConfig { node });
    }

    fn item(&self, epoch: u64, instance: InstanceId) -> TargetItem {
        let children = (0..self.copies).map(|node| ChildItem {
            replica: replica_id(node),
            node: node_id(node),
            rebuild: self.may_rebuild(),
            retire: false,
        });
        TargetItem {
            epoch: Epoch(epoch),
            instance,
            serve: true,
            size: Bytes(BLOCKS * block::BLOCK as u64),
            children: children.collect(),
            hosts: [HOST].into(),
            snapshots: self.snapshots.items(),
        }
    }

    pub(super) fn configure(&mut self, change: impl FnOnce(&mut TargetItem)) {
        if let Some(target) = &mut self.control.target {
            change(&mut target.item);
            self.changed();
        }
    }

    /// Most nodes hear of it soon, the others when they are told again.
    pub(super) fn changed(&mut self) {
        self.control.generation += 1;
        for node in 0..NODES {
            if self.random.chance(800) {
                let delay = self.latency();
                self.after(delay, Event::SendConfig { node });
            }
        }
    }

    fn sync_configs(&mut self) {
        let (now, generation) = (self.now, self.control.generation);
        for node in 0..NODES {
            let sync = &mut self.control.syncs[node];
            if sync.applied < generation && sync.try_again_at <= now {
                self.send_config(node);
            }
        }
    }

    pub(super) fn send_config(&mut self, node: usize) {
        if self.nodes[node].running.is_none() {
            return;
        }
        self.control.syncs[node].try_again_at = self.now + TRY_AGAIN;
        let config = Box::new(self.config_for(node));
        let delay = self.latency();
        self.after(delay, Event::Config { node, config });
    }

    pub(super) fn config_arrives(&mut self, node: usize, config: NodeConfig) {
        if self.is_cut(node, STORE) {
            return;
        }
        let now = self.now;
        let Some(running) = &mut self.nodes[node].running else { return };
        self.control.last_ticket += 1;
        let ticket = Ticket(self.control.last_ticket);
        self.control.syncs[node].asked.insert(ticket, now);
        running.machine.apply(time(now), ticket, config);
        self.turn(node);
    }

    pub(super) fn config_applied(
        &mut self,
        node: usize,
        ticket: Ticket,
        result: Result<Revision, EngineError>,
    ) {
        let generation = self.control.generation;
        let sync = &mut self.control.syncs[node];
        sync.asked.remove(&ticket);
        let result = match result {
            Ok(revision) => {
                sync.applied = sync.applied.max(revision.0);
                Ok(())
            }
            // They overtook each other, or the process is another one.
            Err(EngineError::Older { .. } | EngineError::OtherInstance { .. }) => Ok(()),
            Err(error) => Err(format!("node {node} refuses a config: {error}")),
        };
        let is_newest = sync.applied == generation;
        self.check("config", result);
        if is_newest {
            self.shrink_filler(node);
        }
        if self.is_starting() {
            self.start_when_admitted();
        }
    }

    /// A disk that hangs holds up no config.
    fn judge_configs(&mut self) {
        for node in 0..NODES {
            let oldest = self.control.syncs[node].asked.values().min().copied();
            let is_late = oldest.is_some_and(|since| self.now - since > APPLIED_WITHIN);
            let words = || format!("node {node} leaves a config without an answer");
            self.check("config", if is_late { Err(words()) } else { Ok(()) });
        }
    }

    /// As much as the pool gives away.
    pub(super) fn fill(&mut self, node: usize) {
        let Some(pool) = self.nodes[node].pool() else { return };
        let blocks = pool.stats().free.0 / block::BLOCK as u64;
        let sync = &mut self.control.syncs[node];
        if sync.filler.is_none() && blocks >= pool::CLUSTER {
            sync.fillers += 1;
            let id = ReplicaId::from_u128(0x1_0000 * (1 + sync.fillers) + 0x40 + node as u128);
            sync.filler = Some((id, blocks));
            self.changed();
            self.send_config(node);
        }
    }

    /// It was refused: a smaller one may not be.
    fn shrink_filler(&mut self, node: usize) {
        let Some((id, blocks)) = self.control.syncs[node].filler else { return };
        let Some(pool) = self.nodes[node].pool() else { return };
        if pool.replica(id).is_some() {
            return;
        }
        let blocks = blocks.saturating_sub(pool::CLUSTER);
        let is_possible = blocks >= pool::CLUSTER;
        self.control.syncs[node].filler = is_possible.then_some((id, blocks));
        self.control.generation += 1;
        self.send_config(node);
    }

    pub(super) fn free_space(&mut self, node: usize) {
        let sync = &mut self.control.syncs[node];
        if let Some((id, _)) = sync.filler.take() {
            sync.old_fillers.push(id);
            self.changed();
        }
    }
}
