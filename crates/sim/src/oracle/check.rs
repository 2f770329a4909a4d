//! Judging the copies of one volume by its record.

use std::collections::BTreeSet;

use model::{Epoch, Key, Membership, NodeId, ReplicaId, VolumeId};

use super::Oracle;
use crate::{
    fakes::disk::{ReplicaDisk, UNKNOWN},
    names,
};

/// What the judge may see: the store's records and every disk.
pub trait Truth {
    fn membership(&self, volume: VolumeId) -> Option<&Membership>;
    fn volume_exists(&self, volume: VolumeId) -> bool;
    /// Removed by a transaction, not by a store that lost its history.
    fn volume_was_deleted(&self, volume: VolumeId) -> bool;
    fn was_buried(&self, tombstone: &Key) -> bool;
    /// The store lost the newer history of its membership, and nobody recovered it yet.
    fn is_set_back(&self, volume: VolumeId) -> bool;
    fn copies(&self) -> &dyn Copies;
    /// Targets of the volume that take writes: node, epoch and the copies they wait for.
    fn serving(&self, volume: VolumeId) -> Vec<(NodeId, Epoch, BTreeSet<ReplicaId>)>;
    /// Nobody could tell the node anything for a while, or it could not hear.
    fn is_out_of_reach(&self, node: NodeId) -> bool;
}

pub trait Copies {
    fn copy(&self, replica: ReplicaId) -> Option<&ReplicaDisk>;
}

impl Oracle {
    /// Judges what changed since the last time.
    pub fn judge(&mut self, truth: &dyn Truth) {
        for volume in core::mem::take(&mut self.touched) {
            self.judge_copies(truth, volume);
            self.judge_targets(truth, volume);
        }
        for gone in core::mem::take(&mut self.destroyed) {
            self.judge_destruction(truth, &gone);
        }
    }

    /// Every copy that counts as healthy holds every acknowledged write.
    fn judge_copies(&mut self, truth: &dyn Truth, volume: VolumeId) {
        let Some(record) = truth.membership(volume) else { return };
        // Who is healthy is in the history that was lost; what is read is judged all the same.
        if truth.is_set_back(volume) {
            return;
        }
        let mut lacking = Vec::new();
        for replica in record.healthy() {
            let Some(copy) = truth.copies().copy(replica) else { continue };
            let known = copy.blocks.iter().enumerate().filter(|(_, value)| **value != UNKNOWN);
            for (block, value) in known {
                let floor = self.floor(volume, block);
                if !self.may_hold(volume, block, floor, *value) {
                    lacking.push(format!(
                        "{} counts as healthy for {}, but block {block} holds {value} and {floor} \
                         was acknowledged",
                        names::label(replica.0),
                        names::label(volume.0),
                    ));
                }
            }
        }
        for words in lacking {
            self.break_promise("healthy-copies-hold-every-acknowledged-write", words);
        }
    }

    /// At most one target can acknowledge: every other one has a copy that refuses it. When a
    /// person gives copies up, nothing is left that could refuse a target beside them which nobody
    /// reaches: that it may still run is what the person was told.
    fn judge_targets(&mut self, truth: &dyn Truth, volume: VolumeId) {
        let given_up = self.volumes.get(&volume).map_or(Epoch::ZERO, |known| known.given_up);
        let able: Vec<_> = truth
            .serving(volume)
            .into_iter()
            .filter(|(node, epoch, _)| *epoch >= given_up || !truth.is_out_of_reach(*node))
            .filter(|(_, epoch, copies)| {
                !copies.is_empty()
                    && copies
                        .iter()
                        .all(|id| truth.copies().copy(*id).is_some_and(|copy| copy.epoch <= *epoch))
            })
            .collect();
        if able.len() > 1 {
            let who: Vec<_> = able
                .iter()
                .map(|(node, epoch, _)| format!("{} at epoch {epoch}", names::label(node.0)))
                .collect();
            let words =
                format!("{} can be written by {}", names::label(volume.0), who.join(" and "));
            self.break_promise("one-target-acknowledges", words);
        }
    }

    /// Data goes only for a tombstone, and only when it does not count.
    fn judge_destruction(&mut self, truth: &dyn Truth, gone: &super::Destroyed) {
        let buried = model::Buried::Replica { replica: gone.replica, pool: gone.pool };
        let label = names::label(gone.replica.0);
        if !truth.was_buried(&Key::Tombstone(gone.node, buried)) {
            let words = format!("replica {label} was destroyed without a tombstone");
            self.break_promise("no-destruction-without-tombstone", words);
        }
        if !truth.volume_exists(gone.volume) {
            if !truth.volume_was_deleted(gone.volume) {
                let words = format!(
                    "replica {label} of {} was destroyed, which nobody deleted",
                    names::label(gone.volume.0)
                );
                self.break_promise("no-destruction-without-deletion", words);
            }
            return;
        }
        let counts = truth
            .membership(gone.volume)
            .is_some_and(|record| record.is_recorded_healthy(gone.replica));
        if counts {
            let words = format!("replica {label} was destroyed while it was recorded healthy");
            self.break_promise("no-destruction-of-healthy-copies", words);
        }
    }
}
