//! Unknown is a value.

use serde::{Deserialize, Serialize};

/// What is known of something outside. A rule matches all three: what was not heard is neither
/// there nor gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observed<T> {
    /// Looked for under a parent that is present, late enough to count, and not there.
    Absent,
    #[default]
    Unknown,
    Present(T),
}

impl<T> Observed<T> {
    pub fn present(self) -> Option<T> {
        match self {
            Self::Present(value) => Some(value),
            Self::Absent | Self::Unknown => None,
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Observed<U> {
        match self {
            Self::Absent => Observed::Absent,
            Self::Unknown => Observed::Unknown,
            Self::Present(value) => Observed::Present(f(value)),
        }
    }

    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    pub fn is_present_and(self, claim: impl FnOnce(T) -> bool) -> bool {
        self.present().is_some_and(claim)
    }
}
