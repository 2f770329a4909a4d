//! Where replicas may be, said with labels of nodes and pools.

use alloc::{collections::BTreeSet, string::String};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, Labels};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// No two replicas share a value of any of these labels (`zone`, `rack`).
    #[serde(default)]
    pub spread: BTreeSet<String>,
    /// Only on nodes or pools that carry these labels with these values.
    #[serde(default)]
    pub affinity: Labels,
    #[serde(flatten)]
    pub extra: Extra,
}
