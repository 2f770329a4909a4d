//! What the newest config asks of this host, and which configs are refused.

use std::collections::BTreeMap;

use model::{ConfigHead, HostConfig, HostPart, InstanceId, Key, Revision, Scope, VolumeId};
use ports::EngineError;

/// Starts empty: nothing is wanted before a controller has said so.
#[derive(Debug)]
pub(crate) struct Desired {
    instance: InstanceId,
    head: Option<ConfigHead>,
    parts: BTreeMap<VolumeId, HostPart>,
}

impl Desired {
    pub(crate) fn new(instance: InstanceId) -> Self {
        Self { instance, head: None, parts: BTreeMap::new() }
    }

    pub(crate) fn generation(&self) -> Revision {
        self.head.as_ref().map_or(Revision::ZERO, |head| head.generation)
    }

    /// Whether a controller has said anything yet.
    pub(crate) fn is_told(&self) -> bool {
        self.head.is_some()
    }

    pub(crate) fn parts(&self) -> &BTreeMap<VolumeId, HostPart> {
        &self.parts
    }

    /// Takes a config, or says why not: of another process, of another era, older than what is
    /// applied, or a difference that does not fit.
    pub(crate) fn take(&mut self, config: HostConfig) -> Result<Revision, EngineError> {
        config.head.check(self.instance, self.head.as_ref(), core::iter::empty())?;
        if config.head.scope == Scope::Whole {
            self.parts.clear();
        }
        for (key, part) in config.parts {
            match (key, part) {
                (Key::Volume(volume), Some(part)) => self.parts.insert(volume, part),
                (Key::Volume(volume), None) => self.parts.remove(&volume),
                _ => None,
            };
        }
        let generation = config.head.generation;
        self.head = Some(config.head);
        Ok(generation)
    }
}

#[cfg(test)]
mod tests;
