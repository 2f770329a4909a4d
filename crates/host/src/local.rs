//! What this machine's people and programs need to find: who the host is and where its volumes are.
//!
//! One file in the run folder, replaced as a whole. It also tells a restarted host at which epoch a
//! path was made that the kernel has kept.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use model::{HostId, VolumeId};
use serde::{Deserialize, Serialize};

use crate::Held;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local {
    pub host: HostId,
    pub name: String,
    /// What keeps the paths, in a word.
    pub way: String,
    pub volumes: BTreeMap<VolumeId, Held>,
}

#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("no host runs here: there is no {}", path.display())]
    Absent { path: PathBuf },
    #[error("{} cannot be read", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} does not decode", path.display())]
    Garbled { path: PathBuf, source: serde_json::Error },
}

const FILE: &str = "host.json";

impl Local {
    pub fn read(run: &Path) -> Result<Self, LocalError> {
        let path = run.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| LocalError::Garbled { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(LocalError::Absent { path })
            }
            Err(source) => Err(LocalError::Io { path, source }),
        }
    }

    /// Readers see the old one or the new one, nothing between.
    pub(crate) fn write(&self, run: &Path) -> io::Result<()> {
        let draft = run.join("host.json.new");
        fs::write(&draft, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&draft, run.join(FILE))
    }
}
