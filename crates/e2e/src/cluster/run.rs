//! One run: a cluster comes up, is struck, heals, and is judged.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{
    application::{Application, Place, Tempo},
    asking::Asking,
    bed::{Bed, attach, doctor},
};
use local::Network;
use tokio::{task::spawn_blocking, time::sleep};

use super::{Chaos, Report, Watcher, copies, report::Ending, schedule};
use crate::cluster::schedule::Random;

/// For everything to be whole again when nobody is struck any more, on a busy machine.
const HEALED_WITHIN: Duration = Duration::from_secs(90);
/// By name, copies.
const VOLUMES: [(&str, u8); 2] = [("three", 3), ("two", 2)];
const EVERY: Duration = Duration::from_millis(3);

/// What is done to a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    pub seed: u64,
    /// How long there are strikes.
    pub length: Duration,
    /// At the end every copy is read alone.
    pub reads_copies: bool,
}

/// Strikes for that long; what it came to. If something is wrong, everything is kept.
pub async fn strike(bed: &Bed, course: &Course) -> Result<Report> {
    let folder = tempfile::Builder::new().prefix("hf-").tempdir()?;
    let ended = run(bed, course, &folder.path().join("data")).await;
    if ended.is_err() {
        let seed = course.seed;
        println!("seed {seed}: everything is kept in {}", folder.keep().display());
    }
    ended
}

async fn run(bed: &Bed, course: &Course, path: &Path) -> Result<Report> {
    let cluster = bed.make(path).await?;
    let asking = Asking::of(&cluster)?;
    let mut random = Random::new(course.seed);
    let mut applications = Vec::new();
    for (name, copies) in VOLUMES {
        let place = attach(&cluster, &asking, name, copies).await?;
        let tempo = Tempo { every: EVERY, depth: 64, seed: random.below(u64::MAX), within: None };
        applications.push(Application::start(place, tempo));
    }
    let watcher = Watcher::start(&cluster, asking.clone())?;
    let members = cluster.members();
    let planned = schedule::schedule(course, &members, bed.network == Network::Namespaces);
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
    if let (Err(one), Err(other)) = (&healed, &ended) {
        bail!("{one:#}\n{other:#}");
    }
    healed?;
    let (places, sights): (Vec<_>, Vec<_>) = ended?.into_iter().unzip();
    let found = watcher.found();
    drop(watcher);
    let (places, blocks) = judge(places).await?;
    asking.healed(HEALED_WITHIN).await?;
    let copies = if course.reads_copies {
        copies::check(&mut chaos.cluster, &asking, places).await?
    } else {
        0
    };
    let doctor = doctor(&chaos.cluster)?;
    let crashes = chaos.crashes();
    ensure!(crashes.is_empty(), "these crashed: {crashes:?}");
    chaos.cluster.stop_all()?;
    Ok(Report::new(&chaos.struck, &sights, Ending { blocks, copies, found, healed_in, doctor }))
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
async fn judge(places: Vec<Place>) -> Result<(Vec<Place>, u64)> {
    spawn_blocking(move || {
        let (mut places, mut blocks) = (places, 0);
        for place in &mut places {
            blocks += place.check(HEALED_WITHIN)?;
        }
        Ok((places, blocks))
    })
    .await?
}
