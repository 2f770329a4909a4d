//! Taking a config, or saying why not.

use model::{ConfigHead, EngineError, NodeConfig, NodePart, Revision, Scope};

use super::Engine;
use crate::{Ctx, fakes::disk::Disks};

impl Engine {
    pub fn apply(
        &mut self,
        disks: &mut Disks,
        ctx: &mut Ctx<'_>,
        config: &NodeConfig,
    ) -> Result<Revision, EngineError> {
        self.check(disks, &config.head)?;
        if config.head.scope == Scope::Whole {
            self.parts.clear();
        }
        for (key, part) in &config.parts {
            match part {
                Some(part) => self.parts.insert(key.clone(), part.clone()),
                None => self.parts.remove(key),
            };
        }
        self.generation = config.head.generation;
        self.head = Some(config.head.clone());
        self.settle(disks, ctx);
        self.carry(disks, config.parts.values().flatten());
        ctx.out.changed = true;
        Ok(self.generation)
    }

    fn check(&self, disks: &Disks, head: &ConfigHead) -> Result<(), EngineError> {
        if head.instance != self.instance {
            return Err(EngineError::OtherInstance { instance: self.instance });
        }
        let known = |era| era == head.era || head.former.contains(&era);
        let marked = disks.readable().filter_map(|pool| pool.mark).map(|mark| mark.era);
        let applied = self.head.iter().map(|head| head.era);
        if !marked.chain(applied).all(known) {
            return Err(EngineError::OtherEra);
        }
        // A new era may begin on a store that counts from further back.
        let same_era = self.head.as_ref().is_none_or(|applied| applied.era == head.era);
        if same_era && head.generation < self.generation {
            return Err(EngineError::Older { at: self.generation });
        }
        match head.scope {
            Scope::Difference { base } if base != self.generation => {
                Err(EngineError::NeedsWhole { at: self.generation })
            }
            _ => Ok(()),
        }
    }

    /// Pools keep the records that a config brings, so that everything can be rebuilt from them.
    pub(super) fn carry<'a>(&self, disks: &mut Disks, parts: impl Iterator<Item = &'a NodePart>) {
        for part in parts {
            match part {
                NodePart::Pool(item) if self.is_online(item.id) => {
                    if let Some(pool) = disks.pool_mut(item.id) {
                        pool.carried = Some(item.carried.clone());
                    }
                }
                NodePart::Volume(part) => {
                    for item in part.replicas.iter().filter(|item| self.is_online(item.pool)) {
                        let pool = disks.pool_mut(item.pool);
                        if let Some(pool) = pool.filter(|p| p.replicas.contains_key(&item.id)) {
                            let carried = (self.generation, part.carried.clone());
                            pool.volumes.insert(part.volume, carried);
                        }
                    }
                }
                NodePart::Pool(_)
                | NodePart::Tombstone
                | NodePart::Peer { .. }
                | NodePart::Host { .. } => {}
            }
        }
    }
}
