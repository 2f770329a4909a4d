//! A cluster that stays up until it is told to stop.

use std::{
    collections::BTreeMap,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use local::{Cluster, Member};
use rest::ClusterShown;

use super::READY_WITHIN;
use crate::ending::Ending;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// One that ends at once each time is not started in a tight loop.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

pub(super) async fn run(mut cluster: Cluster, data: &Path) -> Result<ExitCode> {
    let began = Instant::now();
    cluster.start_all()?;
    let read_only = tokio::select! {
        ready = ready(&mut cluster) => ready?,
        told = Ending::default().told() => {
            told?;
            cluster.stop_all()?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    greet(&cluster, data, began.elapsed());
    if let Some(why) = read_only {
        say!("It is read-only: {why}; `holdfast recover` brings back what the pools carry");
    }
    keep(&mut cluster).await?;
    say!("stopping; the data stays in {}", data.display());
    cluster.stop_all()?;
    Ok(ExitCode::SUCCESS)
}

/// What is away may come, such as an etcd that is started later: only what ends by itself is an
/// error. One that is read-only must stay up as well, with the reason: nobody could recover it
/// otherwise.
async fn ready(cluster: &mut Cluster) -> Result<Option<String>> {
    while let Err(error) = cluster.ready(READY_WITHIN).await {
        if let Some((member, status)) = cluster.ended()?.first() {
            let log = cluster.folder.log(*member);
            bail!("{member} ended ({status}): {} tells why", log.display());
        }
        say!("still waiting: {error:#}; logs are in {}/logs", cluster.folder.path.display());
    }
    let Err(error) = cluster.make_pools().await else { return Ok(None) };
    let shown: ClusterShown = cluster.client()?.get("/v1/cluster").await?;
    if shown.read_only.is_some() { Ok(shown.read_only) } else { Err(error) }
}

fn greet(cluster: &Cluster, data: &Path, took: Duration) {
    let nodes = cluster.folder.shape.nodes;
    let kept = if cluster.folder.is_old { ", with what it held" } else { "" };
    say!("up in {took:.1?}: a controller, {nodes} nodes with a pool each, a host{kept}");
    say!("  users    {}", cluster.url());
    say!("  data     {}, logs in its folder logs", data.display());
    say!("In another terminal:");
    let server = if cluster.url() == cli::SERVER { "" } else { " --server " };
    let url = if server.is_empty() { String::new() } else { cluster.url() };
    say!("  holdfast create volume music --size 1GiB --replicas 3{server}{url}");
    say!("  holdfast attach music --run {}/host-1{server}{url}", data.display());
    say!("  holdfast get volumes{server}{url}");
    say!("Ctrl-C stops it and keeps the data; `holdfast down --wipe` deletes it.");
}

/// Starts again what ends by itself, until told to stop.
async fn keep(cluster: &mut Cluster) -> Result<()> {
    let told = Ending::default().told();
    tokio::pin!(told);
    let mut due: BTreeMap<Member, Instant> = BTreeMap::new();
    loop {
        tokio::select! {
            told = &mut told => return told,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        for (member, status) in cluster.ended()? {
            say!("{member} ended ({status}); it is started again in {AGAIN_AFTER:?}");
            due.insert(member, Instant::now() + AGAIN_AFTER);
        }
        let now = Instant::now();
        for member in due.extract_if(.., |_, at| *at <= now).map(|(member, _)| member) {
            cluster.start(member)?;
        }
    }
}
