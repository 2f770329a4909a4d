//! Who is alive.
//!
//! A closed stream is death at once. Silence is death after a while, unless someone else hears the
//! node. A controller that was late itself restarts all its windows: it kills nobody.

#[cfg(test)]
mod tests;

use alloc::{collections::BTreeMap, vec::Vec};

use model::{
    Difference, HostId, HostInventory, InstanceId, Inventory, Liveness, Millis, NodeId, Subject,
    Time, limits::DEAD_AFTER,
};
use plan::Planner;

use crate::Reconciler;

/// A controller that did not run for this long cannot tell silence from its own absence.
const LATE_AFTER: Millis = Millis(DEAD_AFTER.0 / 2);

#[derive(Debug, Default)]
pub(crate) struct Detector {
    /// Since when this controller listens without a break.
    since: Time,
    last_turn: Option<Time>,
    nodes: BTreeMap<NodeId, Heard>,
    hosts: BTreeMap<HostId, Heard>,
    next_check: Time,
    /// Someone who was not alive was heard, or someone's stream closed.
    news: bool,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    /// Of it, by its own words or by what a host does through it.
    at: Time,
    /// By words of the process that is on record.
    spoke: Time,
    closed: bool,
}

impl Heard {
    const fn speaking(now: Time) -> Self {
        Self { at: now, spoke: now, closed: false }
    }

    const fn closed(now: Time) -> Self {
        Self { at: now, spoke: now, closed: true }
    }
}

impl Detector {
    pub(crate) fn begin_turn(&mut self, now: Time) {
        let last = self.last_turn.replace(now);
        if last.is_none_or(|last| now.since(last) > LATE_AFTER) {
            self.since = now;
            self.next_check = now;
        }
    }

    pub(crate) fn heard_through(&mut self, node: NodeId, now: Time) {
        if let Some(heard) = self.nodes.get_mut(&node).filter(|heard| !heard.closed) {
            heard.at = now;
        }
    }

    /// It has missed more than one heartbeat. Well before that counts as death, or a node whose
    /// wrong process is on record would be given up though its right one speaks. What hosts do
    /// through it tells nothing of who that is.
    fn is_quiet(&self, heard: Option<&Heard>, now: Time) -> bool {
        let listened = now.since(self.since) >= LATE_AFTER;
        listened && heard.is_none_or(|heard| now.since(heard.spoke) >= LATE_AFTER)
    }

    fn verdict(&self, heard: Option<&Heard>, known: Liveness, now: Time) -> Liveness {
        let fresh = |at: Time| now.since(at) < DEAD_AFTER;
        match heard {
            Some(heard) if heard.closed => Liveness::Dead,
            Some(heard) if fresh(heard.at) => Liveness::Alive,
            // Who was dead before this controller's own absence may have returned during it.
            _ if fresh(self.since) && known == Liveness::Alive => Liveness::Alive,
            _ if fresh(self.since) => Liveness::Unknown,
            _ => Liveness::Dead,
        }
    }

    /// When a silence that has lasted until `now` may next turn into death.
    fn next_expiry(&self, now: Time) -> Time {
        let all = self.nodes.values().chain(self.hosts.values());
        let open = all.filter(|heard| !heard.closed);
        let ends = open.map(|heard| heard.at.max(self.since) + DEAD_AFTER);
        let ends = ends.chain([self.since + DEAD_AFTER]).filter(|end| *end > now);
        ends.min().unwrap_or(now + DEAD_AFTER)
    }
}

impl<P: Planner> Reconciler<P> {
    /// Judges everyone whose silence may have lasted long enough, or who was heard again.
    pub(crate) fn judge(&mut self) {
        let now = self.now;
        if now < self.detector.next_check && !self.detector.news {
            return;
        }
        self.detector.news = false;
        self.detector.next_check = self.detector.next_expiry(now);
        let detector = &self.detector;
        let nodes: Vec<(NodeId, Liveness)> = self
            .world
            .nodes
            .iter()
            .map(|(id, view)| (*id, view.liveness, detector.nodes.get(id)))
            .map(|(id, known, heard)| (id, known, detector.verdict(heard, known, now)))
            .filter(|(_, known, verdict)| known != verdict)
            .map(|(id, _, verdict)| (id, verdict))
            .collect();
        let hosts: Vec<(HostId, Liveness)> = self
            .world
            .hosts
            .iter()
            .map(|(id, view)| (*id, view.liveness, detector.hosts.get(id)))
            .map(|(id, known, heard)| (id, known, detector.verdict(heard, known, now)))
            .filter(|(_, known, verdict)| known != verdict)
            .map(|(id, _, verdict)| (id, verdict))
            .collect();
        for (node, verdict) in nodes {
            let touched = self.world.judge_node(node, verdict);
            self.touch(touched);
            if verdict == Liveness::Alive {
                self.delivery.node_returned(node);
                self.note_rooms(node);
            }
        }
        for (host, verdict) in hosts {
            let touched = self.world.judge_host(host, verdict);
            self.touch(touched);
            if verdict == Liveness::Alive {
                self.delivery.host_returned(host);
            }
        }
    }

    /// When `judge` has something to say at the earliest.
    pub(crate) fn next_judgement(&self) -> Time {
        self.detector.next_check
    }

    /// New records are judged at once: what was heard before they came counts.
    pub(crate) fn judge_again(&mut self) {
        self.detector.news = true;
    }

    pub(crate) fn inventory(&mut self, inventory: Inventory) {
        if !self.node_heard(inventory.node, inventory.instance) {
            return;
        }
        let node = inventory.node;
        if self.registry.keep_if_early(&self.world, &inventory) {
            return;
        }
        let touched = self.world.observe(inventory);
        self.note_rooms(node);
        self.touch(touched);
    }

    pub(crate) fn difference(&mut self, difference: Difference) {
        if !self.node_heard(difference.node, difference.instance) {
            return;
        }
        let pools: Vec<_> = difference.pools.keys().copied().collect();
        // After a gap the engine's next whole inventory is awaited.
        if let Ok(touched) = self.world.observe_difference(difference) {
            for pool in pools {
                self.wake_for_room(pool);
            }
            self.touch(touched);
        }
    }

    fn note_rooms(&mut self, node: NodeId) {
        let pools: Vec<_> =
            self.world.index.pools_of.get(&node).into_iter().flatten().copied().collect();
        for pool in pools {
            self.wake_for_room(pool);
        }
    }

    pub(crate) fn host_inventory(&mut self, inventory: HostInventory) {
        if self.host_heard(inventory.host, inventory.instance) {
            let touched = self.world.observe_host(inventory);
            self.touch(touched);
        }
    }

    pub(crate) fn heartbeat(&mut self, node: NodeId, instance: InstanceId) {
        self.node_heard(node, instance);
    }

    pub(crate) fn host_heartbeat(&mut self, host: HostId, instance: InstanceId) {
        self.host_heard(host, instance);
    }

    /// A word of a node's present process; a past one's says nothing.
    pub(crate) fn node_heard(&mut self, node: NodeId, instance: InstanceId) -> bool {
        if self.registry.is_past(instance) {
            // A late registration may have put the wrong process on record. If that one is quiet
            // and this one still speaks, this is the one.
            if !self.detector.is_quiet(self.detector.nodes.get(&node), self.now) {
                return false;
            }
            self.registry.revive_node(node, instance);
            self.queue.push(Subject::Node(node));
        }
        let on_record = self.world.node(node).and_then(|view| view.record.layout.instance);
        if self.registry.node_confirmed(node, instance, on_record) {
            self.queue.push(Subject::Node(node));
        }
        if on_record.is_some_and(|on_record| on_record != instance) {
            let touched = self.world.forget_node_seen(node);
            self.touch(touched);
        }
        self.detector.news |= self.world.liveness(node) != Liveness::Alive;
        self.detector.nodes.insert(node, Heard::speaking(self.now));
        true
    }

    pub(crate) fn host_heard(&mut self, host: HostId, instance: InstanceId) -> bool {
        if self.registry.is_past(instance) {
            if !self.detector.is_quiet(self.detector.hosts.get(&host), self.now) {
                return false;
            }
            self.registry.revive_host(host, instance);
            self.queue.push(Subject::Host(host));
        }
        let on_record = self.world.hosts.get(&host).and_then(|view| view.record.layout.instance);
        if self.registry.host_confirmed(host, instance, on_record) {
            self.queue.push(Subject::Host(host));
        }
        let known = self.world.hosts.get(&host);
        let is_new = known.is_some_and(|view| view.record.layout.instance != Some(instance));
        self.detector.news |= known.is_none_or(|view| view.liveness != Liveness::Alive);
        if is_new {
            // Its predecessor's paths are gone, also where nobody led who could put it on record.
            let touched = self.world.forget_host_seen(host);
            self.touch(touched);
        }
        self.detector.hosts.insert(host, Heard::speaking(self.now));
        true
    }

    pub(crate) fn node_closed(&mut self, node: NodeId, instance: InstanceId) {
        let known = self.world.node(node).and_then(|view| view.record.layout.instance);
        if self.registry.current_node(node).or(known) == Some(instance) {
            self.detector.nodes.insert(node, Heard::closed(self.now));
            self.detector.news = true;
        }
    }

    pub(crate) fn host_closed(&mut self, host: HostId, instance: InstanceId) {
        let known = self.world.hosts.get(&host).and_then(|view| view.record.layout.instance);
        if self.registry.current_host(host).or(known) == Some(instance) {
            self.detector.hosts.insert(host, Heard::closed(self.now));
            self.detector.news = true;
        }
    }
}
