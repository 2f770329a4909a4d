//! The nouns of Holdfast: what is stored, what is observed, what is sent, and the words for people.
//!
//! One type per concept. `Volume { meta, spec, layout }` is what is stored, served and printed;
//! there is no second shape of it. Nothing here decides: `plan` does.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod limits;

mod ids;
mod meta;
mod names;
mod observed;
mod units;

mod cluster;
mod device;
mod event;
mod host;
mod membership;
#[cfg(feature = "next-build")]
pub mod next;
mod node;
mod path;
mod pool;
mod replica;
mod share;
mod snapshot;
mod switchover;
mod target;
mod tombstone;
mod topology;
mod volume;

mod capability;
mod config;
mod inventory;
mod key;
mod record;
mod status;
mod txn;
pub mod validate;
mod wait;

pub use capability::{needs, unmet};
pub use cluster::{Cluster, Mark, SCHEMA, Term};
pub use config::{
    Admission, ChildItem, ConfigHead, EngineError, HostConfig, HostPart, NodeConfig, NodePart,
    PathItem, PoolItem, ReplicaItem, Scope, ShareItem, SnapshotItem, TargetItem, VolumePart,
};
pub use device::BlockDevice;
pub use event::{Event, EventKind, Severity};
pub use host::{Host, HostLayout, HostSpec};
pub use ids::*;
pub use inventory::{
    ChildSeen, Difference, HostInventory, Inventory, PoolHealth, PoolSeen, ReplicaHealth,
    ReplicaSeen, ShareSeen, SnapshotSeen, TargetHealth, TargetSeen,
};
pub use key::{Key, Subject, UnknownKey};
pub use membership::{FlushMark, Membership, Reserved};
pub use meta::{Extra, Labels, Meta};
pub use names::{controller_range, nqn};
pub use node::{Liveness, Node, NodeLayout, NodeSpec};
pub use observed::Observed;
pub use path::{PathFailure, PathHealth, PathSeen};
pub use pool::{Pool, PoolLayout, PoolSpec, PoolStage};
pub use record::{Record, Undecodable};
pub use replica::{Replica, ReplicaStage};
pub use share::{ShareLayout, ShareSpec, ShareStage};
pub use snapshot::{Snapshot, SnapshotLayout, SnapshotSpec, SnapshotStage};
pub use status::{Health, Status};
pub use switchover::{Next, Seen, Switchover, SwitchoverCause, SwitchoverStage};
pub use target::{Target, TargetRef, TargetStage};
pub use tombstone::{Buried, Tombstone};
pub use topology::Topology;
pub use txn::{Change, Compare, Entry, Expect, LeaseId, Txn, Write};
pub use units::{Bytes, Millis, Time};
pub use validate::Invalid;
pub use volume::{
    Access, HostStage, Policy, Promotion, Publication, Publish, Volume, VolumeLayout, VolumeSpec,
    VolumeStage,
};
pub use wait::{Cause, Wait};
