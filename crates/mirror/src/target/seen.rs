//! What the control plane and people get to see.

use alloc::collections::BTreeSet;

use model::{ChildSeen, HostId, ReplicaId, SnapshotId, TargetHealth, TargetSeen};

use super::{
    Phase, Target,
    child::{Child, Stand, Wish},
};
use crate::Fault;

/// Something that happened, for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    Serving,
    /// A healthy replica is to be excluded.
    Lost {
        replica: ReplicaId,
        why: Why,
    },
    Excluded {
        replica: ReplicaId,
    },
    /// A replica is back, for what it missed or for everything.
    Returned {
        replica: ReplicaId,
        is_partial: bool,
    },
    Admitted {
        replica: ReplicaId,
    },
    /// Its disk is an older image of itself: it is copied whole.
    SetBack {
        replica: ReplicaId,
    },
    SelfFenced,
    /// Acknowledged writes that were not flushed may be gone.
    UnflushedLost,
    /// The store knows less than the replicas.
    RecordOlder,
    SnapshotFailed {
        snapshot: SnapshotId,
    },
    /// A replica got a snapshot that was taken while it was away.
    SnapshotBrought {
        replica: ReplicaId,
        snapshot: SnapshotId,
    },
}

/// Why a replica was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    Unreachable,
    Silent,
    /// It came back as another instance.
    Restarted,
    Faulted,
    NoSpace,
    Retired,
}

impl From<Fault> for Why {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NoSpace => Self::NoSpace,
            _ => Self::Faulted,
        }
    }
}

impl<D: Clone> Target<D> {
    pub fn seen(&self) -> TargetSeen {
        let health = match &self.phase {
            Phase::Reading
            | Phase::Fencing { .. }
            | Phase::Flushing
            | Phase::Claiming
            | Phase::Settling { .. } => TargetHealth::Starting,
            Phase::Serving | Phase::Stopping | Phase::Stopped => TargetHealth::Serving,
            Phase::Fenced => TargetHealth::Fenced,
            Phase::Failed(reason) => TargetHealth::Failed { reason: (*reason).into() },
        };
        let kept = self.children.values().filter(|child| !self.has_retired(child));
        TargetSeen {
            epoch: self.epoch,
            health,
            size: self.item.size,
            hosts: self.attached(),
            children: kept.map(|child| (child.id, self.child_seen(child))).collect(),
            failed_snapshots: self.failed_snapshots.clone(),
            taken_snapshots: self.taken_snapshots(),
        }
    }

    /// Hosts with a connection, or with a command that is not drained.
    pub fn attached(&self) -> BTreeSet<HostId> {
        let mut hosts = self.hosts.all();
        hosts.extend(self.ops.values().filter_map(|op| op.host));
        hosts
    }

    /// Nothing under way can make it healthy any more.
    fn has_retired(&self, child: &Child<D>) -> bool {
        child.wish == Wish::Retire
            && child.stand == Stand::Absent
            && !self.record.is_recorded_healthy(child.id)
    }

    fn child_seen(&self, child: &Child<D>) -> ChildSeen {
        let is_copied_to =
            matches!(child.stand, Stand::Imaging | Stand::Rebuilding | Stand::Joining);
        let is_syncing = child.stand == Stand::Healthy && !child.lacks.is_empty();
        let copied = (is_copied_to || is_syncing).then(|| self.percent(child.lacks.count()));
        ChildSeen { copied, is_full: child.is_full, instance: child.instance }
    }

    /// How much of a volume is copied when this many regions are not.
    pub(super) fn percent(&self, lacked: u64) -> u8 {
        let all = self.geometry.count(self.blocks()).max(1);
        let done = all.saturating_sub(lacked);
        u8::try_from(done * 100 / all).unwrap_or(100)
    }
}
