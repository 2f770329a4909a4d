//! The membership record: which copies of a volume are good, and who may say so.
//!
//! The one place where data leads control. The engine that serves the target owns the record while
//! it serves; the controller writes it only together with the layout: at creation, when it raises
//! the epoch, and while no target owns it.

use alloc::{collections::BTreeMap, string::String};

use serde::{Deserialize, Serialize};

use crate::{Epoch, Extra, InstanceId, ReplicaId, Revision, Roster, VolumeId};

/// A flush of a volume. A target numbers its flushes, and each target has a higher epoch than the
/// one before: later ones are greater, for ever.
///
/// A replica makes the mark durable together with the flush. So one that has a lower mark than
/// somebody knows of it was set back to an older image of its disk, and lacks what it once had.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct FlushMark {
    pub epoch: Epoch,
    /// Counted from one by the target of this epoch.
    pub number: u64,
}

impl FlushMark {
    /// Of a replica that no target ever flushed.
    pub const NONE: Self = Self { epoch: Epoch::ZERO, number: 0 };
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Membership {
    pub volume: VolumeId,
    /// The only epoch whose target may write this record. A target that reads a higher one than its
    /// own shuts itself down.
    pub epoch: Epoch,
    /// The process that claimed `epoch`.
    #[serde(default)]
    pub owner: Option<InstanceId>,
    pub roster: Roster,
    /// The last target was shut down cleanly: all healthy copies are equal.
    pub clean: bool,
    /// While set, only this copy counts as healthy: the others may differ from it.
    #[serde(default)]
    pub resync_source: Option<ReplicaId>,
    /// No copy was intact: writes that were acknowledged but not flushed may be gone.
    #[serde(default)]
    pub unflushed_lost: bool,
    /// Every member, and whether it holds all acknowledged writes.
    pub children: BTreeMap<ReplicaId, bool>,
    /// The last flush that each member is known to have made durable, as of this record: a healthy
    /// one that has less was set back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flushed: BTreeMap<ReplicaId, FlushMark>,
    /// What hosts have reserved: it goes with the volume wherever its target is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Reserved>,
    #[serde(skip)]
    pub revision: Revision,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Hosts' reservations, as the target that decides about them writes them down.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reserved {
    /// They outlive a loss of power, as a host asked for.
    pub lasts: bool,
    /// Hexadecimal; only targets read it.
    pub state: String,
}

impl Membership {
    /// The record of a volume that nobody has written to: every copy is blank, so all are equal.
    pub fn founded(volume: VolumeId, replicas: impl IntoIterator<Item = ReplicaId>) -> Self {
        Self {
            volume,
            epoch: Epoch::ZERO,
            owner: None,
            roster: Roster(1),
            clean: true,
            resync_source: None,
            unflushed_lost: false,
            children: replicas.into_iter().map(|replica| (replica, true)).collect(),
            flushed: BTreeMap::new(),
            reserved: None,
            revision: Revision::ZERO,
            extra: Extra::new(),
        }
    }

    /// No target ever took it: nothing was written, and its replicas know of no roster.
    pub fn is_unclaimed(&self) -> bool {
        self.roster <= Roster(1)
    }

    /// Whether this copy may be read, copied from, and counted.
    pub fn is_healthy(&self, replica: ReplicaId) -> bool {
        self.resync_source.is_none_or(|source| source == replica)
            && self.children.get(&replica).copied().unwrap_or(false)
    }

    pub fn healthy(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.children.keys().copied().filter(|replica| self.is_healthy(*replica))
    }

    /// The least that this copy must have flushed, if it was not set back.
    pub fn flushed(&self, replica: ReplicaId) -> FlushMark {
        self.flushed.get(&replica).copied().unwrap_or_default()
    }

    /// Recorded as holding every acknowledged write, whether or not a resync is under way.
    pub fn is_recorded_healthy(&self, replica: ReplicaId) -> bool {
        self.children.get(&replica).copied().unwrap_or(false)
    }
}
