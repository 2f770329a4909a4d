//! A node's block device: what a pool can be made on.

use alloc::{string::String, vec::Vec};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Bytes;

/// A whole disk, as the kernel of its node tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockDevice {
    pub name: String,
    pub path: String,
    pub size: Bytes,
    #[serde(default)]
    pub model: Option<String>,
    #[serde(default)]
    pub serial: Option<String>,
    #[serde(default)]
    pub rotational: bool,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub removable: bool,
    /// The smallest part of it that can be written.
    #[serde(default)]
    pub logical_block: Bytes,
    /// Where it, or a partition of it, is mounted.
    #[serde(default)]
    pub mounted_at: Vec<String>,
    /// What is built upon it, or upon a partition of it: volume groups, arrays, loops.
    #[serde(default)]
    pub held_by: Vec<String>,
    /// Paths of its partitions.
    #[serde(default)]
    pub partitions: Vec<String>,
}

impl BlockDevice {
    /// Whether something else lives on it. A partition table alone counts.
    pub fn is_in_use(&self) -> bool {
        !(self.mounted_at.is_empty() && self.held_by.is_empty() && self.partitions.is_empty())
    }
}
