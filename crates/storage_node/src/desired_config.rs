//! What the newest config asks for, and which configs are refused.

use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};

use model::{
    Buried, ConfigHead, EngineError, Era, HostId, InstanceId, Key, Mark, NodeConfig, NodeId,
    NodePart, Pool, PoolId, Revision, Scope, Volume, VolumeId, VolumePart,
};

/// Starts empty (RS-1): nothing is wanted before a controller has said so.
#[derive(Debug)]
pub(crate) struct DesiredConfig {
    node: NodeId,
    instance: InstanceId,
    head: Option<ConfigHead>,
    parts: BTreeMap<Key, Arc<DesiredPart>>,
}

/// A part of a config, shared with whoever carries it out: there may be thousands, and each is
/// looked at after every step.
#[derive(Debug)]
pub(crate) struct DesiredPart {
    pub(crate) part: NodePart,
    /// What a pool is to carry of it, encoded once.
    pub(crate) carried: Vec<u8>,
}

impl DesiredPart {
    fn new(part: NodePart) -> Arc<Self> {
        let carried = match &part {
            NodePart::Pool(item) => serde_json::to_vec(&item.carried).unwrap_or_default(),
            NodePart::Volume(part) => serde_json::to_vec(&part.carried).unwrap_or_default(),
            _ => Vec::new(),
        };
        Arc::new(Self { part, carried })
    }
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
                Some(part) => self.parts.insert(key, DesiredPart::new(part)),
                None => self.parts.remove(&key),
            };
        }
        let generation = config.head.generation;
        self.head = Some(config.head);
        Ok(generation)
    }

    pub(crate) fn parts(&self) -> Vec<Arc<DesiredPart>> {
        self.parts.values().cloned().collect()
    }

    /// What a pool carries of itself. Mostly that is what the config says, decoded already.
    pub(crate) fn carried_pool(&self, pool: PoolId, bytes: &[u8]) -> Option<Box<Pool>> {
        match self.parts.get(&Key::Pool(pool)).map(|desired| (&desired.part, &desired.carried)) {
            Some((NodePart::Pool(item), carried)) if carried == bytes => Some(item.carried.clone()),
            _ => serde_json::from_slice(bytes).ok(),
        }
    }

    /// As [`Self::carried_pool`], of a volume with a replica in the pool.
    pub(crate) fn carried_volume(&self, volume: VolumeId, bytes: &[u8]) -> Option<Box<Volume>> {
        match self.parts.get(&Key::Volume(volume)).map(|desired| (&desired.part, &desired.carried))
        {
            Some((NodePart::Volume(part), carried)) if carried == bytes => {
                Some(part.carried.clone())
            }
            _ => serde_json::from_slice(bytes).ok(),
        }
    }

    pub(crate) fn volumes(&self) -> impl Iterator<Item = &VolumePart> {
        self.parts.values().filter_map(|desired| match &desired.part {
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
        match &self.parts.get(&Key::Node(peer))?.part {
            NodePart::Peer { address } => Some(address),
            _ => None,
        }
    }

    /// The name that a host connects with.
    pub(crate) fn nqn(&self, host: HostId) -> Option<&str> {
        match &self.parts.get(&Key::Host(host))?.part {
            NodePart::Host { nqn } => Some(nqn),
            _ => None,
        }
    }
}
