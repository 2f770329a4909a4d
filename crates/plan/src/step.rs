//! A step: one change of layout, and why.

use alloc::{collections::BTreeSet, string::String, vec::Vec};
use core::fmt;

use model::{
    AttemptId, Buried, Bytes, Epoch, HostId, InstanceId, NodeId, Replica, ReplicaId, Severity,
    ShareLayout, Subject, SwitchoverCause, SwitchoverStage, Time,
};

use crate::world::Loss;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub subject: Subject,
    pub action: Action,
    pub why: Why,
}

/// What changes. A plan leaves nothing to choose: pool, node, epoch and id are in here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    // Replicas of a volume.
    ConfirmReplicas {
        replicas: Vec<ReplicaId>,
    },
    FinishCreation,
    /// Nothing was ever written to the volume, so a blank copy elsewhere is as good.
    ReplaceBlank {
        old: ReplicaId,
        new: Option<Replica>,
    },
    PlaceReplica {
        replica: Replica,
    },
    MarkGone {
        replica: ReplicaId,
        rebuild_after: Time,
    },
    MarkReturned {
        replica: ReplicaId,
    },
    GrantRebuild {
        replica: ReplicaId,
    },
    EndRebuild {
        replica: ReplicaId,
    },
    RetireReplica {
        replica: ReplicaId,
    },
    /// A retiring copy is needed after all.
    KeepReplica {
        replica: ReplicaId,
    },
    DropReplica {
        replica: ReplicaId,
    },
    Promote {
        replica: ReplicaId,
        attempt: AttemptId,
    },
    // Its size.
    Grow {
        size: Bytes,
    },
    Expose {
        size: Bytes,
    },
    // Its hosts.
    AcceptPublish {
        attempt: AttemptId,
    },
    FinishPublish {
        attempt: AttemptId,
    },
    WithdrawPublish {
        attempt: AttemptId,
        reason: String,
    },
    EndPublication,
    AdmitHost {
        host: HostId,
    },
    ExpelHost {
        host: HostId,
    },
    ReleaseHost {
        host: HostId,
    },
    // Its target.
    IssueTarget {
        node: NodeId,
        instance: InstanceId,
        epoch: Epoch,
    },
    StartTarget,
    ConfirmTarget,
    StopTarget,
    RemoveTarget,
    /// The epoch goes up without a successor: whatever the old target's node does, it is fenced.
    AbandonTarget {
        epoch: Epoch,
    },
    // Its switchover.
    BeginSwitchover {
        cause: SwitchoverCause,
    },
    Republish {
        node: NodeId,
        instance: InstanceId,
        epoch: Epoch,
    },
    AdvanceSwitchover {
        stage: SwitchoverStage,
    },
    BuryTargets,
    FinishSwitchover,
    // Its share.
    PlaceShare {
        share: ShareLayout,
    },
    AdvanceShare {
        share: ShareLayout,
    },
    EndShare,
    DeleteVolume,
    // A snapshot.
    FinishSnapshot {
        copies: BTreeSet<ReplicaId>,
        size: Bytes,
    },
    UpdateCopies {
        copies: BTreeSet<ReplicaId>,
    },
    FailSnapshot {
        reason: String,
    },
    DeleteSnapshot,
    // A pool.
    ConfirmPool,
    DeletePool,
    ForgetPool,
    // A node.
    MarkNodeGone,
    MarkNodeReturned,
    ClearTombstones {
        done: Vec<Buried>,
    },
    CollectOrphan {
        buried: Buried,
    },
    ForgetNode,
    // The cluster.
    PruneTerms {
        terms: Vec<u64>,
    },
}

/// Why a step is taken, with words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    Asked,
    /// What was told to happen was observed.
    Observed,
    Lost(Loss),
    /// Fewer healthy copies than asked for.
    Degraded {
        healthy: usize,
        wanted: usize,
    },
    /// More copies than asked for, and enough healthy ones without this one.
    Surplus {
        wanted: usize,
    },
    Draining {
        node: NodeId,
    },
    Deadline,
    Failed {
        reason: String,
    },
    Switchover(SwitchoverCause),
    Unneeded,
    NeededFor(Need),
    AbsenceProven,
    Limit,
}

/// What a target is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Hosts,
    Repair,
    Snapshot,
}

impl Action {
    /// The name under which steps are counted.
    pub const fn kind(&self) -> &'static str {
        macro_rules! names {
            ($($name:ident),* $(,)?) => {
                match self { $(Self::$name { .. } => stringify!($name),)* }
            };
        }
        names!(
            ConfirmReplicas,
            FinishCreation,
            ReplaceBlank,
            PlaceReplica,
            MarkGone,
            MarkReturned,
            GrantRebuild,
            EndRebuild,
            RetireReplica,
            KeepReplica,
            DropReplica,
            Promote,
            Grow,
            Expose,
            AcceptPublish,
            FinishPublish,
            WithdrawPublish,
            EndPublication,
            AdmitHost,
            ExpelHost,
            ReleaseHost,
            IssueTarget,
            StartTarget,
            ConfirmTarget,
            StopTarget,
            RemoveTarget,
            AbandonTarget,
            BeginSwitchover,
            Republish,
            AdvanceSwitchover,
            BuryTargets,
            FinishSwitchover,
            PlaceShare,
            AdvanceShare,
            EndShare,
            DeleteVolume,
            FinishSnapshot,
            UpdateCopies,
            FailSnapshot,
            DeleteSnapshot,
            ConfirmPool,
            DeletePool,
            ForgetPool,
            MarkNodeGone,
            MarkNodeReturned,
            ClearTombstones,
            CollectOrphan,
            ForgetNode,
            PruneTerms,
        )
    }

    /// Every kind there is, for counting those that never happened.
    pub const KINDS: &'static [&'static str] = &[
        "ConfirmReplicas",
        "FinishCreation",
        "ReplaceBlank",
        "PlaceReplica",
        "MarkGone",
        "MarkReturned",
        "GrantRebuild",
        "EndRebuild",
        "RetireReplica",
        "KeepReplica",
        "DropReplica",
        "Promote",
        "Grow",
        "Expose",
        "AcceptPublish",
        "FinishPublish",
        "WithdrawPublish",
        "EndPublication",
        "AdmitHost",
        "ExpelHost",
        "ReleaseHost",
        "IssueTarget",
        "StartTarget",
        "ConfirmTarget",
        "StopTarget",
        "RemoveTarget",
        "AbandonTarget",
        "BeginSwitchover",
        "Republish",
        "AdvanceSwitchover",
        "BuryTargets",
        "FinishSwitchover",
        "PlaceShare",
        "AdvanceShare",
        "EndShare",
        "DeleteVolume",
        "FinishSnapshot",
        "UpdateCopies",
        "FailSnapshot",
        "DeleteSnapshot",
        "ConfirmPool",
        "DeletePool",
        "ForgetPool",
        "MarkNodeGone",
        "MarkNodeReturned",
        "ClearTombstones",
        "CollectOrphan",
        "ForgetNode",
        "PruneTerms",
    ];

    /// How much a person should care.
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Promote { .. } => Severity::Loss,
            Self::MarkGone { .. }
            | Self::WithdrawPublish { .. }
            | Self::AbandonTarget { .. }
            | Self::BeginSwitchover { .. }
            | Self::FailSnapshot { .. }
            | Self::MarkNodeGone
            | Self::CollectOrphan { .. } => Severity::Warning,
            _ => Severity::Normal,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, because {}", self.subject, self.action, self.why)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConfirmReplicas { replicas } => write!(f, "{} replicas made", replicas.len()),
            Self::ReplaceBlank { old, .. } => write!(f, "blank replica {old} replaced"),
            Self::PlaceReplica { replica } => {
                write!(f, "replica {} placed in pool {}", replica.id, replica.pool)
            }
            Self::MarkGone { replica, rebuild_after } => {
                write!(f, "replica {replica} marked gone, replaced from {rebuild_after} on")
            }
            Self::MarkReturned { replica } => write!(f, "replica {replica} returned"),
            Self::GrantRebuild { replica } => write!(f, "replica {replica} may be rebuilt"),
            Self::EndRebuild { replica } => {
                write!(f, "replica {replica} gave its rebuild slot back")
            }
            Self::RetireReplica { replica } => write!(f, "replica {replica} retired"),
            Self::KeepReplica { replica } => write!(f, "replica {replica} kept after all"),
            Self::DropReplica { replica } => write!(f, "replica {replica} dropped"),
            Self::Promote { replica, .. } => {
                write!(f, "replica {replica} promoted; writes it lacks are lost")
            }
            Self::Grow { size } => write!(f, "replicas grow to {size}"),
            Self::Expose { size } => write!(f, "target shows {size}"),
            Self::WithdrawPublish { reason, .. } => {
                write!(f, "publish attempt withdrawn: {reason}")
            }
            Self::AdmitHost { host } => write!(f, "host {host} admitted"),
            Self::ExpelHost { host } => write!(f, "host {host} told to leave"),
            Self::ReleaseHost { host } => write!(f, "host {host} released"),
            Self::IssueTarget { node, epoch, .. } | Self::Republish { node, epoch, .. } => {
                write!(f, "target of epoch {epoch} issued to node {node}")
            }
            Self::AbandonTarget { epoch } => {
                write!(f, "target abandoned and fenced by epoch {epoch}")
            }
            Self::BeginSwitchover { cause } => write!(f, "switchover begun: {cause}"),
            Self::AdvanceSwitchover { stage } => write!(f, "switchover goes on: {stage}"),
            Self::PlaceShare { share } => write!(f, "share placed on host {}", share.server),
            Self::AdvanceShare { share } => write!(f, "share is {:?}", share.stage),
            Self::FailSnapshot { reason } => write!(f, "snapshot failed: {reason}"),
            Self::ClearTombstones { done } => write!(f, "{} tombstones cleared", done.len()),
            Self::CollectOrphan { buried } => write!(f, "orphan buried: {buried}"),
            other => f.write_str(other.kind()),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("it was asked for"),
            Self::Observed => f.write_str("it was observed"),
            Self::Lost(loss) => write!(f, "{loss}"),
            Self::Degraded { healthy, wanted } => {
                write!(f, "{healthy} of {wanted} copies are healthy")
            }
            Self::Surplus { wanted } => {
                write!(f, "{wanted} healthy copies are wanted and there without it")
            }
            Self::Draining { node } => write!(f, "node {node} is drained"),
            Self::Deadline => f.write_str("its deadline passed"),
            Self::Failed { reason } => f.write_str(reason),
            Self::Switchover(cause) => write!(f, "{cause}"),
            Self::Unneeded => f.write_str("nothing needs it"),
            Self::NeededFor(Need::Hosts) => f.write_str("hosts need it"),
            Self::NeededFor(Need::Repair) => f.write_str("a copy needs repair"),
            Self::NeededFor(Need::Snapshot) => f.write_str("a snapshot needs it"),
            Self::AbsenceProven => f.write_str("the store proves that it was deleted"),
            Self::Limit => f.write_str("a limit was reached"),
        }
    }
}
