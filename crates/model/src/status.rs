//! What people are told about a resource: derived, never stored, and read by no rule.

use alloc::{string::String, vec::Vec};
use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Derived from what is stored and observed; never stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub health: Health,
    /// What happens next, or why nothing does, most telling first.
    pub words: Vec<String>,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// As it was asked for.
    Healthy,
    /// On its way to that for the first time, or on its way out.
    Pending,
    /// Usable, with less redundancy than asked for, or on its way to another target.
    Degraded,
    /// Cannot be used now.
    Faulted,
    /// Not heard of yet.
    Unknown,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Healthy => "healthy",
            Self::Pending => "pending",
            Self::Degraded => "degraded",
            Self::Faulted => "faulted",
            Self::Unknown => "unknown",
        })
    }
}
