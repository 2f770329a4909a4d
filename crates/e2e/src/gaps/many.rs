//! A thousand volumes on real engines: how fast they are made, and what they cost the controller.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use e2e::{asking::Asking, bed::Bed};
use hyper::Method;
use local::{Cluster, Member, watch::until};
use model::{Bytes, VolumeSpec};
use rest::{Answer, Client, ClusterShown, VolumePut};
use serde_json::Value;
use tokio::{task::JoinSet, time::sleep};

/// Clients that make volumes at once.
const CLIENTS: usize = 32;
const SIZE: Bytes = Bytes::mib(8);
/// After this time nothing that making them began goes on any more.
const SETTLED: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub per_second: f64,
    pub resident_mib: f64,
    pub idle_percent: f64,
    /// Seconds.
    pub restart: f64,
}

pub async fn run(bed: &Bed, count: usize) -> Result<Cost> {
    let folder = tempfile::Builder::new().prefix("hf-").tempdir()?;
    let mut cluster = bed.make(&folder.path().join("data")).await?;
    let took = make(&cluster.url(), count).await?;
    let per_second = f64::from(u32::try_from(count)?) / took.as_secs_f64();
    eprintln!("{}: {count} volumes in {took:.1?}", bed.store);
    Asking::of(&cluster)?.healed(PATIENCE).await?;
    let leader = leader(&cluster).await?;
    let resident_mib = resident(&cluster, leader)?;
    sleep(SETTLED).await;
    let before = busy(&cluster, leader)?;
    sleep(IDLE).await;
    let spent = busy(&cluster, leader)?.saturating_sub(before);
    let idle_percent = spent.as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let restart = restart(&mut cluster, count).await?.as_secs_f64();
    cluster.stop_all()?;
    Ok(Cost { per_second, resident_mib, idle_percent, restart })
}

async fn make(url: &str, count: usize) -> Result<Duration> {
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        let client = Client::new(url)?;
        clients.spawn(async move {
            for number in (first..count).step_by(CLIENTS) {
                let spec =
                    VolumeSpec { size: SIZE, replicas: 3, thin: true, ..VolumeSpec::default() };
                let put = VolumePut { id: None, labels: [].into(), spec };
                let path = format!("/v1/volumes/v{number}?wait=available&timeout=60s");
                let made: Answer<Value> =
                    client.change(Method::PUT, &path, None, Some(&put)).await?;
                ensure!(matches!(made, Answer::Done(_)), "v{number} was not made in time");
            }
            Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    Ok(began.elapsed())
}

/// The one that leads, among those that there are.
async fn leader(cluster: &Cluster) -> Result<Member> {
    for number in 1..=cluster.binary.controllers {
        let client = Client::new(&cluster.url_of(number))?;
        let shown: ClusterShown = client.get("/v1/cluster").await?;
        if shown.leading {
            return Ok(Member::Controller(number));
        }
    }
    anyhow::bail!("nobody leads")
}

/// All controllers are killed and started again at once; the time until one leads and has seen
/// that every volume is well.
async fn restart(cluster: &mut Cluster, count: usize) -> Result<Duration> {
    let controllers: Vec<Member> =
        (1..=cluster.binary.controllers).map(Member::Controller).collect();
    for controller in &controllers {
        cluster.kill(*controller)?;
    }
    let began = Instant::now();
    for controller in &controllers {
        cluster.start(*controller)?;
    }
    let line = format!("holdfast_volumes{{health=\"healthy\"}} {count}");
    let cluster = &*cluster;
    until("a controller that sees all", PATIENCE, || async {
        let Member::Controller(number) = leader(cluster).await? else { return Ok(None) };
        let text = Client::new(&cluster.url_of(number))?.text("/metrics").await?;
        Ok(text.lines().any(|l| l == line).then_some(()))
    })
    .await?;
    Ok(began.elapsed())
}

fn resident(cluster: &Cluster, member: Member) -> Result<f64> {
    let pid = cluster.pid(member).context("it does not run")?;
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).context("no such line")?;
    Ok(f64::from(kib.parse::<u32>()?) / 1024.0)
}

/// The time that all its threads have spent on a core, to the nanosecond.
fn busy(cluster: &Cluster, member: Member) -> Result<Duration> {
    let pid = cluster.pid(member).context("it does not run")?;
    let mut sum = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // One that has just ended counts no more.
        let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        let spent = text.split_whitespace().next().unwrap_or("0");
        sum += spent.parse::<u64>().unwrap_or(0);
    }
    Ok(Duration::from_nanos(sum))
}
