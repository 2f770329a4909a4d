//! A volume exported over NFS by one server at a time.
//!
//! ```text
//! Placing ─▶ Fencing ─▶ Attaching ─▶ Mounting ─▶ Starting ─▶ Grace ─▶ Serving
//!    ▲                                                                   │
//!    └────────────── server or its host lost, or moved ◀─ Draining ◀─────┘      Stopping ─▶ (gone)
//! ```
//! `Placing` is the only step that decides who owns the share.

use alloc::string::String;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, HostId, Time};

/// Asked for by a user: export this volume over NFS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShareSpec {
    /// Hosts that mount it: the server stops when the last one leaves.
    #[serde(default)]
    pub consumers: alloc::collections::BTreeSet<HostId>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShareLayout {
    pub server: HostId,
    /// Raised with every placement: the server's write verifier, so that clients send again what an
    /// old server acknowledged without writing.
    pub epoch: u32,
    pub stage: ShareStage,
    pub since: Time,
    /// Address and port of the server, from the moment clients may reclaim.
    #[serde(default)]
    pub endpoint: Option<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum ShareStage {
    /// The server's host is chosen; the hosts before it are not out yet.
    Fencing,
    /// Only this host has a path.
    Attaching,
    Mounting,
    Starting,
    /// Clients of the server before it take back their locks.
    Grace,
    Serving,
    /// A planned move: the server stops, then the share is placed again.
    Draining,
    Stopping,
}
