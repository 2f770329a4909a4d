//! What users may ask for, and the transactions that make it durable.
//!
//! A request never does the work: it validates, and writes a spec (creation writes the first layout
//! too, so that of two creates that fit only once, one is refused). What follows is planned.

mod difference;
mod node;
mod pool;
mod snapshot;
mod volume;

use alloc::{
    boxed::Box,
    collections::BTreeSet,
    format,
    string::{String, ToString},
    vec::Vec,
};

use model::{
    AttemptId, Buried, Bytes, Extra, HostId, Invalid, Key, Labels, Millis, NodeId, PoolId,
    PoolSpec, Promotion, Publish, Record, ReplicaId, Revision, SnapshotId, Subject, Time, Txn,
    Undecodable, VolumeId, VolumeSpec,
};

pub use self::{
    difference::{FieldDifference, volume_differences},
    volume::volume_users,
};
use crate::World;

/// One request. Ids are made by the client, so that a repeated one is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    CreatePool {
        id: PoolId,
        name: String,
        labels: Labels,
        spec: PoolSpec,
    },
    DeletePool {
        pool: PoolId,
    },
    ForgetPool {
        pool: PoolId,
    },
    LabelNode {
        node: NodeId,
        labels: Labels,
    },
    CordonNode {
        node: NodeId,
        cordoned: bool,
    },
    DrainNode {
        node: NodeId,
        draining: bool,
    },
    ForgetNode {
        node: NodeId,
    },
    CreateVolume {
        id: VolumeId,
        name: String,
        labels: Labels,
        spec: Box<VolumeSpec>,
    },
    DeleteVolume {
        volume: VolumeId,
        with_snapshots: bool,
        /// Also while hosts have it.
        force: bool,
    },
    ResizeVolume {
        volume: VolumeId,
        size: Bytes,
    },
    ScaleVolume {
        volume: VolumeId,
        replicas: u8,
    },
    PublishVolume {
        volume: VolumeId,
        attempt: AttemptId,
        deadline: Time,
        hosts: BTreeSet<HostId>,
    },
    UnpublishVolume {
        volume: VolumeId,
        host: HostId,
        force: bool,
    },
    ShareVolume {
        volume: VolumeId,
        consumers: BTreeSet<HostId>,
    },
    PromoteVolume {
        volume: VolumeId,
        attempt: AttemptId,
        replica: Option<ReplicaId>,
        accept_data_loss: bool,
    },
    /// Try out what happens when the target is lost.
    DrillVolume {
        volume: VolumeId,
        drill: Drill,
    },
    CreateSnapshot {
        id: SnapshotId,
        name: String,
        volume: VolumeId,
        attempt: AttemptId,
        deadline: Time,
    },
    DeleteSnapshot {
        snapshot: SnapshotId,
    },
    /// Start a new era from what the pools carry. Volumes whose newest copies are not all here come
    /// back only if named.
    Recover {
        era: model::Era,
        accept_data_loss: BTreeSet<VolumeId>,
    },
}

/// A drill changes no spec: it is told, and its strike is sent when that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drill {
    /// End the target at once, as its death would.
    Strike { on_last_copy: bool },
    /// What came of it, in words.
    Report { words: String },
}

/// Why a request was not accepted. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("there is no {what}")]
    NotFound { what: String },
    #[error("the name {name:?} is taken by {by}")]
    NameTaken { name: String, by: String },
    /// Who read an older spec reads again, and sees what somebody else has changed.
    #[error("the spec is at revision {now}, not {seen}: read it again")]
    StaleSpec { now: u64, seen: u64 },
    /// The resource is not as the request supposes, or is being deleted.
    #[error("conflict: {why}")]
    Conflict { why: String },
    /// A create of what is there already, and is not as asked for.
    #[error(
        "{what} exists, made {age} ago, and is not as asked for: {}; it was left as it is",
        sentence(.differences)
    )]
    Exists { what: String, age: Millis, differences: Vec<FieldDifference> },
    /// It is well formed, but cannot be done now; `why` says what would have to change.
    #[error("{why}")]
    Impossible { why: String },
    /// It depends on a record that does not decode, and so on what nobody knows.
    #[error("{why}; look at the record with `holdfast doctor`")]
    Unreadable { why: String },
    #[error("in use by {by}")]
    InUse { by: String },
    #[error(
        "the controller is read-only: {why}; give it the right store, or start a new era from what \
         the pools carry with `holdfast recover`"
    )]
    ReadOnly { why: String },
    #[error("this controller does not lead")]
    NotLeading,
    #[error("the store is unavailable")]
    StoreUnavailable,
}

fn sentence(differences: &[FieldDifference]) -> String {
    let parts: Vec<String> = differences.iter().map(ToString::to_string).collect();
    parts.join("; ")
}

/// A request was made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub revision: Revision,
    pub words: Vec<String>,
}

/// The transaction that accepts a request; empty if everything is already as asked for. `if_spec`
/// is the revision of the spec that the user saw, if the request depends on it.
///
/// `Recover` is not among them: see `recover`.
pub fn admit(world: &World, request: &Request, if_spec: Option<u64>) -> Result<Txn, Refusal> {
    if let Some(why) = world.read_only() {
        return Err(Refusal::ReadOnly { why: why.into() });
    }
    refuse_unreadable(world, &Key::of(request.subject()))?;
    check_spec(world, request.subject(), if_spec)?;
    match request {
        Request::CreatePool { id, name, labels, spec } => {
            pool::create(world, *id, name, labels, spec)
        }
        Request::DeletePool { pool } => pool::delete(world, *pool),
        Request::ForgetPool { pool } => pool::forget(world, *pool),
        Request::LabelNode { node, labels } => node::label(world, *node, labels),
        Request::CordonNode { node, cordoned } => {
            node::change(world, *node, |record| record.spec.cordoned = *cordoned)
        }
        Request::DrainNode { node, draining } => {
            node::change(world, *node, |record| record.spec.draining = *draining)
        }
        Request::ForgetNode { node } => node::forget(world, *node),
        Request::CreateVolume { id, name, labels, spec } => {
            volume::create(world, *id, name, labels, spec)
        }
        Request::DeleteVolume { volume, with_snapshots, force } => {
            refuse_users(world, *volume, *force)?;
            volume::delete(world, *volume, *with_snapshots)
        }
        Request::ResizeVolume { volume, size } => volume::resize(world, *volume, *size),
        Request::ScaleVolume { volume, replicas } => volume::scale(world, *volume, *replicas),
        Request::PublishVolume { volume, attempt, deadline, hosts } => {
            let (attempt, deadline, hosts) = (*attempt, *deadline, hosts.clone());
            let publish = Publish { attempt, deadline, hosts, extra: Extra::new() };
            volume::publish(world, *volume, publish)
        }
        Request::UnpublishVolume { volume, host, force } => {
            volume::unpublish(world, *volume, *host, *force)
        }
        Request::ShareVolume { volume, consumers } => volume::share(world, *volume, consumers),
        Request::PromoteVolume { volume, attempt, replica, accept_data_loss } => {
            let promotion = Promotion { attempt: *attempt, replica: *replica };
            volume::promote(world, *volume, promotion, *accept_data_loss)
        }
        Request::DrillVolume { volume, drill } => volume::drill(world, *volume, drill),
        Request::CreateSnapshot { id, name, volume, attempt, deadline } => {
            snapshot::create(world, *id, name, *volume, *attempt, *deadline)
        }
        Request::DeleteSnapshot { snapshot } => snapshot::delete(world, *snapshot),
        Request::Recover { .. } => {
            let why = "the store and the pools agree: there is nothing to recover".into();
            Err(Refusal::Impossible { why })
        }
    }
}

fn refuse_users(world: &World, volume: VolumeId, force: bool) -> Result<(), Refusal> {
    match world.volume(volume) {
        Some(view) if !force && !view.record.spec.deleting => volume::refuse_users(world, view),
        _ => Ok(()),
    }
}

/// What a user saw must be there still, and be the same. The planner's own writes leave the
/// revision of a spec alone, so they never make a conflict here.
pub fn check_spec(world: &World, about: Subject, if_spec: Option<u64>) -> Result<(), Refusal> {
    let Some(seen) = if_spec else { return Ok(()) };
    let found = match about {
        Subject::Node(id) => world.node(id).map(|view| view.record.meta.spec_revision),
        Subject::Pool(id) => world.pools.get(&id).map(|view| view.record.meta.spec_revision),
        Subject::Snapshot(id) => world.snapshots.get(&id).map(|found| found.meta.spec_revision),
        Subject::Volume(id) => world.volume(id).map(|view| view.record.meta.spec_revision),
        Subject::Host(_) | Subject::Cluster => None,
    };
    match found {
        None => Err(Refusal::NotFound { what: about.to_string() }),
        Some(now) if now == seen => Ok(()),
        Some(now) => Err(Refusal::StaleSpec { now, seen }),
    }
}

impl Request {
    /// What it is about.
    pub const fn subject(&self) -> Subject {
        match self {
            Self::CreatePool { id, .. } => Subject::Pool(*id),
            Self::DeletePool { pool } | Self::ForgetPool { pool } => Subject::Pool(*pool),
            Self::LabelNode { node, .. }
            | Self::CordonNode { node, .. }
            | Self::DrainNode { node, .. }
            | Self::ForgetNode { node } => Subject::Node(*node),
            Self::CreateVolume { id, .. } => Subject::Volume(*id),
            Self::DeleteVolume { volume, .. }
            | Self::ResizeVolume { volume, .. }
            | Self::ScaleVolume { volume, .. }
            | Self::PublishVolume { volume, .. }
            | Self::UnpublishVolume { volume, .. }
            | Self::ShareVolume { volume, .. }
            | Self::PromoteVolume { volume, .. }
            | Self::DrillVolume { volume, .. } => Subject::Volume(*volume),
            Self::CreateSnapshot { id, .. } => Subject::Snapshot(*id),
            Self::DeleteSnapshot { snapshot } => Subject::Snapshot(*snapshot),
            Self::Recover { .. } => Subject::Cluster,
        }
    }

    /// What is told of it, in an event.
    pub fn words(&self) -> String {
        match self {
            Self::DrillVolume { drill: Drill::Strike { .. }, .. } => {
                "a drill was asked for: its target is ended on purpose".into()
            }
            Self::DrillVolume { drill: Drill::Report { words }, .. } => words.clone(),
            other => format!("{} was asked for", other.kind()),
        }
    }

    /// Whether it is told although it writes nothing else.
    pub const fn is_told_alone(&self) -> bool {
        matches!(self, Self::DrillVolume { .. })
    }

    /// The name under which requests are counted.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::CreatePool { .. } => "CreatePool",
            Self::DeletePool { .. } => "DeletePool",
            Self::ForgetPool { .. } => "ForgetPool",
            Self::LabelNode { .. } => "LabelNode",
            Self::CordonNode { .. } => "CordonNode",
            Self::DrainNode { .. } => "DrainNode",
            Self::ForgetNode { .. } => "ForgetNode",
            Self::CreateVolume { .. } => "CreateVolume",
            Self::DeleteVolume { .. } => "DeleteVolume",
            Self::ResizeVolume { .. } => "ResizeVolume",
            Self::ScaleVolume { .. } => "ScaleVolume",
            Self::PublishVolume { .. } => "PublishVolume",
            Self::UnpublishVolume { .. } => "UnpublishVolume",
            Self::ShareVolume { .. } => "ShareVolume",
            Self::PromoteVolume { .. } => "PromoteVolume",
            Self::DrillVolume { .. } => "DrillVolume",
            Self::CreateSnapshot { .. } => "CreateSnapshot",
            Self::DeleteSnapshot { .. } => "DeleteSnapshot",
            Self::Recover { .. } => "Recover",
        }
    }
}

/// Takes a name for a new resource.
fn claim_name(
    world: &World,
    txn: Txn,
    kind: &str,
    name: &str,
    id: &impl core::fmt::Display,
) -> Result<Txn, Refusal> {
    if let Some(by) = world.names.get(&(kind.into(), name.into())) {
        return Err(Refusal::NameTaken { name: name.into(), by: format!("{kind} {by}") });
    }
    let key = Key::name(kind, name);
    let read_at = world.revision_of(&key);
    Ok(txn.put(key, Record::Name(format!("{id}")), read_at))
}

/// An id is never used again: a node that has yet to destroy what had it would destroy the new one.
fn refuse_buried(
    world: &World,
    id: &impl core::fmt::Display,
    is_it: impl Fn(&Buried) -> bool,
) -> Result<(), Refusal> {
    let mut buried = world.tombstones().map(|(node, tombstone)| (node, tombstone.buried));
    // The key of a tombstone says what is buried, also if its bytes do not decode.
    let unreadable = world.quarantined.values().filter_map(|found| match found.key.parse() {
        Ok(Key::Tombstone(node, buried)) => Some((node, buried)),
        _ => None,
    });
    let found = buried.find(|(_, buried)| is_it(buried));
    match found.or_else(|| unreadable.into_iter().find(|(_, buried)| is_it(buried))) {
        None => Ok(()),
        Some((node, _)) => {
            let name = world.node(node).map(|view| view.record.meta.name.clone());
            let node = name.unwrap_or_else(|| format!("{node}"));
            let why = format!(
                "id {id} was used before, and node {node} has yet to remove that: make a new id"
            );
            Err(Refusal::Conflict { why })
        }
    }
}

/// Why something that a request names cannot be had: there is none, or its record does not decode.
fn not_found(world: &World, key: &Key) -> Refusal {
    match refuse_unreadable(world, key) {
        Err(refusal) => refusal,
        Ok(()) => Refusal::NotFound { what: format!("{key}").replacen('/', " ", 1) },
    }
}

fn refuse_unreadable(world: &World, key: &Key) -> Result<(), Refusal> {
    world.unreadable(key).map_or(Ok(()), |found| Err(unreadable(found)))
}

fn unreadable(found: &Undecodable) -> Refusal {
    Refusal::Unreadable { why: found.to_string() }
}

/// Refused because of a record that may name what the request is about.
fn may_name(found: &Undecodable, what: &impl core::fmt::Display) -> Refusal {
    Refusal::Unreadable { why: format!("{found}, and it may name {what}") }
}
