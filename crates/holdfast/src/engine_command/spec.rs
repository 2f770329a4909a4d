//! What a stand-alone engine serves, as a file says it.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use block::BLOCK;
use engine::Served;
use model::Bytes;
use serde::Deserialize;
use uuid::Uuid;

use super::identity;

/// How long a predecessor that was killed may take to let its files go.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    pub(super) listen: Option<SocketAddr>,
    pub(super) admin: Option<SocketAddr>,
    /// Where the membership records of volumes are kept.
    pub(super) state: Option<PathBuf>,
    #[serde(default, rename = "device")]
    pub(super) devices: Vec<Device>,
    #[serde(default, rename = "volume")]
    pub(super) volumes: Vec<Volume>,
}

/// Something that is served as it is: one of the three.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Device {
    name: String,
    id: Option<Uuid>,
    memory: Option<String>,
    nothing: Option<String>,
    file: Option<PathBuf>,
}

/// A mirrored volume: one replica in the pool on each disk.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) id: Option<Uuid>,
    size: String,
    pub(super) disks: Vec<PathBuf>,
    /// Space is taken when it is written.
    #[serde(default = "yes")]
    pub(super) thin: bool,
    /// The names of the hosts that may connect; any host, if there are none.
    #[serde(default)]
    pub(super) hosts: BTreeSet<String>,
}

fn yes() -> bool {
    true
}

/// The largest volume: what a pool's map can name, with room to spare.
const MOST: u64 = 1 << 46;

impl Spec {
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", file.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let spec: Self = toml::from_str(text)?;
        if spec.devices.is_empty() && spec.volumes.is_empty() {
            bail!("nothing to serve: write a [[device]] or a [[volume]]");
        }
        let mut ids = BTreeSet::new();
        for (name, id) in spec.exports() {
            if name.is_empty() || !ids.insert(id) {
                bail!("two exports are called {name:?}, or one has no name");
            }
        }
        for volume in &spec.volumes {
            volume.check().with_context(|| format!("volume {:?}", volume.name))?;
        }
        Ok(spec)
    }

    /// The name and the id of everything that is served.
    pub(super) fn exports(&self) -> Vec<(String, Uuid)> {
        let devices = self.devices.iter().map(|device| (device.name.clone(), device.id()));
        let volumes = self.volumes.iter().map(|volume| (volume.name.clone(), volume.id()));
        devices.chain(volumes).collect()
    }
}

impl Device {
    fn id(&self) -> Uuid {
        self.id.unwrap_or_else(|| identity::named("device", &self.name))
    }

    pub(super) fn open(&self) -> Result<Served> {
        let words = || format!("device {:?}", self.name);
        let device = self.open_device().with_context(words)?;
        if device.blocks() == 0 {
            bail!("{}: smaller than one block of {BLOCK} bytes", words());
        }
        Ok(Served { nqn: engine::nqn(self.id()), uuid: self.id(), device })
    }

    fn open_device(&self) -> Result<engine::Device> {
        let blocks = |text: &str| text.parse::<Bytes>().map(|size| size.0 / BLOCK as u64);
        Ok(match (&self.memory, &self.nothing, &self.file) {
            (Some(size), None, None) => {
                engine::Device::memory(blocks(size)?).context("so much memory cannot be had")?
            }
            (None, Some(size), None) => engine::Device::nothing(blocks(size)?),
            (None, None, Some(file)) => {
                engine::Device::File(uring::Disk::open_within(file, BUSY_PATIENCE)?)
            }
            _ => bail!("say one of memory = \"SIZE\", nothing = \"SIZE\", file = \"PATH\""),
        })
    }
}

impl Volume {
    pub(super) fn id(&self) -> Uuid {
        self.id.unwrap_or_else(|| identity::named("volume", &self.name))
    }

    /// Rounded up to whole blocks.
    pub(super) fn size(&self) -> Result<Bytes> {
        let size: Bytes = self.size.parse()?;
        if size.0 == 0 || size.0 > MOST {
            bail!("a size from one block to {}", Bytes(MOST));
        }
        Ok(Bytes(size.0.next_multiple_of(BLOCK as u64)))
    }

    fn check(&self) -> Result<()> {
        self.size()?;
        let unique: BTreeSet<_> = self.disks.iter().collect();
        if self.disks.is_empty() || unique.len() < self.disks.len() {
            bail!("name its disks, each once");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_names_devices_and_volumes() {
        let text = r#"
            listen = "127.0.0.1:4420"
            state = "state"
            [[device]]
            name = "ram"
            memory = "1MiB"
            [[volume]]
            name = "data"
            size = "5000"
            disks = ["a", "b"]
            hosts = ["nqn.x"]
        "#;
        let spec = Spec::parse(text).unwrap();
        assert_eq!(spec.devices[0].open().unwrap().device.blocks(), 256);
        assert_eq!(spec.volumes[0].size().unwrap(), Bytes(8192));
        assert!(spec.volumes[0].thin);
        assert_eq!(spec.volumes[0].hosts, BTreeSet::from(["nqn.x".to_owned()]));
    }

    #[test]
    fn what_cannot_be_served_is_refused_with_a_reason() {
        let volume = |rest: &str| format!("[[volume]]\nname = \"v\"\n{rest}");
        for (text, reason) in [
            ("", "nothing to serve"),
            ("colour = 1", "unknown field"),
            (&volume("size = \"0\"\ndisks = [\"a\"]"), "a size from"),
            (&volume("size = \"1GiB\"\ndisks = []"), "name its disks"),
            (&volume("size = \"1GiB\"\ndisks = [\"a\", \"a\"]"), "each once"),
            (&volume("size = \"99999999TiB\"\ndisks = [\"a\"]"), "size"),
        ] {
            let error = format!("{:#}", Spec::parse(text).unwrap_err());
            assert!(error.contains(reason), "{text}: {error}");
        }
        let two = "[[device]]\nname = \"a\"\nmemory = \"1MiB\"\nnothing = \"1MiB\"";
        let error = Spec::parse(two).unwrap().devices[0].open().unwrap_err();
        assert!(format!("{error:#}").contains("say one of"), "{error:#}");
        let none = "[[device]]\nname = \"a\"\nmemory = \"1KiB\"";
        assert!(Spec::parse(none).unwrap().devices[0].open().is_err());
    }
}
