//! Getting configs to engines and hosts: whole once, differences afterwards.

#[cfg(test)]
mod tests;

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use model::{EngineError, HostId, Key, Liveness, NodeId, Revision, Scope, Subject, Time};
use plan::{Planner, World};

use crate::{Effect, Reconciler, limits::ANSWER_WITHIN};

#[derive(Debug, Default)]
pub(crate) struct Delivery {
    nodes: BTreeMap<NodeId, Parcel>,
    hosts: BTreeMap<HostId, Parcel>,
}

/// What one machine has, and what it lacks.
#[derive(Debug, Default)]
struct Parcel {
    /// The generation it has taken; `None` when it must be sent whole.
    base: Option<Revision>,
    changed: BTreeSet<Key>,
    sent: Option<Sent>,
    not_before: Time,
}

#[derive(Debug)]
struct Sent {
    generation: Revision,
    at: Time,
}

impl Parcel {
    fn is_due(&self, now: Time) -> bool {
        match &self.sent {
            Some(sent) => now.since(sent.at) >= ANSWER_WITHIN,
            None => (self.base.is_none() || !self.changed.is_empty()) && now >= self.not_before,
        }
    }

    fn is_idle(&self) -> bool {
        self.sent.is_none() && self.changed.is_empty() && self.base.is_some()
    }

    /// What it has is not known any more.
    fn lose(&mut self) {
        self.base = None;
        self.sent = None;
    }

    fn answered(&mut self, answer: &Result<Revision, EngineError>, now: Time) {
        let Some(sent) = self.sent.take() else { return };
        match answer {
            Ok(generation) if *generation == sent.generation => self.base = Some(*generation),
            Ok(_) => self.base = None,
            Err(_) => {
                self.base = None;
                self.not_before = now + ANSWER_WITHIN;
            }
        }
        if let Err(EngineError::NeedsWhole { .. }) = answer {
            self.not_before = now;
        }
    }
}

impl Delivery {
    /// Nothing is on its way to anyone who lives.
    pub(crate) fn is_idle(&self, world: &World) -> bool {
        let node = |id| world.liveness(id) == Liveness::Alive;
        let host = |id| world.hosts.get(&id).is_some_and(|v| v.liveness == Liveness::Alive);
        self.nodes.iter().all(|(id, parcel)| parcel.is_idle() || !node(*id))
            && self.hosts.iter().all(|(id, parcel)| parcel.is_idle() || !host(*id))
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn all_whole(&mut self) {
        for parcel in self.nodes.values_mut().chain(self.hosts.values_mut()) {
            parcel.lose();
        }
    }

    pub(crate) fn mark_node(&mut self, node: NodeId, key: Key) {
        self.nodes.entry(node).or_default().changed.insert(key);
    }

    pub(crate) fn mark_every_node(&mut self, key: &Key) {
        for parcel in self.nodes.values_mut() {
            parcel.changed.insert(key.clone());
        }
    }

    pub(crate) fn mark_host(&mut self, host: HostId, key: Key) {
        self.hosts.entry(host).or_default().changed.insert(key);
    }

    pub(crate) fn node_returned(&mut self, node: NodeId) {
        self.nodes.entry(node).or_default().lose();
    }

    pub(crate) fn host_returned(&mut self, host: HostId) {
        self.hosts.entry(host).or_default().lose();
    }

    pub(crate) fn forget_node(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }
}

impl<P: Planner> Reconciler<P> {
    /// Sends what is due to everyone who can be reached. While read-only nothing is sent: what the
    /// engines have comes from a store that knew more.
    pub(crate) fn deliver(&mut self) {
        let Some(term) = self.lead.term() else { return };
        if self.world.read_only().is_some() {
            return;
        }
        let now = self.now;
        let nodes: Vec<NodeId> =
            self.delivery.nodes.iter().filter(|(_, p)| p.is_due(now)).map(|(id, _)| *id).collect();
        for id in nodes {
            self.deliver_node(id, term);
        }
        let hosts: Vec<HostId> =
            self.delivery.hosts.iter().filter(|(_, p)| p.is_due(now)).map(|(id, _)| *id).collect();
        for id in hosts {
            self.deliver_host(id, term);
        }
    }

    fn deliver_node(&mut self, id: NodeId, term: model::InstanceId) {
        let Some(view) = self.world.node(id) else { return };
        // A process that has not reported yet may carry pools of another history.
        if view.liveness != Liveness::Alive || view.inventory.is_none() {
            return;
        }
        let Some(parcel) = self.delivery.nodes.get_mut(&id) else { return };
        // What is under way has taken its base along: sent again, it goes whole.
        parcel.sent = None;
        let changed = core::mem::take(&mut parcel.changed);
        let base = parcel.base.take();
        let config = match base {
            None => plan::node_config(&self.world, id, term),
            Some(base) => plan::node_difference(&self.world, id, term, base, changed),
        };
        let Some(config) = config else { return };
        parcel.sent = Some(Sent { generation: config.head.generation, at: self.now });
        self.queue.wake_at(Subject::Node(id), self.now + ANSWER_WITHIN);
        self.effects.push(Effect::Apply { node: id, config });
    }

    fn deliver_host(&mut self, id: HostId, term: model::InstanceId) {
        let Some(view) = self.world.hosts.get(&id) else { return };
        // A process that is not on record yet would refuse what is meant for its predecessor.
        let known = view.record.layout.instance;
        let is_new = self.registry.current_host(id).is_some_and(|speaks| Some(speaks) != known);
        if view.liveness != Liveness::Alive || is_new {
            return;
        }
        let Some(parcel) = self.delivery.hosts.get_mut(&id) else { return };
        parcel.sent = None;
        let changed = core::mem::take(&mut parcel.changed);
        let Some(mut config) = plan::host_config(&self.world, id, term) else { return };
        if let Some(base) = parcel.base.take() {
            let parts = changed.into_iter().map(|key| {
                let part = plan::host_part(&self.world, id, &key);
                (key, part)
            });
            config.parts = parts.collect();
            config.head.scope = Scope::Difference { base };
        }
        parcel.sent = Some(Sent { generation: config.head.generation, at: self.now });
        self.queue.wake_at(Subject::Host(id), self.now + ANSWER_WITHIN);
        self.effects.push(Effect::ApplyHost { host: id, config });
    }

    pub(crate) fn node_answered(&mut self, node: NodeId, answer: &Result<Revision, EngineError>) {
        if let Some(parcel) = self.delivery.nodes.get_mut(&node) {
            parcel.answered(answer, self.now);
        }
        if let Err(EngineError::OtherInstance { instance }) = answer {
            self.corrected(node, *instance);
        }
    }

    pub(crate) fn host_answered(&mut self, host: HostId, answer: &Result<Revision, EngineError>) {
        if let Some(parcel) = self.delivery.hosts.get_mut(&host) {
            parcel.answered(answer, self.now);
        }
    }
}
