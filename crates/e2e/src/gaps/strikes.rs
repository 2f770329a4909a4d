//! The target's process is killed or stopped, or its node cut off, again and again, under an
//! application that sends one command each millisecond.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use e2e::{
    application::{Application, Tempo},
    asking::Asking,
    bed::{Bed, Store, attach, doctor},
};
use local::{Cluster, Member, Network, watch::until};
use rest::{SwitchoverShown, TargetShown};
use rustix::process::Signal;
use tokio::{task::spawn_blocking, time::sleep};

use crate::cluster::report::longest;

const PATIENCE: Duration = Duration::from_mins(1);
/// Longer than a turn of the application: what it sees belongs to one strike.
const QUIET: Duration = Duration::from_millis(600);
/// What the application works on: 16 MiB.
const BUSY: u64 = 4096;
const VOLUME: &str = "v";

/// The longest pause around each strike.
#[derive(Debug, Default)]
pub struct Gaps {
    pub healed: Vec<Duration>,
    pub degraded: Vec<Duration>,
    pub stopped: Vec<Duration>,
    pub cut: Vec<Duration>,
}

/// How often.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub kills: usize,
    pub stops: usize,
    /// Needs machines of their own.
    pub cuts: usize,
}

/// From when to when.
type Window = (Instant, Instant);

#[derive(Debug)]
struct Run {
    cluster: Cluster,
    asking: Asking,
}

pub async fn run(bed: &Bed, counts: Counts) -> Result<Gaps> {
    let folder = tempfile::Builder::new().prefix("hf-").tempdir()?;
    let cluster = bed.make(&folder.path().join("data")).await?;
    let asking = Asking::of(&cluster)?;
    let place = attach(&cluster, &asking, VOLUME, 3).await?;
    let every = Duration::from_millis(1);
    let tempo = Tempo { every, depth: 1024, seed: 1, within: Some(0..BUSY) };
    let application = Application::start(place, tempo);
    let mut run = Run { cluster, asking };
    let (healed, degraded) = run.killed(bed.store, counts.kills).await?;
    let stopped = run.silenced(bed.store, Strike::Stop, counts.stops).await?;
    let cut = run.silenced(bed.store, Strike::Cut, counts.cuts).await?;
    run.whole().await?;
    let (mut place, seen) = application.end(PATIENCE)?;
    spawn_blocking(move || place.check(PATIENCE)).await??;
    doctor(&run.cluster)?;
    run.cluster.stop_all()?;
    let around = |windows: Vec<Window>| -> Vec<Duration> {
        let sights = std::slice::from_ref(&seen);
        windows.into_iter().map(|(from, to)| longest(sights, from, to)).collect()
    };
    Ok(Gaps {
        healed: around(healed),
        degraded: around(degraded),
        stopped: around(stopped),
        cut: around(cut),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strike {
    Kill,
    /// It stays, and says nothing.
    Stop,
    /// What its node and all others send to each other vanishes.
    Cut,
}

impl Run {
    /// Around kills while healed, and while still degraded, by turns.
    async fn killed(&mut self, store: Store, kills: usize) -> Result<(Vec<Window>, Vec<Window>)> {
        let (mut healed, mut degraded) = (Vec::new(), Vec::new());
        while healed.len() + degraded.len() < kills {
            self.whole().await?;
            let (first, window) = self.strike(Strike::Kill).await?;
            healed.push(window);
            if healed.len() + degraded.len() < kills {
                // The first one is still away. After an unclean end the copies are made equal from
                // one of them: until then it is the only one that is trusted.
                self.two_copies().await?;
                let (second, window) = self.strike(Strike::Kill).await?;
                degraded.push(window);
                self.cluster.start(second)?;
            }
            self.cluster.start(first)?;
            eprintln!("{store}: {} of {kills} kills", healed.len() + degraded.len());
        }
        Ok((healed, degraded))
    }

    /// Around times when the target's node falls silent.
    async fn silenced(&mut self, store: Store, how: Strike, count: usize) -> Result<Vec<Window>> {
        let mut windows = Vec::new();
        while windows.len() < count {
            self.whole().await?;
            let (member, window) = self.strike(how).await?;
            windows.push(window);
            match how {
                Strike::Cut => self.each_way(member, Network::mend)?,
                _ => self.cluster.signal(member, Signal::CONT)?,
            }
            eprintln!("{store}: {} of {count} times silent ({how:?})", windows.len());
        }
        Ok(windows)
    }

    /// Between a member and everybody else, both ways.
    fn each_way(&self, member: Member, act: fn(Member, Member) -> Result<()>) -> Result<()> {
        let others = self.cluster.members().into_iter().filter(|other| *other != member);
        others.into_iter().try_for_each(|other| {
            act(member, other)?;
            act(other, member)
        })
    }

    async fn whole(&self) -> Result<()> {
        self.asking.healed(PATIENCE).await?;
        sleep(QUIET).await;
        Ok(())
    }

    async fn two_copies(&self) -> Result<()> {
        until("two whole copies", PATIENCE, || async {
            let whole = self.asking.volume(VOLUME).await?.status.healthy_copies;
            Ok((whole >= 2).then_some(()))
        })
        .await
    }

    async fn target(&self) -> Result<TargetShown> {
        self.asking.get(&format!("/v1/targets/{VOLUME}")).await
    }

    /// Strikes at the target and waits until the host is on another one.
    async fn strike(&mut self, strike: Strike) -> Result<(Member, Window)> {
        let before = self.target().await?;
        let mut members = self.cluster.members().into_iter();
        let is_it = |member: &Member| member.to_string() == before.node;
        let victim = members.find(is_it).context("the target is nowhere")?;
        let began = Instant::now();
        match strike {
            Strike::Kill => self.cluster.kill(victim)?,
            Strike::Stop => self.cluster.signal(victim, Signal::STOP)?,
            Strike::Cut => self.each_way(victim, Network::cut)?,
        }
        until("another target", PATIENCE, || async {
            let target = self.target().await?;
            let moves: Vec<SwitchoverShown> = self.asking.all("/v1/switchovers").await?;
            let is_new = target.target.epoch > before.target.epoch && target.seen == "serving";
            Ok((is_new && moves.is_empty()).then_some(()))
        })
        .await?;
        sleep(QUIET).await;
        Ok((victim, (began, Instant::now())))
    }
}
