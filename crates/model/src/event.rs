//! One change of state, told to people.

use alloc::string::String;
use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, Subject, Time};

/// An entry of the bounded journal in the store, written by the transaction it tells of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    pub at: Time,
    pub subject: Subject,
    /// The resource's name when it happened: the resource itself may be gone when it is read.
    pub name: String,
    pub kind: EventKind,
    /// What happened and why, in the words of the step.
    pub words: String,
    pub severity: Severity,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum EventKind {
    /// A user's request was accepted.
    Asked,
    /// The planner took a step.
    Stepped,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Severity {
    Normal,
    /// Something is degraded and being cured.
    Warning,
    /// Data may have been lost, or a person is needed. Never removed by the journal's limit alone.
    Loss,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "normal",
            Self::Warning => "warning",
            Self::Loss => "loss",
        })
    }
}
