//! A cluster to be struck: made on either store, with volumes that are attached and filled.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use disk::Ledger;
use local::{Binary, Cluster, Folder, Member, Network, Ports, Shape};
use model::Bytes;
use tokio::task::spawn_blocking;

use crate::{application::Place, asking::Asking};

/// Two with etcd; an embedded store has one.
pub const CONTROLLERS: u16 = 2;
const READY_WITHIN: Duration = Duration::from_secs(40);
pub const SIZE: Bytes = Bytes::mib(64);

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct Bed {
    pub binary: PathBuf,
    pub network: Network,
    pub store: Store,
    pub nodes: u16,
    pub pool_size: Bytes,
    /// What controllers are told besides.
    pub controller_words: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Embedded,
    Etcd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stores {
    Embedded,
    Etcd,
    Both,
}

impl Stores {
    pub fn each(self) -> &'static [Store] {
        match self {
            Self::Embedded => &[Store::Embedded],
            Self::Etcd => &[Store::Etcd],
            Self::Both => &[Store::Embedded, Store::Etcd],
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Etcd => "etcd",
        })
    }
}

impl Bed {
    /// A new cluster with a pool on every node, everybody well.
    pub async fn make(&self, path: &Path) -> Result<Cluster> {
        let ports = Ports::unused()?;
        let shape = Shape { nodes: self.nodes, pool_size: self.pool_size, ports };
        let folder = Folder::open(path, shape)?;
        let own = Binary::own(&folder.path)?;
        let (path, network) = (self.binary.clone(), self.network);
        let controller_words = self.controller_words.clone();
        let mut binary = Binary { path, network, takes_faults: true, controller_words, ..own };
        if self.store == Store::Etcd {
            binary = Binary { controllers: CONTROLLERS, ..binary.with_etcd(ports) };
        }
        let mut cluster = Cluster::new(folder, binary);
        if self.store == Store::Etcd {
            cluster.start(Member::Etcd)?;
            cluster.store_answers(READY_WITHIN).await?;
        }
        cluster.start_all()?;
        cluster.ready(READY_WITHIN).await?;
        cluster.make_pools().await?;
        Ok(cluster)
    }
}

/// Makes a volume, attaches it and fills it.
pub async fn attach(cluster: &Cluster, asking: &Asking, name: &str, copies: u8) -> Result<Place> {
    asking.make_volume(name, SIZE, copies).await?;
    asking.publish(name).await?;
    let volume = asking.volume(name).await?.volume.meta.id;
    let run = cluster.folder.path.join(Member::Host(1).to_string());
    let file = cluster.folder.path.join(format!("{name}.ledger"));
    let blocks = SIZE.0 / block::BLOCK as u64;
    let ledger = Ledger::create(&file, u64::from(copies), blocks)?;
    let mut place = Place { volume, run, ledger };
    spawn_blocking(move || {
        place.fill(READY_WITHIN)?;
        Ok(place)
    })
    .await?
}

/// What `holdfast doctor` says of the cluster, which must be good.
pub fn doctor(cluster: &Cluster) -> Result<String> {
    let mut command = Command::new(&cluster.binary.path);
    let said = command.args(["doctor", "--server", &cluster.url()]).output()?;
    let words = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    ensure!(said.status.success(), "the doctor found something:\n{words}\n{errors}");
    Ok(words)
}
