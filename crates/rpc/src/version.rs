//! Which build speaks, and which protocols it understands.

use serde::{Deserialize, Serialize};

/// The version of the program, for people.
#[cfg(not(feature = "next-build"))]
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
#[cfg(feature = "next-build")]
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+next");

/// The protocols that a build understands, as numbers. Fields and messages that may be passed over
/// need no new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaks {
    pub oldest: u32,
    pub newest: u32,
}

impl Speaks {
    #[cfg(not(feature = "next-build"))]
    pub const OWN: Self = Self { oldest: 1, newest: 1 };
    #[cfg(feature = "next-build")]
    pub const OWN: Self = Self { oldest: 1, newest: 2 };

    /// Why this controller and that process cannot talk, and which of them is to be upgraded.
    pub(crate) fn disagreement(self, peer: Self, kind: &str) -> Option<String> {
        let Self { oldest, newest } = self;
        if peer.newest < oldest {
            let least = peer.newest;
            return Some(format!(
                "the {kind} speaks protocol {least} at most, the controller {oldest} at least: \
                 upgrade the {kind}"
            ));
        }
        (peer.oldest > newest).then(|| {
            let least = peer.oldest;
            format!(
                "the {kind} speaks protocol {least} at least, the controller {newest} at most: \
                 upgrade the controllers first"
            )
        })
    }
}

impl Default for Speaks {
    /// Of a greeting that does not say: the first.
    fn default() -> Self {
        Self { oldest: 1, newest: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-6: versions without a common protocol are told apart, and which is the older one.
    #[test]
    fn who_is_to_be_upgraded_is_the_older_one() {
        let controller = Speaks { oldest: 3, newest: 5 };
        let of = |oldest, newest| {
            controller.disagreement(Speaks { oldest, newest }, "engine").unwrap_or_default()
        };
        assert!(of(1, 2).ends_with("upgrade the engine"));
        assert!(of(6, 9).ends_with("upgrade the controllers first"));
        for (oldest, newest) in [(1, 3), (4, 4), (5, 9), (1, 9)] {
            assert_eq!(of(oldest, newest), "");
        }
    }
}
