//! Where each record lives in the store, and what a plan is about.

use alloc::{format, string::String, string::ToString};
use core::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Buried, Epoch, HostId, NodeId, PoolId, ReplicaId, SnapshotId, VolumeId};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Cluster,
    /// Bound to the leader's lease; its create revision guards the leader's writes.
    Leader,
    Term(u64),
    Node(NodeId),
    Pool(PoolId),
    Volume(VolumeId),
    Membership(VolumeId),
    Snapshot(SnapshotId),
    Host(HostId),
    Tombstone(NodeId, Buried),
    /// A name in use, by kind: makes names unique by compare-and-swap.
    Name(String, String),
    Event(u64),
}

/// A resource that rules plan for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Subject {
    Cluster,
    Node(NodeId),
    Pool(PoolId),
    Volume(VolumeId),
    Snapshot(SnapshotId),
    Host(HostId),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no key of this version")]
pub struct UnknownKey(pub String);

impl Key {
    pub fn name(kind: &str, name: &str) -> Self {
        Self::Name(kind.to_string(), name.to_string())
    }

    /// The record of a resource itself.
    pub const fn of(subject: Subject) -> Self {
        match subject {
            Subject::Cluster => Self::Cluster,
            Subject::Node(id) => Self::Node(id),
            Subject::Pool(id) => Self::Pool(id),
            Subject::Volume(id) => Self::Volume(id),
            Subject::Snapshot(id) => Self::Snapshot(id),
            Subject::Host(id) => Self::Host(id),
        }
    }

    /// The resource whose plan depends on this record.
    pub const fn subject(&self) -> Option<Subject> {
        Some(match self {
            Self::Cluster | Self::Term(_) => Subject::Cluster,
            Self::Node(id) | Self::Tombstone(id, _) => Subject::Node(*id),
            Self::Pool(id) => Subject::Pool(*id),
            Self::Volume(id) | Self::Membership(id) => Subject::Volume(*id),
            Self::Snapshot(id) => Subject::Snapshot(*id),
            Self::Host(id) => Subject::Host(*id),
            Self::Leader | Self::Name(..) | Self::Event(_) => return None,
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::Leader => f.write_str("leader"),
            // Twenty digits, so that keys sort as numbers do.
            Self::Term(number) => write!(f, "term/{number:020}"),
            Self::Node(id) => write!(f, "node/{id}"),
            Self::Pool(id) => write!(f, "pool/{id}"),
            Self::Volume(id) => write!(f, "volume/{id}"),
            Self::Membership(id) => write!(f, "membership/{id}"),
            Self::Snapshot(id) => write!(f, "snapshot/{id}"),
            Self::Host(id) => write!(f, "host/{id}"),
            Self::Tombstone(node, buried) => write!(f, "tombstone/{node}/{buried}"),
            Self::Name(kind, name) => write!(f, "name/{kind}/{name}"),
            Self::Event(number) => write!(f, "event/{number:020}"),
        }
    }
}

impl FromStr for Key {
    type Err = UnknownKey;

    fn from_str(text: &str) -> Result<Self, UnknownKey> {
        parse(text).ok_or_else(|| UnknownKey(text.to_string()))
    }
}

fn parse(text: &str) -> Option<Key> {
    let (kind, rest) = text.split_once('/').unwrap_or((text, ""));
    Some(match kind {
        "cluster" if rest.is_empty() => Key::Cluster,
        "leader" if rest.is_empty() => Key::Leader,
        "term" => Key::Term(rest.parse().ok()?),
        "node" => Key::Node(rest.parse().ok()?),
        "pool" => Key::Pool(rest.parse().ok()?),
        "volume" => Key::Volume(rest.parse().ok()?),
        "membership" => Key::Membership(rest.parse().ok()?),
        "snapshot" => Key::Snapshot(rest.parse().ok()?),
        "host" => Key::Host(rest.parse().ok()?),
        "tombstone" => {
            let (node, buried) = rest.split_once('/')?;
            Key::Tombstone(node.parse().ok()?, buried.parse().ok()?)
        }
        "name" => {
            let (kind, name) = rest.split_once('/')?;
            Key::name(kind, name)
        }
        "event" => Key::Event(rest.parse().ok()?),
        _ => return None,
    })
}

impl fmt::Display for Buried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target { volume, epoch } => write!(f, "target/{volume}/{epoch}"),
            Self::Replica { replica, pool } => write!(f, "replica/{replica}/{pool}"),
            Self::Snapshot { snapshot, replica, pool } => {
                write!(f, "snapshot/{snapshot}/{replica}/{pool}")
            }
            Self::Pool { pool } => write!(f, "pool/{pool}"),
        }
    }
}

impl FromStr for Buried {
    type Err = UnknownKey;

    fn from_str(text: &str) -> Result<Self, UnknownKey> {
        let refused = || UnknownKey(text.to_string());
        let mut parts = text.split('/');
        let kind = parts.next().ok_or_else(refused)?;
        let mut id = || parts.next().and_then(|id| id.parse().ok()).ok_or_else(refused);
        let buried = match kind {
            "replica" => Self::Replica { replica: ReplicaId(id()?), pool: PoolId(id()?) },
            "snapshot" => Self::Snapshot {
                snapshot: SnapshotId(id()?),
                replica: ReplicaId(id()?),
                pool: PoolId(id()?),
            },
            "pool" => Self::Pool { pool: PoolId(id()?) },
            "target" => {
                let volume = VolumeId(id()?);
                let epoch = parts.next().and_then(|epoch| epoch.parse().ok());
                Self::Target { volume, epoch: Epoch(epoch.ok_or_else(refused)?) }
            }
            _ => return Err(refused()),
        };
        if parts.next().is_some() { Err(refused()) } else { Ok(buried) }
    }
}

impl Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error: UnknownKey| serde::de::Error::custom(format!("{error}")))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::Node(id) => write!(f, "node {id}"),
            Self::Pool(id) => write!(f, "pool {id}"),
            Self::Volume(id) => write!(f, "volume {id}"),
            Self::Snapshot(id) => write!(f, "snapshot {id}"),
            Self::Host(id) => write!(f, "host {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_reads_back_as_it_was_written() {
        let node = NodeId::from_u128(7);
        let pool = PoolId::from_u128(8);
        let replica = ReplicaId::from_u128(9);
        let volume = VolumeId::from_u128(10);
        let snapshot = SnapshotId::from_u128(11);
        let keys = [
            Key::Cluster,
            Key::Leader,
            Key::Term(3),
            Key::Node(node),
            Key::Pool(pool),
            Key::Volume(volume),
            Key::Membership(volume),
            Key::Snapshot(snapshot),
            Key::Host(HostId::from_u128(12)),
            Key::Tombstone(node, Buried::Target { volume, epoch: Epoch(4) }),
            Key::Tombstone(node, Buried::Replica { replica, pool }),
            Key::Tombstone(node, Buried::Snapshot { snapshot, replica, pool }),
            Key::Tombstone(node, Buried::Pool { pool }),
            Key::name("volume", "a/b"),
            Key::Event(42),
        ];
        for key in keys {
            assert_eq!(key.to_string().parse::<Key>(), Ok(key));
        }
    }

    #[test]
    fn a_key_of_another_version_is_named_in_the_error() {
        for text in ["", "leader/x", "node/x", "tombstone/x", "moon/1"] {
            assert_eq!(text.parse::<Key>(), Err(UnknownKey(text.into())));
        }
    }
}
