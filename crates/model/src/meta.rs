//! What every stored resource carries besides its spec and layout.

use alloc::{collections::BTreeMap, string::String};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Revision, Time};

/// Fields of a newer version, kept as they are so that an older controller's write loses nothing.
pub type Extra = BTreeMap<String, serde_json::Value>;

/// Labels of a resource: topology, ownership, whatever users sort by.
pub type Labels = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Meta<Id> {
    pub id: Id,
    pub name: String,
    #[serde(default)]
    pub labels: Labels,
    /// Counts changes of the spec alone. Users' preconditions compare it, so that the planner's
    /// writes never give them a false conflict.
    #[serde(default)]
    pub spec_revision: u64,
    #[serde(default)]
    pub created: Time,
    /// The store revision that last wrote the record: given by the store, not part of the bytes.
    #[serde(skip)]
    pub revision: Revision,
    #[serde(flatten)]
    pub extra: Extra,
}

impl<Id> Meta<Id> {
    pub fn new(id: Id, name: impl Into<String>, created: Time) -> Self {
        Self {
            id,
            name: name.into(),
            labels: Labels::new(),
            spec_revision: 1,
            created,
            revision: Revision::ZERO,
            extra: Extra::new(),
        }
    }
}
