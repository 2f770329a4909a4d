//! A record: the typed value of a key, and its bytes.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};

use crate::{
    Cluster, Event, Host, Key, Membership, Node, Pool, Revision, Snapshot, Term, Tombstone, Volume,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Cluster(Cluster),
    /// Who leads: the leader's instance.
    Leader(crate::InstanceId),
    Term(Term),
    Node(Box<Node>),
    Pool(Box<Pool>),
    Volume(Box<Volume>),
    Membership(Box<Membership>),
    Snapshot(Box<Snapshot>),
    Host(Box<Host>),
    Tombstone(Box<Tombstone>),
    /// The id that holds a name.
    Name(String),
    Event(Box<Event>),
}

/// A record that does not decode: that one resource is quarantined, nothing else stops.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored bytes of {key} do not decode: {reason}")]
pub struct Undecodable {
    pub key: String,
    pub reason: String,
}

impl Record {
    pub fn decode(key: &Key, bytes: &[u8], revision: Revision) -> Result<Self, Undecodable> {
        macro_rules! read {
            ($variant:ident) => {
                serde_json::from_slice(bytes).map(Self::$variant)
            };
        }
        let mut decoded = match key {
            Key::Cluster => read!(Cluster),
            Key::Leader => read!(Leader),
            Key::Term(_) => read!(Term),
            Key::Node(_) => read!(Node),
            Key::Pool(_) => read!(Pool),
            Key::Volume(_) => read!(Volume),
            Key::Membership(_) => read!(Membership),
            Key::Snapshot(_) => read!(Snapshot),
            Key::Host(_) => read!(Host),
            Key::Tombstone(..) => read!(Tombstone),
            Key::Name(..) => read!(Name),
            Key::Event(_) => read!(Event),
        }
        .map_err(|error| Undecodable { key: key.to_string(), reason: error.to_string() })?;
        decoded.set_revision(revision);
        match decoded.key() {
            Some(own) if own != *key => Err(Undecodable {
                key: key.to_string(),
                reason: alloc::format!("it is the record of {own}"),
            }),
            _ => Ok(decoded),
        }
    }

    /// The bytes to store.
    ///
    /// # Panics
    /// Never for our own types: none has a map with keys that are not text.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = match self {
            Self::Cluster(record) => serde_json::to_vec(record),
            Self::Leader(record) => serde_json::to_vec(record),
            Self::Term(record) => serde_json::to_vec(record),
            Self::Node(record) => serde_json::to_vec(record),
            Self::Pool(record) => serde_json::to_vec(record),
            Self::Volume(record) => serde_json::to_vec(record),
            Self::Membership(record) => serde_json::to_vec(record),
            Self::Snapshot(record) => serde_json::to_vec(record),
            Self::Host(record) => serde_json::to_vec(record),
            Self::Tombstone(record) => serde_json::to_vec(record),
            Self::Name(record) => serde_json::to_vec(record),
            Self::Event(record) => serde_json::to_vec(record),
        };
        let bytes = bytes.expect("our types encode");
        #[cfg(feature = "next-build")]
        let bytes = widened(bytes);
        bytes
    }

    /// The key this record must be stored under, where the record itself tells.
    pub fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Cluster(_) => Key::Cluster,
            Self::Leader(_) => Key::Leader,
            Self::Node(node) => Key::Node(node.meta.id),
            Self::Pool(pool) => Key::Pool(pool.meta.id),
            Self::Volume(volume) => Key::Volume(volume.meta.id),
            Self::Membership(membership) => Key::Membership(membership.volume),
            Self::Snapshot(snapshot) => Key::Snapshot(snapshot.meta.id),
            Self::Host(host) => Key::Host(host.meta.id),
            Self::Tombstone(tombstone) => Key::Tombstone(tombstone.node, tombstone.buried),
            Self::Term(_) | Self::Name(_) | Self::Event(_) => return None,
        })
    }

    pub fn set_revision(&mut self, revision: Revision) {
        match self {
            Self::Node(node) => node.meta.revision = revision,
            Self::Pool(pool) => pool.meta.revision = revision,
            Self::Volume(volume) => volume.meta.revision = revision,
            Self::Membership(membership) => membership.revision = revision,
            Self::Snapshot(snapshot) => snapshot.meta.revision = revision,
            Self::Host(host) => host.meta.revision = revision,
            Self::Tombstone(tombstone) => tombstone.revision = revision,
            Self::Cluster(_) | Self::Leader(_) | Self::Term(_) | Self::Name(_) | Self::Event(_) => {
            }
        }
    }
}

#[cfg(feature = "next-build")]
fn widened(bytes: Vec<u8>) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice(&bytes) else { return bytes };
    crate::next::widen_stored(&mut value);
    serde_json::to_vec(&value).unwrap_or(bytes)
}

#[cfg(test)]
mod tests;
