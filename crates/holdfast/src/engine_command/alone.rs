//! An engine without a controller: what a controller would decide, decided by the spec file.
//!
//! The rules that keep data safe are the same. Every start raises the epoch in a store of its own
//! before any target starts, and what was seen once must exist from then on: a blank disk is never
//! taken for a good copy.

mod config;
mod records;

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, Result, bail};
use engine::Engine;
use model::{Bytes, Inventory, NodeId, PoolHealth, PoolId, TargetHealth, VolumeId};
use ports::Engine as _;
use tracing::warn;
use uring::Disk;
use uuid::Uuid;

use self::{config::Plan, records::Book};
use super::{identity, spec::Volume};

/// How long a start may take, imports included.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a clean stop may take.
const FAREWELL: Duration = Duration::from_secs(10);
/// The smallest disk that is made for a volume, and what one of a given size takes besides data.
const DISK_LEAST: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Alone {
    node: NodeId,
    volumes: Vec<Volume>,
    /// Only where there are volumes.
    book: Option<Book>,
}

impl Alone {
    pub(super) async fn open(volumes: Vec<Volume>, state: Option<&Path>) -> Result<Self> {
        if volumes.is_empty() {
            let node = NodeId(Uuid::new_v4());
            return Ok(Self { node, volumes, book: None });
        }
        let Some(folder) = state else {
            bail!("volumes need a place for their records: state = \"FOLDER\" or --state FOLDER");
        };
        let node = identity::kept(folder)?;
        let book = Book::open(folder).await?;
        Ok(Self { node, volumes, book: Some(book) })
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    pub(super) fn records(&self) -> engine::Records {
        match &self.book {
            Some(book) => engine::Records::Own(Box::new(book.store())),
            None => engine::Records::Controllers,
        }
    }

    /// Returns when every volume is served.
    pub(super) async fn begin(&self, engine: &Engine) -> Result<()> {
        let Some(book) = &self.book else { return Ok(()) };
        let mut plan = Plan::new(self.node, engine.instance, &self.volumes)?;
        book.raise(&mut plan).await?;
        make_disks(&plan)?;
        engine.handle.apply(&plan.config(true)).await.context("the engine refused the spec")?;
        let served = wait_for(engine, PATIENCE, |seen| plan.volumes_served(seen)).await;
        served.context("the volumes cannot be served")?;
        book.remember(&plan).await
    }

    /// Stops targets cleanly, so that the next start has nothing to compare.
    pub(super) async fn end(&self, engine: &Engine) {
        let Some(book) = &self.book else { return };
        if let Err(error) = self.stop_targets(book, engine).await {
            warn!("the stop is not clean: {error:#}");
        }
    }

    async fn stop_targets(&self, book: &Book, engine: &Engine) -> Result<()> {
        let mut plan = Plan::new(self.node, engine.instance, &self.volumes)?;
        book.read(&mut plan).await?;
        engine.handle.apply(&plan.config(false)).await?;
        wait_for(engine, FAREWELL, |seen| Ok(seen.targets.is_empty())).await
    }
}

/// Waits until the inventory is as it should be, or cannot become so.
async fn wait_for(
    engine: &Engine,
    patience: Duration,
    mut is_so: impl FnMut(&Inventory) -> Result<bool>,
) -> Result<()> {
    let mut last = None;
    let waiting = async {
        loop {
            let seen = engine.handle.inventory().await?;
            if is_so(&seen)? {
                return Ok(());
            }
            let next = seen.sequence;
            last = Some(seen);
            engine.handle.changes(next).await?;
        }
    };
    match tokio::time::timeout(patience, waiting).await {
        Ok(result) => result,
        Err(_) => bail!("after {patience:?} {}", last.map_or_else(String::new, |s| state_of(&s))),
    }
}

/// What is wrong, in words.
fn state_of(seen: &Inventory) -> String {
    let pools = seen.pools.iter().map(|(id, pool)| format!("pool {id}: {:?}", pool.health));
    let targets = seen.targets.iter().map(|(id, seen)| format!("volume {id}: {:?}", seen.health));
    pools.chain(targets).collect::<Vec<_>>().join("; ")
}

impl Plan {
    fn volumes_served(&self, seen: &Inventory) -> Result<bool> {
        for (id, pool) in &self.pools {
            match seen.pools.get(id).map(|seen| &seen.health) {
                Some(PoolHealth::Refused { reason }) => bail!("disk {}: {reason}", pool.disk),
                // One copy less; the rest may do.
                Some(PoolHealth::Missing) if self.pools.len() == 1 => {
                    bail!("disk {} does not carry the pool that it carried before", pool.disk)
                }
                Some(PoolHealth::Faulted { reason }) if self.pools.len() == 1 => {
                    bail!("disk {}: {reason}", pool.disk)
                }
                _ => {}
            }
        }
        let mut is_served = true;
        for volume in &self.volumes {
            match seen.targets.get(&volume.id).map(|seen| &seen.health) {
                Some(TargetHealth::Serving) => {}
                Some(TargetHealth::Failed { reason }) => bail!("{}: {reason}", volume.name),
                Some(TargetHealth::Fenced) => bail!("{}: another engine took it over", volume.name),
                _ => is_served = false,
            }
        }
        Ok(is_served)
    }
}

/// Files that are not there yet, for pools that were never seen.
fn make_disks(plan: &Plan) -> Result<()> {
    let mut sizes: BTreeMap<PoolId, u64> = BTreeMap::new();
    for volume in &plan.volumes {
        for (_, pool) in &volume.replicas {
            let size = sizes.entry(*pool).or_default();
            *size = size.saturating_add(volume.size.0);
        }
    }
    for (id, pool) in &plan.pools {
        let path = Path::new(&pool.disk);
        if !pool.is_known && !path.exists() {
            let data = sizes.get(id).copied().unwrap_or(0);
            let size = Bytes((data + data / 4 + DISK_LEAST).next_multiple_of(1 << 20));
            let made = Disk::create(path, size.0);
            made.with_context(|| format!("making {} of {size}", pool.disk))?;
        }
    }
    Ok(())
}

/// A volume's id, for those who have only its name.
fn volume_id(volume: &Volume) -> VolumeId {
    VolumeId(volume.id())
}
