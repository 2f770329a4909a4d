//! Replicas and snapshots come and go; notes are taken. All of it is durable when answered.

use alloc::{boxed::Box, string::String, vec::Vec};

use block::REGION;
use model::{AttemptId, Mark, ReplicaId, Revision, Roster, SnapshotId};

use super::{Access, OpId, Pool, Scope, Work, bytes, commit::Waiter, new_op};
use crate::{
    Error, Header, NewReplica, Note, Reply, Request, RequestId,
    catalog::{MOST_BLOCKS, clusters},
    notes,
    record::{Create, Frozen, LayerId, Record},
};

#[derive(Clone, Debug)]
pub(super) enum Change {
    Note { replica: ReplicaId, note: Box<Note> },
    Create(Box<NewReplica>),
    Delete { replica: ReplicaId },
    Resize { replica: ReplicaId, blocks: u64 },
    Snapshot { snapshot: NewSnapshot, is_synced: bool },
    Discard { replica: ReplicaId, which: Which },
    Carry { replica: Option<ReplicaId>, revision: Revision, bytes: Vec<u8> },
    Mark { mark: Mark },
}

#[derive(Clone, Debug)]
pub(super) struct NewSnapshot {
    replica: ReplicaId,
    snapshot: SnapshotId,
    attempt: AttemptId,
    roster: Roster,
    blocks: Option<u64>,
    name: String,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    Snapshot(SnapshotId),
    Attempt(AttemptId),
}

/// Longest name of a snapshot, in bytes.
const NAME: usize = 1024;

/// What a replica's entry in the catalog takes besides what it carries and its bitmaps.
const ENTRY: u64 = 512;

impl Pool {
    pub(super) fn admit_change(&mut self, request: RequestId, what: Request) -> Result<(), Error> {
        let change = match what {
            Request::Grow { blocks } => return self.admit_grow(request, blocks),
            Request::Checkpoint => {
                self.admit_checkpoint(request);
                return Ok(());
            }
            Request::Export => {
                self.admit_export(request);
                return Ok(());
            }
            Request::Note { replica, note } => Change::Note { replica, note },
            Request::Create(new) => Change::Create(new),
            Request::Delete { replica } => Change::Delete { replica },
            Request::Resize { replica, blocks } => Change::Resize { replica, blocks },
            Request::Snapshot { replica, snapshot, attempt, roster, blocks, name } => {
                let snapshot = NewSnapshot { replica, snapshot, attempt, roster, blocks, name };
                Change::Snapshot { snapshot, is_synced: false }
            }
            Request::AbortSnapshot { replica, attempt } => {
                Change::Discard { replica, which: Which::Attempt(attempt) }
            }
            Request::DeleteSnapshot { replica, snapshot } => {
                Change::Discard { replica, which: Which::Snapshot(snapshot) }
            }
            Request::Carry { replica, revision, bytes } => {
                Change::Carry { replica, revision, bytes }
            }
            Request::Mark { mark } => Change::Mark { mark },
            Request::Read { .. }
            | Request::Fetch { .. }
            | Request::Hash { .. }
            | Request::Write { .. }
            | Request::Zero { .. }
            | Request::Flush => unreachable!("admitted elsewhere"),
        };
        if change.bytes() > bytes(self.log.size() / 8) {
            return Err(Error::TooLarge);
        }
        let (clusters, access) = (0..u32::MAX, Access::Alone);
        let scope = change.alone().map(|replica| Scope { replica, clusters, access });
        let is_there = |scope: &Scope| self.catalog.replicas.contains_key(&scope.replica);
        let is_gone = scope.as_ref().is_some_and(|scope| !is_there(scope));
        if is_gone && !matches!(change, Change::Discard { .. }) {
            return Err(Error::NotFound);
        }
        let scope = scope.filter(|_| !is_gone);
        self.enter(new_op(Some(request), scope, Work::Change(Box::new(change))));
        Ok(())
    }

    pub(super) fn run_change(&mut self, op: OpId) {
        let Some(Work::Change(change)) = self.ops.get(op).map(|op| &op.work) else { return };
        if self.must_stall(change.bytes()) {
            return self.stall(op);
        }
        if let Change::Snapshot { is_synced: false, .. } = **change {
            return self.sync_for_snapshot(op);
        }
        let change = change.clone();
        match self.change(*change) {
            Err(error) => self.finish(op, Err(error)),
            Ok(None) => self.finish(op, Ok(Reply::Done)),
            Ok(Some(lsn)) => {
                if let Some(op) = self.ops.get_mut(op) {
                    op.work = Work::Recorded;
                }
                self.when_durable(lsn, op);
            }
        }
    }

    /// Everything written before it lies durably in the layer that is frozen.
    fn sync_for_snapshot(&mut self, op: OpId) {
        if let Some(Work::Change(change)) = self.ops.get_mut(op).map(|op| &mut op.work)
            && let Change::Snapshot { is_synced, .. } = &mut **change
        {
            *is_synced = true;
        }
        self.when_synced(Waiter::Op(op));
    }

    /// The batch that must be durable before it is answered, if there is anything.
    fn change(&mut self, change: Change) -> Result<Option<u64>, Error> {
        match change {
            Change::Note { replica, note } => self.note(replica, *note).map(Some),
            Change::Create(new) => self.create(*new).map(Some),
            Change::Delete { replica } => Ok(Some(self.record(&Record::Delete { replica }))),
            Change::Resize { replica, blocks } => self.resize(replica, blocks),
            Change::Snapshot { snapshot, .. } => self.snapshot(snapshot),
            Change::Discard { replica, which } => self.discard(replica, which),
            Change::Carry { replica, revision, bytes } => {
                if replica.is_some_and(|id| !self.catalog.replicas.contains_key(&id)) {
                    return Err(Error::NotFound);
                }
                self.spend_catalog(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
                Ok(Some(self.record(&Record::Carry { replica, revision, bytes })))
            }
            Change::Mark { mark } => Ok(Some(self.record(&Record::Mark { mark }))),
        }
    }

    fn note(&mut self, replica: ReplicaId, note: Note) -> Result<u64, Error> {
        let layer = self.catalog.layer_of(replica).ok_or(Error::NotFound)?;
        let regions = layer.blocks.div_ceil(REGION);
        if !notes::fits(&note, regions) {
            return Err(Error::OutOfRange);
        }
        self.spend_catalog(growth(&note, regions))?;
        Ok(self.record(&Record::Note { replica, note }))
    }

    fn create(&mut self, new: NewReplica) -> Result<u64, Error> {
        let NewReplica { replica, volume, blocks, thin, birth, carried, origin } = new;
        if self.catalog.replicas.contains_key(&replica) {
            return Err(Error::Exists);
        }
        let parent = match origin {
            None => None,
            Some(origin) => {
                let layer = self.snapshot_layer(origin.replica, origin.snapshot);
                Some(layer.ok_or(Error::NotFound)?)
            }
        };
        let frozen = parent.and_then(|id| self.catalog.layers.get(&id)?.frozen.as_ref());
        let least = frozen.map_or(1, |frozen| frozen.blocks);
        if blocks < least || blocks > MOST_BLOCKS {
            return Err(Error::OutOfRange);
        }
        if !thin && u64::from(clusters(blocks)) > self.unreserved() {
            return Err(Error::NoSpace);
        }
        let carries = u64::try_from(carried.1.len()).unwrap_or(u64::MAX);
        self.spend_catalog_for_new(ENTRY + carries + blocks / REGION / 8)?;
        let layer = self.catalog.next_layer;
        let create = Create { replica, volume, layer, parent, blocks, thin, birth, carried };
        Ok(self.record(&Record::Create(create)))
    }

    fn resize(&mut self, replica: ReplicaId, blocks: u64) -> Result<Option<u64>, Error> {
        let before = self.catalog.layer_of(replica).ok_or(Error::NotFound)?.blocks;
        if blocks == before {
            return Ok(None);
        }
        if blocks < before || blocks > MOST_BLOCKS {
            return Err(Error::OutOfRange);
        }
        let thin = self.catalog.replicas.get(&replica).is_none_or(|replica| replica.thin);
        let more = u64::from(clusters(blocks) - clusters(before));
        if !thin && more > self.unreserved() {
            return Err(Error::NoSpace);
        }
        self.spend_catalog_for_new((blocks - before) / REGION / 8)?;
        Ok(Some(self.record(&Record::Resize { replica, blocks })))
    }

    fn snapshot(&mut self, new: NewSnapshot) -> Result<Option<u64>, Error> {
        let NewSnapshot { replica, snapshot, attempt, roster, blocks, name } = new;
        let known = self.catalog.replicas.get(&replica).ok_or(Error::NotFound)?;
        let (volume, thin, layer) = (known.volume, known.thin, known.layer);
        if self.snapshot_layer(Some(replica), snapshot).is_some() {
            return Err(Error::Exists);
        }
        if name.len() > NAME {
            return Err(Error::TooLarge);
        }
        let whole = self.catalog.layers.get(&layer).map_or(0, |layer| layer.blocks);
        let blocks = blocks.unwrap_or(whole);
        if blocks > whole {
            return Err(Error::OutOfRange);
        }
        let again = u64::from(clusters(whole)).saturating_sub(self.reserved_by(replica));
        if !thin && again > self.unreserved() {
            return Err(Error::NoSpace);
        }
        self.spend_catalog_for_new(ENTRY + u64::try_from(name.len()).unwrap_or(u64::MAX))?;
        let discarded = false;
        let frozen = Frozen { replica, volume, snapshot, attempt, roster, blocks, name, discarded };
        let layer = self.catalog.next_layer;
        Ok(Some(self.record(&Record::Snapshot { replica, layer, frozen })))
    }

    fn discard(&mut self, replica: ReplicaId, which: Which) -> Result<Option<u64>, Error> {
        let asked = |frozen: &Frozen| {
            let is_asked = match which {
                Which::Snapshot(snapshot) => frozen.snapshot == snapshot,
                Which::Attempt(attempt) => frozen.attempt == attempt,
            };
            is_asked && !frozen.discarded && frozen.replica == replica
        };
        let layers: Vec<LayerId> = self
            .catalog
            .layers
            .iter()
            .filter(|(_, layer)| layer.frozen.as_ref().is_some_and(asked))
            .map(|(id, _)| *id)
            .collect();
        if layers.is_empty() && matches!(which, Which::Snapshot(_)) {
            return Err(Error::NotFound);
        }
        let mut lsn = None;
        for layer in layers {
            lsn = Some(self.record(&Record::Discard { layer }));
            self.discarded.insert(layer);
        }
        Ok(lsn)
    }

    /// Clusters set aside for a replica that it has not taken.
    pub(super) fn reserved_by(&self, replica: ReplicaId) -> u64 {
        let Some(replica) = self.catalog.replicas.get(&replica).filter(|replica| !replica.thin)
        else {
            return 0;
        };
        let layer = self.catalog.layers.get(&replica.layer);
        layer.map_or(0, |layer| u64::from(clusters(layer.blocks).saturating_sub(layer.map.count())))
    }

    pub(super) fn reserved(&self) -> u64 {
        self.catalog.replicas.keys().map(|replica| self.reserved_by(*replica)).sum()
    }

    /// Clusters that are free, or will be, and are not set aside.
    pub(super) fn unreserved(&self) -> u64 {
        let free = self.clusters.free() + self.clusters.quarantined();
        free.saturating_sub(self.reserved())
    }

    /// What this replica may still take.
    pub(super) fn available(&self, replica: ReplicaId) -> u64 {
        self.unreserved() + self.reserved_by(replica)
    }

    /// The catalog grows by up to so much.
    pub(super) fn spend_catalog(&mut self, bytes: u64) -> Result<(), Error> {
        let most = self.geometry.catalogs[0].blocks.saturating_mul(4_000);
        self.spend(bytes, most)
    }

    /// For what is new a part is kept free, so that what there is can be looked after and deleted.
    fn spend_catalog_for_new(&mut self, bytes: u64) -> Result<(), Error> {
        let most = self.geometry.catalogs[0].blocks.saturating_mul(3_000);
        self.spend(bytes, most)
    }

    fn spend(&mut self, bytes: u64, most: u64) -> Result<(), Error> {
        if self.catalog_bytes.saturating_add(bytes) > most {
            // The bound counts what was replaced meanwhile, too.
            self.measure_catalog();
        }
        let after = self.catalog_bytes.saturating_add(bytes);
        if bytes > 0 && after > most {
            return Err(Error::CatalogFull);
        }
        self.catalog_bytes = after;
        Ok(())
    }

    pub(super) fn measure_catalog(&mut self) {
        let pages = u64::try_from(self.clusters.pages.len()).unwrap_or(u64::MAX);
        let bytes = u64::try_from(self.catalog.encode(&[]).len()).unwrap_or(u64::MAX);
        self.catalog_bytes = bytes.saturating_add(pages.saturating_mul(8));
    }

    pub fn header(&self, replica: ReplicaId) -> Option<&Header> {
        Some(&self.catalog.replicas.get(&replica)?.header)
    }
}

impl Change {
    /// The replica on which it runs alone.
    fn alone(&self) -> Option<ReplicaId> {
        match self {
            Self::Snapshot { snapshot, .. } => Some(snapshot.replica),
            // An aborted snapshot: behind the snapshot that it takes back, should that still wait.
            Self::Delete { replica } | Self::Discard { replica, which: Which::Attempt(_) } => {
                Some(*replica)
            }
            _ => None,
        }
    }

    /// At most, in the journal.
    fn bytes(&self) -> u64 {
        let len = match self {
            Self::Note { note, .. } => encoded(note) + 17,
            Self::Create(new) => new.carried.1.len() + 256,
            Self::Carry { bytes, .. } => bytes.len() + 64,
            Self::Snapshot { snapshot, .. } => snapshot.name.len() + 256,
            Self::Delete { .. } | Self::Resize { .. } | Self::Mark { .. } => 64,
            Self::Discard { .. } => 512,
        };
        u64::try_from(len).unwrap_or(u64::MAX)
    }
}

/// How much larger a note can make a header of so many regions.
fn growth(note: &Note, regions: u64) -> u64 {
    let count = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
    let bitmaps = match note {
        Note::Dirty { lacked_by, .. } => 1 + count(lacked_by.len()),
        // Its place is there already, and there is one with almost every flush.
        Note::Flushed { .. } => return 0,
        _ => 0,
    };
    count(encoded(note)).saturating_add(bitmaps.saturating_mul(regions / 8 + 8))
}

fn encoded(note: &Note) -> usize {
    let mut out = Vec::new();
    notes::put_note(&mut out, note);
    out.len()
}
