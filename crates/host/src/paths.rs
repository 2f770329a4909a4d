//! The port to whatever keeps paths: the kernel, or our own initiator.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    time::Duration,
};

use model::{NodeId, PathItem, PathSeen, VolumeId};
use serde::{Deserialize, Serialize};

/// Nothing here waits: what takes time goes on elsewhere, rings the bell that the adapter was made
/// with, and shows in the next look.
pub trait Paths: Send + fmt::Debug {
    /// Connects this path and, once it is live, drops every other one of the volume. What the
    /// application has under way is kept and sent again on the new one.
    fn follow(&mut self, volume: VolumeId, path: &PathItem);

    /// Drops every path of the volume, and its device. It is seen until the last one is closed.
    fn leave(&mut self, volume: VolumeId);

    /// What there is now.
    fn look(&mut self) -> BTreeMap<VolumeId, Held>;

    /// Nodes that answered something since this was last asked.
    fn heard(&mut self) -> BTreeSet<NodeId>;

    /// How often to look without being rung for, if that is needed.
    fn look_every(&self) -> Option<Duration>;
}

/// A volume on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub paths: Vec<PathSeen>,
    /// What applications open; `None` until the first path was live.
    pub device: Option<Device>,
}

/// What an application opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    Block { path: PathBuf },
    Nbd { uri: String },
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block { path } => write!(f, "{}", path.display()),
            Self::Nbd { uri } => f.write_str(uri),
        }
    }
}
