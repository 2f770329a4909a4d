//! Checking a pool without changing it: the scan of an import with its assertions, and what it
//! found.

use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};

use block::{BLOCK, Buffer};
use model::{Bytes, PoolId};

use crate::{
    Finding, Flaws, Geometry, Io, IoError, IoId, LoadError,
    geometry::CLUSTER,
    load::{Load, Loaded},
    record::LayerId,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub pool: PoolId,
    pub name: String,
    pub geometry: Geometry,
    pub is_clean: bool,
    /// Batches that an import would replay.
    pub batches: u64,
    pub replicas: u64,
    pub snapshots: u64,
    pub used: Bytes,
    /// What is not as it should be and does no harm.
    pub findings: Vec<Finding>,
}

#[derive(Debug)]
pub enum FsckStep {
    Io { id: IoId, io: Io },
    Done(Box<Result<Report, LoadError>>),
}

/// A check under way.
#[derive(Debug)]
pub struct Fsck {
    load: Load,
}

impl Fsck {
    /// Of a device of so many blocks.
    pub fn new(blocks: u64) -> Self {
        Self { load: Load::new(blocks, Flaws::default()) }
    }

    /// What is to be done next. `Done` comes once and last.
    pub fn poll(&mut self) -> Option<FsckStep> {
        if let Some((id, io)) = self.load.poll() {
            return Some(FsckStep::Io { id, io });
        }
        let outcome = self.load.take_outcome()?;
        Some(FsckStep::Done(Box::new(outcome.and_then(|loaded| judge(&loaded)))))
    }

    pub fn io_done(&mut self, id: IoId, result: Result<Option<Buffer>, IoError>) {
        self.load.io_done(id, result);
    }

    pub fn progress(&self) -> (u64, u64) {
        self.load.progress()
    }
}

/// Every cluster is nobody's, or lies once in the map of the layer that its entry names.
fn judge(loaded: &Loaded) -> Result<Report, LoadError> {
    let layers = &loaded.catalog.layers;
    let mut owned: BTreeMap<LayerId, u32> = BTreeMap::new();
    let owners = (0u32..).zip(&loaded.entries).filter(|(_, entry)| entry.valid != 0);
    for (cluster, entry) in owners {
        let layer = layers.get(&entry.layer);
        if layer.and_then(|layer| layer.map.get(entry.logical)) != Some(cluster) {
            return Err(LoadError::Cluster { cluster });
        }
        *owned.entry(entry.layer).or_default() += 1;
    }
    for (id, layer) in layers {
        if layer.map.count() != owned.get(id).copied().unwrap_or(0) {
            let cluster = layer.map.next(0).map_or(u32::MAX, |(_, cluster)| cluster);
            return Err(LoadError::Cluster { cluster });
        }
    }
    let superblock = &loaded.superblock;
    let count = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
    let used: u64 = owned.values().map(|owned| u64::from(*owned)).sum();
    let frozen = layers.values().filter(|layer| layer.frozen.is_some() && !layer.is_discarded());
    Ok(Report {
        pool: superblock.pool,
        name: superblock.name.clone(),
        geometry: superblock.geometry,
        is_clean: superblock.is_clean,
        batches: loaded.batches,
        replicas: count(loaded.catalog.replicas.len()),
        snapshots: count(frozen.count()),
        used: Bytes(used * CLUSTER * BLOCK as u64),
        findings: loaded.findings.clone(),
    })
}
