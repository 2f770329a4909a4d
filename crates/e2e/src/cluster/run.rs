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

use super::{Chaos, Report, Watcher, report::Ending, schedule};
use crate::cluster::schedule::Random;

/// For everything to be whole again when nobody is struck any more, on a busy machine.
const HEALED_WITHIN: Duration = Duration::from_secs(90);
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

async fn run(bed: &Bed, seed: u64, length: Duration, path: &Path) -> Result<Report> {
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
