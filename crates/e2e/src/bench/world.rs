//! Engines, the stand-in for the controller, and hosts on threads of their own.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use disk::{
    Client, Options, Uri,
    bench::{Bench, Pattern, Speed},
};
use e2e::{
    brain::{Brain, Seen},
    plan::{Plan, VOLUME},
};
use model::Bytes;
use store::embedded::Embedded;

use crate::fleet::Fleet;

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000e2e00";
const SIZE: Bytes = Bytes(256 << 20);
const PATIENCE: Duration = Duration::from_mins(1);

/// Where pools are.
#[derive(Clone, Copy, Debug)]
pub enum Medium {
    Memory,
    File,
}

impl Medium {
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
        }
    }

    pub fn folder(self, given: &Path) -> PathBuf {
        match self {
            Self::Memory => "/dev/shm".into(),
            Self::File => given.into(),
        }
    }
}

/// How many copies, and whether the target is on a node that has none.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub replicas: usize,
    pub has_bare: bool,
}

pub struct World {
    fleet: Fleet,
    brain: Brain,
    uri: Uri,
    _folder: tempfile::TempDir,
}

impl World {
    /// Returns when every block was written once.
    pub async fn start(binary: &Path, within: &Path, shape: Shape) -> Result<Self> {
        let folder = tempfile::tempdir_in(within)?;
        let path = folder.path();
        let disks: Vec<_> = (0..shape.replicas).map(|at| path.join(format!("disk{at}"))).collect();
        for disk in &disks {
            uring::Disk::create(disk, SIZE.0 * 3 / 2 + (64 << 20)).context("making a disk")?;
        }
        let records = path.join("store");
        std::fs::create_dir(&records)?;
        let has_bare = shape.has_bare;
        let plan = Plan { disks, has_bare, size: SIZE, host_nqn: NQN.into() };
        let brain = Brain::start(plan, Embedded::open(&records)?).await?;
        let engines = shape.replicas + usize::from(has_bare);
        let mut fleet = Fleet::new(binary, path, &brain.address, engines)?;
        fleet.core = Some(super::ENGINES);
        for at in 0..engines {
            fleet.start(at)?;
        }
        brain.until("every copy healthy", PATIENCE, Seen::is_whole).await?;
        let uri = Uri { addresses: fleet.addresses(), nqn: engine::nqn(VOLUME.0) };
        let world = Self { fleet, brain, uri, _folder: folder };
        world.fill().await?;
        Ok(world)
    }

    async fn fill(&self) -> Result<()> {
        self.host(|mut client| Ok(disk::bench::fill(&mut client)?)).await
    }

    /// Something that a host does, on a thread of its own.
    async fn host<T: Send + 'static>(
        &self,
        work: impl FnOnce(Client) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let uri = self.uri.clone();
        let connected = move || work(connect(&uri)?);
        tokio::task::spawn_blocking(connected).await?
    }

    pub async fn bench(&self, bench: &Bench) -> Result<Speed> {
        let bench = bench.clone();
        self.host(move |mut client| Ok(disk::bench::run(&mut client, &bench)?)).await
    }

    /// One host writes as much as it can, another one reads.
    pub async fn read_behind_writes(&self) -> Result<Speed> {
        let writes = bench_of(128, true, Duration::from_secs(2));
        let reads = bench_of(1, false, Duration::from_millis(1_500));
        let (written, read) = tokio::join!(self.bench(&writes), self.bench(&reads));
        written?;
        read
    }

    /// A copy that missed everything comes back while a host works: MiB per second, and the host.
    pub async fn rebuild(&mut self) -> Result<(f64, Speed)> {
        let seat = self.brain.seen.borrow().seat.context("no target")?;
        let target = self.fleet.at(seat.node);
        let other = usize::from(target == 0);
        self.fleet.kill(other)?;
        let is_less = |seen: &Seen| seen.is_serving && !seen.is_whole();
        self.brain.until("a copy less", PATIENCE, is_less).await?;
        self.fill().await?;
        let before = self.fleet.copied(target).await?;
        let is_over = Arc::new(AtomicBool::new(false));
        self.fleet.start(other)?;
        let began = Instant::now();
        let foreground = {
            let is_over = Arc::clone(&is_over);
            self.host(move |client| foreground(client, &is_over))
        };
        let healed = async {
            let whole = self.brain.until("every copy healthy", PATIENCE, Seen::is_whole).await;
            let took = began.elapsed();
            is_over.store(true, Ordering::Relaxed);
            whole.map(|_| took)
        };
        let (foreground, took) = tokio::join!(foreground, healed);
        let copied = self.fleet.copied(target).await? - before;
        let mib = f64::from(u32::try_from(copied >> 20)?);
        Ok((mib / took?.as_secs_f64(), foreground?))
    }
}

/// Reads and writes by turns until told otherwise; the slowest of both kinds count.
fn foreground(mut client: Client, is_over: &AtomicBool) -> Result<Speed> {
    let mut all: Option<Speed> = None;
    while !is_over.load(Ordering::Relaxed) || all.is_none() {
        for is_write in [false, true] {
            let bench = bench_of(4, is_write, Duration::from_millis(100));
            let speed = disk::bench::run(&mut client, &bench)?;
            all = Some(match all {
                None => speed,
                Some(known) => Speed {
                    commands: known.commands + speed.commands,
                    per_second: f64::midpoint(known.per_second, speed.per_second),
                    bytes_per_second: f64::midpoint(known.bytes_per_second, speed.bytes_per_second),
                    p50: known.p50.max(speed.p50),
                    p99: known.p99.max(speed.p99),
                    max: known.max.max(speed.max),
                },
            });
        }
    }
    all.context("nothing was measured")
}

fn bench_of(depth: usize, is_write: bool, duration: Duration) -> Bench {
    Bench { duration, depth, blocks: 1, is_write, pattern: Pattern::Random, flush_every: 0 }
}

fn connect(uri: &Uri) -> Result<Client> {
    let options = Options { host_nqn: NQN.into(), entries: 129, ..Options::default() };
    Ok(Client::connect(uri, options)?)
}
