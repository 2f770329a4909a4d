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
        self.check(&config.head)?;
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

    fn check(&self, head: &ConfigHead) -> Result<(), EngineError> {
        if head.instance != self.instance {
            return Err(EngineError::OtherInstance { instance: self.instance });
        }
        let applied = self.head.as_ref().map(|head| head.era);
        if !applied.is_none_or(|era| era == head.era || head.former.contains(&era)) {
            return Err(EngineError::OtherEra);
        }
        let at = self.generation();
        // A new era may begin on a store that counts from further back.
        if applied.is_none_or(|era| era == head.era) && head.generation < at {
            return Err(EngineError::Older { at });
        }
        match head.scope {
            Scope::Difference { base } if base != at => Err(EngineError::NeedsWhole { at }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
