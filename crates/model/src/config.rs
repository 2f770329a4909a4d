//! What a controller tells an engine or a host: everything it must have, nothing to choose.
//!
//! A config is a pure function of stored records. Its generation is the store revision that it was
//! computed at: same revision, same bytes. Each part is keyed by the record it comes from, so that
//! a difference names what changed.

use alloc::{boxed::Box, collections::BTreeMap, collections::BTreeSet, string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{
    AttemptId, Bytes, Epoch, Era, HostId, InstanceId, Key, NodeId, Pool, PoolId, ReplicaId,
    Revision, SnapshotId, Volume, VolumeId,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigHead {
    /// An engine refuses another era than that of its pools.
    pub era: Era,
    /// The leader's term that computed it: pools remember it with the generation.
    pub term: InstanceId,
    /// The process it is for: any other one refuses it.
    pub instance: InstanceId,
    pub generation: Revision,
    pub scope: Scope,
    /// Eras that this one replaced: pools of these take the new era.
    pub former: Vec<Era>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// Everything: what is not named is not wanted (and still not destroyed: see `Tombstone`).
    Whole,
    /// Only what changed since `base`; refused by a process that is not at `base`.
    Difference { base: Revision },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeConfig {
    pub head: ConfigHead,
    /// By the record each part comes from; `None` when a difference takes it away.
    pub parts: BTreeMap<Key, Option<NodePart>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodePart {
    Pool(PoolItem),
    Volume(VolumePart),
    /// Where another engine listens, for the replicas that it holds.
    Peer {
        address: String,
    },
    /// The name that a host connects with.
    Host {
        nqn: String,
    },
    /// Named by its key: remove it.
    Tombstone,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolItem {
    pub id: PoolId,
    pub disks: Vec<String>,
    pub must_exist: bool,
    /// Kept in the pool's metadata, for recovery.
    pub carried: Box<Pool>,
}

/// A volume's part on one node: its replicas there, and its target if it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumePart {
    pub volume: VolumeId,
    pub replicas: Vec<ReplicaItem>,
    pub target: Option<TargetItem>,
    /// What an engine must know to make a replica of it or to serve it, by name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub needs: BTreeSet<String>,
    /// Kept in the pool's metadata, so that everything can be rebuilt from pools alone.
    pub carried: Box<Volume>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaItem {
    pub id: ReplicaId,
    pub pool: PoolId,
    pub must_exist: bool,
    pub size: Bytes,
    pub thin: bool,
    /// Made as a clone of this snapshot, which the pool holds.
    pub origin: Option<SnapshotId>,
    /// The target that may use it; older epochs are refused from now on.
    pub admission: Option<Admission>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Admission {
    pub epoch: Epoch,
    /// The node of the only target let in; nobody, if the epoch was raised without a successor.
    pub node: Option<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TargetItem {
    pub epoch: Epoch,
    pub instance: InstanceId,
    /// False: flush, record a clean shutdown, stop.
    pub serve: bool,
    pub size: Bytes,
    pub children: Vec<ChildItem>,
    /// Only these hosts are let in; sessions of others are closed and drained.
    pub hosts: BTreeSet<HostId>,
    pub snapshots: Vec<SnapshotItem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChildItem {
    pub replica: ReplicaId,
    pub node: NodeId,
    /// It may be copied to now if it is not healthy.
    pub rebuild: bool,
    /// It is to be taken out of the membership.
    pub retire: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SnapshotItem {
    pub snapshot: SnapshotId,
    pub name: String,
    pub attempt: AttemptId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostConfig {
    pub head: ConfigHead,
    pub parts: BTreeMap<Key, Option<HostPart>>,
}

/// A volume's part on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPart {
    pub volume: VolumeId,
    /// Connect this, wait until it is live, then drop every other path of the volume. `None`: keep
    /// what there is, nothing serves for now.
    pub path: Option<PathItem>,
    pub share: Option<ShareItem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathItem {
    pub node: NodeId,
    /// Where its engine listens.
    pub address: String,
    pub epoch: Epoch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareItem {
    pub epoch: u32,
    /// False: stop the server and unmount.
    pub serve: bool,
}

impl ConfigHead {
    /// Whether a process takes it: not if it is for another one, of an era that did not follow from
    /// those that it knows, older than what is applied, or a difference that does not fit.
    pub fn check(
        &self,
        instance: InstanceId,
        applied: Option<&Self>,
        mut eras: impl Iterator<Item = Era>,
    ) -> Result<(), EngineError> {
        if self.instance != instance {
            return Err(EngineError::OtherInstance { instance });
        }
        let known = |era: Era| era == self.era || self.former.contains(&era);
        let era = applied.map(|head| head.era);
        if !era.is_none_or(known) || !eras.all(known) {
            return Err(EngineError::OtherEra);
        }
        let at = applied.map_or(Revision::ZERO, |head| head.generation);
        // A new era may begin on a store that counts from further back.
        if era.is_none_or(|era| era == self.era) && self.generation < at {
            return Err(EngineError::Older { at });
        }
        match self.scope {
            Scope::Difference { base } if base != at => Err(EngineError::NeedsWhole { at }),
            _ => Ok(()),
        }
    }
}

/// Why an engine or a host did not take a config, or did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum EngineError {
    /// It is at `at`, so a difference from another base does not fit: send it whole.
    #[error("a difference from another base than {at}: the whole config is needed")]
    NeedsWhole { at: Revision },
    #[error("older than {at}, which is applied")]
    Older { at: Revision },
    #[error("for another process than {instance}")]
    OtherInstance { instance: InstanceId },
    #[error("of another era than that of the pools")]
    OtherEra,
    #[error("the engine cannot be reached: {reason}")]
    Unreachable { reason: String },
}
