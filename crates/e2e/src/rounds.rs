//! Strikes, one after the other: each engine in turn, as target and as replica.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use disk::Uri;
use e2e::{
    brain::{Brain, Seen},
    plan::{Plan, VOLUME},
    work::Host,
};
use model::Bytes;
use rustix::process::Signal;
use store::embedded::Embedded;
use tokio::time::sleep;

use crate::{fleet::Fleet, report::Report};

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Strikes on the target, and as many on each replica.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Copies of the volume; both if not given.
    #[arg(long)]
    replicas: Option<usize>,
    #[arg(long, default_value_t = 256)]
    size_mib: u64,
    /// The binary whose engines are struck; else it is built
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000e2e00";
const PATIENCE: Duration = Duration::from_mins(2);
/// The host works in one stretch of this many blocks at a time: 16 MiB, four regions.
const STRETCH: u64 = 4096;

pub fn main(options: &Options) -> Result<()> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let counts = options.replicas.map_or(vec![2, 3], |count| vec![count]);
    let binary = options.binary.clone().map_or_else(e2e::binary::built, Ok)?;
    for replicas in counts {
        let folder = tempfile::tempdir()?;
        let ended = runtime.block_on(run(options, &binary, replicas, folder.path()));
        if ended.is_err() {
            println!("everything is kept in {}", folder.keep().display());
        }
        ended.with_context(|| format!("with {replicas} replicas"))?;
    }
    Ok(())
}

/// How an engine is struck.
#[derive(Clone, Copy, Debug)]
enum Strike {
    /// Killed, and started again once it was noticed.
    Kill,
    /// Killed, and started again at once.
    Restart,
    /// Stopped for so long, then continued.
    Stop(Duration),
    /// Killed, and another one killed before everything is well again.
    Degraded,
}

impl Strike {
    fn of(round: usize) -> Self {
        match round % 5 {
            0 => Self::Kill,
            1 => Self::Degraded,
            2 => Self::Stop(Duration::from_secs(8)),
            3 => Self::Restart,
            _ => Self::Stop(Duration::from_secs(3)),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Kill => "kill -9".into(),
            Self::Restart => "kill -9, started at once".into(),
            Self::Stop(time) => format!("SIGSTOP for {} s", time.as_secs()),
            Self::Degraded => "kill -9, another one while degraded".into(),
        }
    }
}

struct Run {
    brain: Brain,
    fleet: Fleet,
    host: Host,
    replicas: usize,
    size: Bytes,
}

async fn run(options: &Options, binary: &Path, replicas: usize, folder: &Path) -> Result<()> {
    let size = Bytes(options.size_mib << 20);
    let disks: Vec<_> = (0..replicas).map(|at| folder.join(format!("disk{at}"))).collect();
    for disk in &disks {
        std::fs::File::create(disk)?.set_len(size.0 * 3 / 2 + (64 << 20))?;
    }
    let records = folder.join("store");
    std::fs::create_dir(&records)?;
    let plan = Plan { disks, has_bare: false, size, host_nqn: NQN.into() };
    let brain = Brain::start(plan, Embedded::open(&records)?).await?;
    let mut fleet = Fleet::new(binary, folder, &brain.address, replicas)?;
    for at in 0..replicas {
        fleet.start(at)?;
    }
    let uri = Uri { addresses: fleet.addresses(), nqn: engine::nqn(VOLUME.0) };
    let host = Host::start(uri, NQN.into(), folder.join("ledger"));
    let mut run = Run { brain, fleet, host, replicas, size };
    run.brain.until("every copy healthy", PATIENCE, Seen::is_whole).await?;
    run.host.fill().await?;
    let mut report = Report::default();
    for round in 0..options.rounds {
        // The target first, then its replicas.
        for victim in 0..replicas {
            run.strike(round, victim, &mut report).await?;
        }
    }
    run.finish().await?;
    report.print(replicas);
    Ok(())
}

impl Run {
    async fn whole(&self) -> Result<Seen> {
        self.brain.until("every copy healthy", PATIENCE, Seen::is_whole).await
    }

    /// The target's place and what it copied so far.
    async fn copied(&self) -> Result<(model::Epoch, u64)> {
        let seat = self.brain.seen.borrow().seat.context("no target")?;
        Ok((seat.epoch, self.fleet.copied(self.fleet.at(seat.node)).await?))
    }

    async fn strike(&mut self, round: usize, victim: usize, report: &mut Report) -> Result<()> {
        let stretches = (self.size.0 / 4096 / STRETCH).max(1);
        let stretch = u64::try_from(round * self.replicas + victim)? % stretches;
        self.host.begin(stretch * STRETCH..(stretch + 1) * STRETCH)?;
        // What earlier strikes left dirty is called clean meanwhile.
        sleep(Duration::from_secs(3)).await;
        let before = self.copied().await?;
        let seat = self.brain.seen.borrow().seat.context("no target")?;
        let at = (self.fleet.at(seat.node) + victim) % self.replicas;
        let strike = Strike::of(round);
        self.act(strike, at).await?;
        self.whole().await.with_context(|| format!("after {strike:?} on engine {at}"))?;
        let after = self.copied().await?;
        let copied = after.1 - if after.0 == before.0 { before.1 } else { 0 };
        let seen = self.host.end().await?;
        ensure!(seen.writes > 0, "nothing was written");
        ensure!(copied < self.size.0, "a resync copied everything");
        let part = ratio(copied, self.size.0);
        let role = if victim == 0 { "target" } else { "replica" };
        let what = format!("{role}: {}", strike.name());
        let gap = seen.gaps.iter().max().copied().unwrap_or_default();
        println!("round {round} engine {at} {what}: gap {gap:.2?}, copied {:.1} %", part * 100.0);
        report.strike(&what, &seen, part);
        Ok(())
    }

    async fn act(&mut self, strike: Strike, at: usize) -> Result<()> {
        match strike {
            Strike::Kill => {
                self.fleet.kill(at)?;
                let others = self.replicas - 1;
                let is_noticed = |seen: &Seen| seen.is_serving && seen.healthy() <= others;
                self.brain.until("a copy less", PATIENCE, is_noticed).await?;
                self.fleet.start(at)
            }
            Strike::Restart => {
                let record = self.brain.seen.borrow().record.clone().context("no record")?;
                self.fleet.kill(at)?;
                self.fleet.start(at)?;
                // A process is another one after that: the record says so before all is well.
                let is_noticed = move |seen: &Seen| {
                    let is_other = |now: &model::Membership| {
                        (now.epoch, now.roster) != (record.epoch, record.roster)
                    };
                    seen.record.as_ref().is_some_and(is_other)
                };
                self.brain.until("another roster or epoch", PATIENCE, is_noticed).await?;
                Ok(())
            }
            Strike::Stop(time) => {
                self.fleet.signal(at, Signal::STOP)?;
                sleep(time).await;
                self.fleet.signal(at, Signal::CONT)
            }
            Strike::Degraded => {
                let other = (at + 1) % self.replicas;
                self.fleet.kill(at)?;
                let others = self.replicas - 1;
                let is_noticed = |seen: &Seen| seen.is_serving && seen.healthy() <= others;
                self.brain.until("a copy less", PATIENCE, is_noticed).await?;
                self.fleet.start(at)?;
                // Somewhere in the middle of its resync.
                sleep(Duration::from_millis(100)).await;
                self.fleet.kill(other)?;
                sleep(Duration::from_millis(500)).await;
                self.fleet.start(other)
            }
        }
    }

    /// Every block through the target, and then every block of each copy alone.
    async fn finish(&mut self) -> Result<()> {
        self.host.check().await.context("every block at the end")?;
        for alone in 0..self.replicas {
            for other in (0..self.replicas).filter(|other| *other != alone) {
                self.fleet.kill(other)?;
            }
            let only = e2e::plan::node(alone);
            let is_alone =
                |seen: &Seen| seen.is_serving && seen.seat.is_some_and(|seat| seat.node == only);
            self.brain.until("the last copy served", PATIENCE, is_alone).await?;
            self.host.check().await.with_context(|| format!("copy {alone} alone"))?;
            for other in (0..self.replicas).filter(|other| *other != alone) {
                self.fleet.start(other)?;
            }
            self.whole().await?;
        }
        println!("every block is right, through the target and on each copy alone");
        Ok(())
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    let mib = |bytes: u64| f64::from(u32::try_from(bytes >> 12).unwrap_or(u32::MAX));
    mib(part) / mib(whole).max(1.0)
}
