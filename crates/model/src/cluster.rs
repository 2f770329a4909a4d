//! The identity of a store, and the history by which pools recognise it.

use alloc::{string::String, vec::Vec};

use serde::{Deserialize, Serialize};

use crate::{Era, Extra, InstanceId, Revision};

/// The schema of stored shapes this build writes. An older controller does not lead on a newer one.
#[cfg(not(feature = "next-build"))]
pub const SCHEMA: u32 = 1;
#[cfg(feature = "next-build")]
pub const SCHEMA: u32 = 2;

/// One record per store: who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    pub era: Era,
    pub schema: u32,
    /// Eras that `recover` replaced by this one: their pools are ours and take the new era.
    #[serde(default)]
    pub former: Vec<Era>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// One leader's time in office; its key is written when it takes the lead. The revisions at which
/// terms were created divide the store's history, so that a pool that has seen a revision of a term
/// the store does not know, or beyond that term's end, has seen a history which this store lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    pub leader: InstanceId,
    /// Where the leader takes users' requests, so that a standby can pass them on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// The newest point of a store's history that a pool has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mark {
    pub era: Era,
    pub term: InstanceId,
    pub revision: Revision,
}
