//! One run: a cluster comes up, is struck, heals, and is judged.

use std::{
    fmt,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use disk::Ledger;
use local::{Binary, Cluster, Folder, Member, Network, Ports, Shape};
use model::Bytes;
use tokio::{task::spawn_blocking, time::sleep};

use super::{
    Application, Asking, CONTROLLERS, Chaos, Random, Report, Watcher,
    application::{Place, Tempo},
    report::Ending,
    schedule,
};

/// The store and what starts everything.
#[derive(Clone, Debug)]
pub struct Bed {
    pub binary: PathBuf,
    pub network: Network,
    pub store: Store,
    pub nodes: u16,
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

const READY_WITHIN: Duration = Duration::from_secs(40);
/// For everything to be whole again when nobody is struck any more, on a busy machine.
const HEALED_WITHIN: Duration = Duration::from_secs(90);
const SIZE: Bytes = Bytes::mib(64);
/// By name, copies.
const VOLUMES: [(&str, u8); 2] = [("three", 3), ("two", 2)];
const EVERY: Duration = Duration::from_millis(3);

/// Strikes for this long; what it came to. If something is wrong, everything is kept.
pub async fn strike(bed: &Bed, seed: u64, length: Duration) -> Result<Report> {
    let folder = tempfile::Builder::new().prefix("hf-").tempdir()?;
    let ended = run(bed, seed, length, &folder.path().join("data")).await;
    if ended.is_err() {
        println!("seed {seed}: everything is kept in {}", folder.keep().display());
    }
    ended
}

impl Bed {
    /// A new cluster with a pool on every node, everybody well.
    pub async fn make(&self, path: &std::path::Path) -> Result<Cluster> {
        let ports = Ports::unused()?;
        let shape = Shape { nodes: self.nodes, pool_size: Bytes::mib(1024), ports };
        let folder = Folder::open(path, shape)?;
        let own = Binary::own(&folder.path)?;
        let (path, network) = (self.binary.clone(), self.network);
        let mut binary = Binary { path, network, takes_faults: true, ..own };
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

async fn run(bed: &Bed, seed: u64, length: Duration, path: &std::path::Path) -> Result<Report> {
    let cluster = bed.make(path).await?;
    let asking = Asking::of(&cluster)?;
    let mut random = Random::new(seed);
    let mut applications = Vec::new();
    for (name, copies) in VOLUMES {
        let place = attach(&cluster, &asking, name, copies).await?;
        let tempo = Tempo { every: EVERY, depth: 64, seed: random.below(u64::MAX) };
        applications.push(Application::start(place, tempo));
    }
    let watcher = Watcher::start(&cluster, asking.clone())?;
    let members = cluster.members();
    let planned = schedule::schedule(seed, &members, length, bed.network == Network::Namespaces);
    let mut chaos = Chaos::new(cluster);
    let mut failed = None;
    chaos
        .carry_out(&planned, &watcher, || {
            failed =
                failed.take().or_else(|| applications.iter_mut().find_map(Application::has_ended));
            failed.is_none()
        })
        .await?;
    if let Some((place, ended)) = failed {
        ended.with_context(|| format!("on volume {}", place.volume))?;
        bail!("the application on volume {} ended early", place.volume);
    }
    let over = Instant::now();
    let healed = heal(&mut chaos, &asking).await;
    let healed_in = over.elapsed();
    let ended = applications.into_iter().map(|app| app.end(HEALED_WITHIN));
    let ended = ended.collect::<Result<Vec<_>>>();
    healed?;
    let (places, sights): (Vec<_>, Vec<_>) = ended?.into_iter().unzip();
    let found = watcher.found();
    drop(watcher);
    let blocks = judge(places).await?;
    asking.healed(HEALED_WITHIN).await?;
    let doctor = doctor(&chaos.cluster)?;
    let crashes = chaos.crashes();
    ensure!(crashes.is_empty(), "these crashed: {crashes:?}");
    chaos.cluster.stop_all()?;
    Ok(Report::new(&chaos.struck, &sights, Ending { blocks, found, healed_in, doctor }))
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

async fn heal(chaos: &mut Chaos, asking: &Asking) -> Result<()> {
    let healing = asking.healed(HEALED_WITHIN);
    tokio::pin!(healing);
    loop {
        tokio::select! {
            healed = &mut healing => return healed,
            () = sleep(Duration::from_millis(100)) => chaos.keep()?,
        }
    }
}

/// Reads every block of every volume; how many there are.
async fn judge(places: Vec<Place>) -> Result<u64> {
    spawn_blocking(move || {
        let check = |mut place: Place| place.check(HEALED_WITHIN);
        places.into_iter().map(check).sum::<Result<u64>>()
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
