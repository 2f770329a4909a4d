//! What the newest config asks for, and which configs are refused.

use alloc::{collections::BTreeMap, vec::Vec};

use model::{
    Buried, ConfigHead, EngineError, Era, HostId, InstanceId, Key, Mark, NodeConfig, NodeId,
    NodePart, PoolItem, Revision, Scope, VolumePart,
};

/// Starts empty (RS-1): nothing is wanted before a controller has said so.
#[derive(Debug)]
pub(crate) struct DesiredConfig {
    node: NodeId,
    instance: InstanceId,
    head: Option<ConfigHead>,
    parts: BTreeMap<Key, NodePart>,
}

impl DesiredConfig {
    pub(crate) fn new(node: NodeId, instance: InstanceId) -> Self {
        Self { node, instance, head: None, parts: BTreeMap::new() }
    }

    pub(crate) fn generation(&self) -> Revision {
        self.head.as_ref().map_or(Revision::ZERO, |head| head.generation)
    }

    /// The point of history that pools and new replicas remember.
    pub(crate) fn mark(&self) -> Option<Mark> {
        let head = self.head.as_ref()?;
        Some(Mark { era: head.era, term: head.term, revision: head.generation })
    }

    /// Takes a config, or says why not: of another process, of another era than that of the pools,
    /// older than what is applied, or a difference that does not fit.
    pub(crate) fn take(
        &mut self,
        config: NodeConfig,
        eras: impl Iterator<Item = Era>,
    ) -> Result<Revision, EngineError> {
        config.head.check(self.instance, self.head.as_ref(), eras)?;
        if config.head.scope == Scope::Whole {
            self.parts.clear();
        }
        for (key, part) in config.parts {
            match part {
                Some(part) => self.parts.insert(key, part),
                None => self.parts.remove(&key),
            };
        }
        let generation = config.head.generation;
        self.head = Some(config.head);
        Ok(generation)
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = &PoolItem> {
        self.parts.values().filter_map(|part| match part {
            NodePart::Pool(item) => Some(item),
            _ => None,
        })
    }

    pub(crate) fn volumes(&self) -> impl Iterator<Item = &VolumePart> {
        self.parts.values().filter_map(|part| match part {
            NodePart::Volume(part) => Some(part),
            _ => None,
        })
    }

    /// In the order in which they may be removed: targets first, pools last.
    pub(crate) fn buried(&self) -> Vec<Buried> {
        let mut buried: Vec<Buried> = self
            .parts
            .keys()
            .filter_map(|key| match key {
                Key::Tombstone(node, buried) if *node == self.node => Some(*buried),
                _ => None,
            })
            .collect();
        buried.sort_by_key(|buried| match buried {
            Buried::Target { .. } => 0,
            Buried::Snapshot { .. } => 1,
            Buried::Replica { .. } => 2,
            Buried::Pool { .. } => 3,
        });
        buried
    }

    pub(crate) fn is_buried(&self, buried: Buried) -> bool {
        self.parts.contains_key(&Key::Tombstone(self.node, buried))
    }

    /// Where another engine listens.
    pub(crate) fn address(&self, peer: NodeId) -> Option<&str> {
        match self.parts.get(&Key::Node(peer))? {
            NodePart::Peer { address } => Some(address),
            _ => None,
        }
    }

    /// The name that a host connects with.
    pub(crate) fn nqn(&self, host: HostId) -> Option<&str> {
        match self.parts.get(&Key::Host(host))? {
            NodePart::Host { nqn } => Some(nqn),
            _ => None,
        }
    }
}
