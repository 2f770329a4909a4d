//! The store of an engine without a controller: its era, what it has seen, and the membership
//! records of its volumes.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result, bail};
use model::{Cluster, Epoch, Era, Key, Membership, Record, Revision, Txn};
use ports::{Store as _, TxnOutcome};
use store::embedded::Embedded;
use uuid::Uuid;

use super::config::{Plan, PlannedVolume};

#[derive(Debug)]
pub(super) struct Book {
    store: Embedded,
}

impl Book {
    pub(super) async fn open(folder: &Path) -> Result<Self> {
        let store = Embedded::open(folder)
            .with_context(|| format!("opening the store in {}", folder.display()))?;
        // A controller's epochs are its own to raise.
        if !store.list("term/", None, 1, None).await?.entries.is_empty() {
            bail!("{} is a controller's store: name another folder", folder.display());
        }
        let book = Self { store };
        book.found().await?;
        Ok(book)
    }

    pub(super) fn store(&self) -> Embedded {
        self.store.clone()
    }

    /// A store has an era from its first start on. Pools remember it, so that they are not taken
    /// over by a store that knows nothing of what became of them.
    async fn found(&self) -> Result<()> {
        if self.get(&Key::Cluster).await?.is_none() {
            let cluster = Cluster {
                era: Era(Uuid::new_v4()),
                schema: model::SCHEMA,
                former: Vec::new(),
                extra: model::Extra::new(),
            };
            self.put(&Key::Cluster, &Record::Cluster(cluster), Revision::ZERO).await?;
        }
        Ok(())
    }

    /// Takes a new epoch for every volume: none of them is served before all of this is durable.
    pub(super) async fn raise(&self, plan: &mut Plan) -> Result<()> {
        for volume in &plan.volumes {
            let mut record = self.membership(volume).await?;
            record.epoch = Epoch(record.epoch.0 + 1);
            record.owner = None;
            let (key, read_at) = (Key::Membership(volume.id), record.revision);
            self.put(&key, &Record::Membership(Box::new(record)), read_at).await?;
        }
        self.read(plan).await
    }

    /// What the records say now.
    pub(super) async fn read(&self, plan: &mut Plan) -> Result<()> {
        let Some((Record::Cluster(cluster), _)) = self.get(&Key::Cluster).await? else {
            bail!("the store has lost its era");
        };
        plan.era = cluster.era;
        for (id, pool) in &mut plan.pools {
            pool.is_known = self.get(&Key::Pool(*id)).await?.is_some();
        }
        for volume in &mut plan.volumes {
            volume.epoch = self.membership(volume).await?.epoch;
            volume.is_known = match self.get(&Key::Volume(volume.id)).await? {
                Some((Record::Volume(known), _)) if known.spec.size > volume.size => {
                    bail!("volume {} cannot shrink from {}", volume.name, known.spec.size)
                }
                known => known.is_some(),
            };
        }
        let (_, revision) = self.store.read(&[]).await?;
        plan.generation = revision;
        Ok(())
    }

    /// Everything of the plan was seen: from now on it must exist.
    pub(super) async fn remember(&self, plan: &Plan) -> Result<()> {
        for (id, pool) in &plan.pools {
            let record = Record::Pool(Box::new(plan.pool(*id, pool)));
            self.keep(&Key::Pool(*id), &record).await?;
        }
        for volume in &plan.volumes {
            let record = Record::Volume(Box::new(volume.record()));
            self.keep(&Key::Volume(volume.id), &record).await?;
        }
        Ok(())
    }

    async fn membership(&self, volume: &PlannedVolume) -> Result<Membership> {
        let replicas = volume.replicas.iter().map(|(replica, _)| *replica);
        let Some((Record::Membership(record), _)) = self.get(&Key::Membership(volume.id)).await?
        else {
            return Ok(Membership::founded(volume.id, replicas));
        };
        let (now, then): (BTreeSet<_>, BTreeSet<_>) =
            (replicas.collect(), record.children.keys().copied().collect());
        if now != then {
            bail!(
                "volume {} was made on other disks: their paths must stay as they were written",
                volume.name
            );
        }
        Ok(*record)
    }

    async fn get(&self, key: &Key) -> Result<Option<(Record, Revision)>> {
        let (entries, _) = self.store.read(&[key.to_string()]).await?;
        let Some(entry) = entries.first() else { return Ok(None) };
        Ok(Some((Record::decode(key, &entry.value, entry.modified)?, entry.modified)))
    }

    /// Writes a record that is as it was read; absent, if that was at no revision.
    async fn put(&self, key: &Key, record: &Record, read_at: Revision) -> Result<()> {
        let txn = Txn::default().put(key.clone(), record.clone(), read_at);
        match self.store.commit(&txn.encode()).await? {
            TxnOutcome::Committed { .. } => Ok(()),
            TxnOutcome::Refused { .. } => bail!("{key} changed meanwhile"),
        }
    }

    /// Writes a record in place of whatever is there.
    async fn keep(&self, key: &Key, record: &Record) -> Result<()> {
        let read_at = self.get(key).await?.map_or(Revision::ZERO, |(_, revision)| revision);
        self.put(key, record, read_at).await
    }
}
