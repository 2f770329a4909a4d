//! What can be seen of a pool without I/O.

use alloc::{string::String, vec::Vec};

use block::{BLOCK, Extent};
use model::{AttemptId, Bytes, Mark, PoolId, ReplicaId, Revision, Roster, SnapshotId, VolumeId};

use super::Pool;
use crate::{
    Error, Header, Image, PageState,
    geometry::{CLUSTER, Geometry},
    record::LayerId,
};

/// The balance sheet: free, reserved, used and quarantined make up the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    pub capacity: Bytes,
    /// Owned by replicas and snapshots.
    pub used: Bytes,
    /// Set aside for thick replicas and not taken yet.
    pub reserved: Bytes,
    /// What all replicas could take if they were written to whole.
    pub committed: Bytes,
    /// Given back, and not yet known to be so after a crash.
    pub quarantined: Bytes,
    pub free: Bytes,
}

/// What an image takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub own: Bytes,
    /// In the layers below it, which others may share.
    pub ancestors: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaState<'a> {
    pub replica: ReplicaId,
    pub volume: VolumeId,
    pub blocks: u64,
    pub thin: bool,
    pub birth: Option<Mark>,
    pub carried: (Revision, &'a [u8]),
    pub header: &'a Header,
    pub space: Node,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotState {
    pub snapshot: SnapshotId,
    /// The replica it was taken of, which may be gone.
    pub replica: ReplicaId,
    pub volume: VolumeId,
    pub attempt: AttemptId,
    /// Of the volume when it was frozen first.
    pub roster: Roster,
    pub name: String,
    pub blocks: u64,
    pub space: Node,
    /// Its number in this pool, which no other one ever has.
    pub number: u32,
}

impl Pool {
    pub fn id(&self) -> PoolId {
        self.superblock.pool
    }

    pub fn name(&self) -> &str {
        &self.superblock.name
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub fn mark(&self) -> Option<Mark> {
        self.catalog.mark
    }

    /// What the pool keeps of its own record.
    pub fn carried(&self) -> (Revision, &[u8]) {
        (self.catalog.carried.0, &self.catalog.carried.1)
    }

    pub fn stats(&self) -> Stats {
        let (free, quarantined) = (self.clusters.free(), self.clusters.quarantined());
        // What is quarantined may be what a thick replica counts on.
        let reserved = self.reserved().min(free);
        let all = self.catalog.replicas.keys().filter_map(|id| self.catalog.layer_of(*id));
        let committed = all.map(|layer| layer.blocks.div_ceil(CLUSTER)).sum();
        Stats {
            capacity: space(self.clusters.count().into()),
            used: space(self.clusters.owned()),
            reserved: space(reserved),
            committed: space(committed),
            quarantined: space(quarantined),
            free: space(free - reserved),
        }
    }

    pub fn replica(&self, id: ReplicaId) -> Option<ReplicaState<'_>> {
        let replica = self.catalog.replicas.get(&id)?;
        Some(ReplicaState {
            replica: id,
            volume: replica.volume,
            blocks: self.catalog.layers.get(&replica.layer)?.blocks,
            thin: replica.thin,
            birth: replica.birth,
            carried: (replica.carried.0, &replica.carried.1),
            header: &replica.header,
            space: self.space_of(replica.layer),
        })
    }

    pub fn replicas(&self) -> impl Iterator<Item = ReplicaState<'_>> {
        self.catalog.replicas.keys().filter_map(|id| self.replica(*id))
    }

    /// Those that somebody may ask for, oldest first.
    pub fn snapshots(&self) -> impl Iterator<Item = SnapshotState> {
        self.catalog.layers.iter().filter_map(|(id, layer)| {
            let frozen = layer.frozen.as_ref().filter(|frozen| !frozen.discarded)?;
            Some(SnapshotState {
                snapshot: frozen.snapshot,
                replica: frozen.replica,
                volume: frozen.volume,
                attempt: frozen.attempt,
                roster: frozen.roster,
                name: frozen.name.clone(),
                blocks: frozen.blocks,
                space: self.space_of(*id),
                number: *id,
            })
        })
    }

    /// What the pages of an extent read as, in runs.
    pub fn alloc_map(
        &self,
        image: Image,
        extent: Extent,
    ) -> Result<Vec<(Extent, PageState)>, Error> {
        let layer = self.find(image)?;
        self.check_extent(layer, extent)?;
        Ok(self.states(layer, extent))
    }

    /// Runs of an image that may differ from a snapshot below it, and whether there is data; all of
    /// it, if there is no such snapshot.
    pub fn changes(
        &self,
        image: Image,
        since: Option<SnapshotId>,
        extent: Extent,
    ) -> Result<Vec<(Extent, bool)>, Error> {
        let layer = self.find(image)?;
        self.check_image(image, layer, extent)?;
        let (Image::Replica(replica) | Image::Snapshot(replica, _)) = image;
        let base = since.and_then(|since| self.snapshot_layer(Some(replica), since));
        Ok(self.changed(layer, base.filter(|base| self.is_below(*base, layer)), extent))
    }

    /// What the maps say is used: the table must say the same.
    #[cfg(any(test, feature = "simulate"))]
    pub fn walked(&self) -> Bytes {
        space(self.catalog.layers.values().map(|layer| u64::from(layer.map.count())).sum())
    }

    #[cfg(test)]
    pub(crate) fn encoded_catalog(&self) -> Vec<u8> {
        self.catalog.encode(&[])
    }

    fn space_of(&self, layer: LayerId) -> Node {
        let owned = |id| self.catalog.layers.get(&id).map_or(0, |layer| layer.map.count());
        let parent = |id| self.catalog.layers.get(&id).and_then(|layer| layer.parent);
        let below = core::iter::successors(parent(layer), |id| parent(*id));
        Node {
            own: space(owned(layer).into()),
            ancestors: space(below.map(|id| u64::from(owned(id))).sum()),
        }
    }
}

fn space(clusters: u64) -> Bytes {
    Bytes(clusters * CLUSTER * BLOCK as u64)
}
