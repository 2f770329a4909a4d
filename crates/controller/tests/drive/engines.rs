//! Real engines on sparse files. Disks outlive their processes.

use std::{net::SocketAddr, path::PathBuf};

use ::engine::{Records, Settings};
use model::NodeId;

/// A disk that survives the process that uses it.
#[derive(Debug)]
pub struct Disk(tempfile::TempDir);

/// A running engine; dropping it kills it.
#[derive(Debug)]
pub struct Engine {
    pub node: NodeId,
    _process: ::engine::Engine,
}

/// Room for every volume of these tests; nothing is written to most of it.
const SIZE: u64 = 8 << 30;

impl Default for Disk {
    fn default() -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        std::fs::File::create(disk.file()).unwrap().set_len(SIZE).unwrap();
        disk
    }
}

impl Disk {
    fn file(&self) -> PathBuf {
        self.0.path().join("disk")
    }

    pub fn path(&self) -> String {
        self.file().to_str().unwrap().to_owned()
    }
}

impl Engine {
    pub async fn start(number: u128, disk: &Disk, controllers: &[SocketAddr]) -> Self {
        let node = NodeId::from_u128(number);
        let settings = Settings {
            node,
            name: format!("n{number}"),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertise: None,
            admin: None,
            controllers: controllers.iter().map(ToString::to_string).collect(),
            keyring: None,
            disks: vec![disk.file()],
            records: Records::Controllers,
            backend: uring::Backend::Auto,
            takes_faults: false,
            checks_loopback: false,
            times: mirror::Times::default(),
            throttle: mirror::Throttle::default(),
        };
        Self { node, _process: ::engine::start(settings, Vec::new()).await.unwrap() }
    }
}

/// One on each disk.
pub async fn start_all(disks: &[Disk; 3], controllers: &[SocketAddr]) -> Vec<Engine> {
    let mut engines = Vec::new();
    for (number, disk) in (1..).zip(disks) {
        engines.push(Engine::start(number, disk, controllers).await);
    }
    engines
}
