//! Processes that said who they are, and the records that say so for everyone.

use alloc::{
    collections::{BTreeMap, VecDeque},
    format,
    string::{String, ToString},
    vec::Vec,
};

use model::{
    Host, HostId, HostLayout, HostSpec, InstanceId, Inventory, Key, Meta, Node, NodeId, NodeLayout,
    NodeSpec, Record, Revision, Subject, Txn,
};
use plan::{Planner, World};

use crate::{Reconciler, commit::Purpose, limits::PAST_INSTANCES};

#[derive(Debug, Default)]
pub(crate) struct Registry {
    nodes: BTreeMap<NodeId, Registered>,
    hosts: BTreeMap<HostId, Registered>,
    /// Processes that were followed by another: a late word of theirs is not believed.
    past: VecDeque<InstanceId>,
    /// Inventories of processes whose registration is not on record yet.
    early: BTreeMap<NodeId, Inventory>,
}

#[derive(Clone, Debug)]
struct Registered {
    name: String,
    /// An engine's address, or a host's qualified name.
    contact: String,
    instance: InstanceId,
    node: Option<NodeId>,
    /// It was heard before the store was read, which knows of another: either may be the older. It
    /// is put on record when it speaks again.
    is_doubtful: bool,
}

impl Registered {
    /// One that speaks; true if it was in doubt and is not on record.
    fn confirmed(&mut self, speaks: InstanceId, on_record: Option<InstanceId>) -> bool {
        if !self.is_doubtful || speaks != self.instance && Some(speaks) != on_record {
            return false;
        }
        self.is_doubtful = false;
        self.instance = speaks;
        Some(speaks) != on_record
    }

    fn doubt(&mut self, on_record: Option<InstanceId>) {
        self.is_doubtful = on_record.is_some_and(|on_record| on_record != self.instance);
    }

    /// The store says that another process followed this one.
    fn follow(&mut self, past: InstanceId, now: InstanceId) {
        if self.instance == past {
            (self.instance, self.is_doubtful) = (now, false);
        }
    }
}

impl Registry {
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.keys().copied()
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = HostId> + '_ {
        self.hosts.keys().copied()
    }

    pub(crate) fn current_node(&self, node: NodeId) -> Option<InstanceId> {
        self.nodes.get(&node).map(|registered| registered.instance)
    }

    pub(crate) fn current_host(&self, host: HostId) -> Option<InstanceId> {
        self.hosts.get(&host).map(|registered| registered.instance)
    }

    pub(crate) fn is_past(&self, instance: InstanceId) -> bool {
        self.past.contains(&instance)
    }

    /// Remembers that a process was followed by another.
    pub(crate) fn retire(&mut self, instance: InstanceId) {
        let most = PAST_INSTANCES * (self.nodes.len() + self.hosts.len()).max(1);
        if !self.past.contains(&instance) {
            self.past.push_back(instance);
        }
        while self.past.len() > most {
            self.past.pop_front();
        }
    }

    /// Its record was removed: it is put on record again only when it speaks again.
    pub(crate) fn forget_node(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        self.early.remove(&node);
    }

    /// The store says that another process of the node registered: whatever was heard before it is
    /// old.
    pub(crate) fn follow_node(&mut self, node: NodeId, past: InstanceId, now: Option<InstanceId>) {
        self.succeed(past, now);
        if let (Some(registered), Some(now)) = (self.nodes.get_mut(&node), now) {
            registered.follow(past, now);
        }
    }

    pub(crate) fn follow_host(&mut self, host: HostId, past: InstanceId, now: Option<InstanceId>) {
        self.succeed(past, now);
        if let (Some(registered), Some(now)) = (self.hosts.get_mut(&host), now) {
            registered.follow(past, now);
        }
    }

    /// One that was on record by mistake may be followed by the one before it.
    fn succeed(&mut self, past: InstanceId, now: Option<InstanceId>) {
        self.retire(past);
        self.past.retain(|past| Some(*past) != now);
    }

    /// The store was read: of those that were heard before, and that are not on record, nobody
    /// knows whether they came before or after the ones that are.
    pub(crate) fn doubt(&mut self, world: &World) {
        for (id, registered) in &mut self.nodes {
            registered.doubt(world.node(*id).and_then(|view| view.record.layout.instance));
        }
        for (id, registered) in &mut self.hosts {
            registered.doubt(world.hosts.get(id).and_then(|view| view.record.layout.instance));
        }
    }

    /// True if it is to be put on record now.
    pub(crate) fn node_confirmed(
        &mut self,
        node: NodeId,
        speaks: InstanceId,
        on_record: Option<InstanceId>,
    ) -> bool {
        self.nodes.get_mut(&node).is_some_and(|it| it.confirmed(speaks, on_record))
    }

    pub(crate) fn host_confirmed(
        &mut self,
        host: HostId,
        speaks: InstanceId,
        on_record: Option<InstanceId>,
    ) -> bool {
        self.hosts.get_mut(&host).is_some_and(|it| it.confirmed(speaks, on_record))
    }

    /// A process that was taken for past is the one that speaks.
    pub(crate) fn revive_node(&mut self, node: NodeId, instance: InstanceId) {
        self.past.retain(|past| *past != instance);
        if let Some(registered) = self.nodes.get_mut(&node) {
            registered.instance = instance;
        }
    }

    pub(crate) fn revive_host(&mut self, host: HostId, instance: InstanceId) {
        self.past.retain(|past| *past != instance);
        if let Some(registered) = self.hosts.get_mut(&host) {
            registered.instance = instance;
        }
    }

    /// An inventory that comes before its process is on record is kept until then.
    pub(crate) fn keep_if_early(&mut self, world: &World, inventory: &Inventory) -> bool {
        let known = world.node(inventory.node).and_then(|view| view.record.layout.instance);
        if known == Some(inventory.instance) {
            return false;
        }
        let newer = self.early.get(&inventory.node).is_none_or(|kept| {
            kept.instance != inventory.instance || kept.sequence < inventory.sequence
        });
        if newer {
            self.early.insert(inventory.node, inventory.clone());
        }
        true
    }

    pub(crate) fn take_early(&mut self, node: NodeId, instance: InstanceId) -> Option<Inventory> {
        let kept = self.early.remove(&node)?;
        (kept.instance == instance).then_some(kept)
    }
}

impl<P: Planner> Reconciler<P> {
    pub(crate) fn node_registered(
        &mut self,
        node: NodeId,
        name: String,
        address: String,
        instance: InstanceId,
    ) {
        if !self.node_heard(node, instance) {
            return;
        }
        let registered =
            Registered { name, contact: address, instance, node: None, is_doubtful: false };
        if let Some(old) = self.registry.nodes.insert(node, registered)
            && old.instance != instance
        {
            self.registry.retire(old.instance);
        }
        self.delivery.node_returned(node);
        self.queue.push(Subject::Node(node));
    }

    pub(crate) fn host_registered(
        &mut self,
        host: HostId,
        name: String,
        nqn: String,
        node: Option<NodeId>,
        instance: InstanceId,
    ) {
        if !self.host_heard(host, instance) {
            return;
        }
        let registered = Registered { name, contact: nqn, instance, node, is_doubtful: false };
        if let Some(old) = self.registry.hosts.insert(host, registered)
            && old.instance != instance
        {
            self.registry.retire(old.instance);
        }
        self.delivery.host_returned(host);
        self.queue.push(Subject::Host(host));
    }

    /// Puts a process on record if it is not. Also while read-only: who runs is a fact, not a
    /// decision.
    pub(crate) fn register_if_due(&mut self, subject: Subject) -> bool {
        let txn = match subject {
            Subject::Node(id) => self.node_registration(id),
            Subject::Host(id) => self.host_registration(id),
            _ => None,
        };
        match txn {
            Some(txn) => {
                self.commit(subject, txn, Purpose::Register);
                true
            }
            None => false,
        }
    }

    fn node_registration(&self, id: NodeId) -> Option<Txn> {
        let registered = self.registry.nodes.get(&id)?;
        if self.world.quarantine(Subject::Node(id)).is_some() {
            return None;
        }
        let Some(view) = self.world.node(id) else {
            let mut meta = Meta::new(id, registered.name.clone(), self.now);
            let name = Key::name("node", &registered.name);
            let taken = self.world.names.contains_key(&("node".into(), registered.name.clone()));
            if taken {
                meta.name = format!("{}-{id}", registered.name);
            }
            let layout =
                NodeLayout { instance: Some(registered.instance), ..NodeLayout::default() };
            let spec = NodeSpec { address: registered.contact.clone(), ..NodeSpec::default() };
            let node = Node { meta, spec, layout };
            let txn = Txn::default().put(Key::Node(id), Record::Node(node.into()), Revision::ZERO);
            let named = Record::Name(id.to_string());
            return Some(if taken { txn } else { txn.put(name, named, Revision::ZERO) });
        };
        let old = &view.record;
        let is_known = old.layout.instance == Some(registered.instance);
        if is_known || old.spec.forgotten || registered.is_doubtful {
            return None;
        }
        let mut new = old.clone();
        new.layout.instance = Some(registered.instance);
        // Where an engine listens is the engine's own to say.
        new.spec.address.clone_from(&registered.contact);
        Some(Txn::default().put(Key::Node(id), Record::Node(new.into()), old.meta.revision))
    }

    pub(crate) fn host_registration(&self, id: HostId) -> Option<Txn> {
        let registered = self.registry.hosts.get(&id)?;
        if self.world.quarantine(Subject::Host(id)).is_some() {
            return None;
        }
        let instance = Some(registered.instance);
        let Some(view) = self.world.hosts.get(&id) else {
            let layout = HostLayout { instance, ..HostLayout::default() };
            let spec = HostSpec {
                nqn: registered.contact.clone(),
                node: registered.node,
                ..HostSpec::default()
            };
            let meta = Meta::new(id, registered.name.clone(), self.now);
            let host = Host { meta, spec, layout };
            let key = Key::Host(id);
            return Some(Txn::default().put(key, Record::Host(host.into()), Revision::ZERO));
        };
        if view.record.layout.instance == instance || registered.is_doubtful {
            return None;
        }
        let mut new = view.record.clone();
        new.layout.instance = instance;
        // The name it connects with, and where it runs, are the host's own to say.
        new.spec.nqn.clone_from(&registered.contact);
        new.spec.node = registered.node;
        let read_at = view.record.meta.revision;
        Some(Txn::default().put(Key::Host(id), Record::Host(new.into()), read_at))
    }

    /// The process that refused a config says who it is: the record was about another.
    pub(crate) fn corrected(&mut self, node: NodeId, instance: InstanceId) {
        if self.registry.is_past(instance) {
            return;
        }
        if let Some(registered) = self.registry.nodes.get_mut(&node)
            && registered.instance != instance
        {
            let old = core::mem::replace(&mut registered.instance, instance);
            registered.is_doubtful = false;
            self.registry.retire(old);
            self.queue.push(Subject::Node(node));
        }
    }

    /// Inventories that waited for a registration which is on record now.
    pub(crate) fn replay_early(&mut self, nodes: Vec<NodeId>) {
        for node in nodes {
            let known = self.world.node(node).and_then(|view| view.record.layout.instance);
            let Some(instance) = known else { continue };
            if let Some(inventory) = self.registry.take_early(node, instance) {
                self.inventory(inventory);
            }
        }
    }
}
