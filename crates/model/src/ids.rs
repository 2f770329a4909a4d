//! Typed ids and numbers.
//!
//! An id is never reused: a replacement replica, a pool made again, a volume created again under an
//! old name get new ones. The numbers guard: a revision orders the store, an epoch fences targets,
//! a roster counts membership changes. Mixing two of them does not compile.

use core::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            pub const fn from_u128(value: u128) -> Self {
                Self(Uuid::from_u128(value))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(text).map(Self)
            }
        }
    )*};
}

id! {
    /// A machine that runs an engine.
    NodeId,
    /// A node's storage.
    PoolId,
    /// One copy of a volume, in one pool.
    ReplicaId,
    /// What a user asked for.
    VolumeId,
    /// A frozen image of a volume.
    SnapshotId,
    /// A machine that consumes volumes.
    HostId,
    /// One try of a user to publish a volume or to take a snapshot.
    AttemptId,
    /// One life of an engine or host process.
    InstanceId,
    /// Given when a store is founded, and again by `recover`.
    Era,
}

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize,
            Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            pub const ZERO: Self = Self(0);

            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

number! {
    /// The store's version: every committed transaction has one, and later ones have higher ones.
    Revision,
    /// Fences targets: one value names one target in one process instance.
    Epoch,
    /// Counts the membership changes of a volume's replicas.
    Roster,
}
