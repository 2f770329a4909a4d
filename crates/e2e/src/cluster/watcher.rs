//! Looks at the cluster all the time: who serves, what is copied, which copies became whole again.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use e2e::asking::Asking;
use local::{Cluster, Member};
use rest::{Client, TargetShown, VolumeShown};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::Strike;

const LOOK_EVERY: Duration = Duration::from_millis(300);
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// Dropping it ends the looking.
#[derive(Debug)]
pub struct Watcher {
    found: Arc<Mutex<Found>>,
    task: JoinHandle<()>,
}

/// What was found so far.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Names of nodes that serve a volume.
    serving: BTreeSet<String>,
    /// By volume, copies that are whole.
    whole: BTreeMap<String, usize>,
    /// How often a copy became whole again.
    pub resyncs: usize,
    /// What each engine says that it copied in its life.
    copied: BTreeMap<u16, u64>,
    pub copied_bytes: u64,
    /// How often a volume was seen with a newer epoch.
    pub moves: u64,
    epochs: BTreeMap<String, u64>,
}

impl Watcher {
    pub fn start(cluster: &Cluster, asking: Asking) -> Result<Self> {
        let found = Arc::new(Mutex::new(Found::default()));
        let engines = (1..=cluster.folder.shape.nodes)
            .map(|number| Ok((number, cluster.admin(number)?)))
            .collect::<Result<Vec<_>>>()?;
        let shared = Arc::clone(&found);
        let task = tokio::spawn(async move {
            loop {
                look(&asking, &engines, &shared).await;
                sleep(LOOK_EVERY).await;
            }
        });
        Ok(Self { found, task })
    }

    pub fn found(&self) -> Found {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The kind of a strike; of an engine also whether it serves.
    pub fn kind(&self, strike: Strike) -> String {
        let kind = strike.kind();
        let Some(member @ Member::Engine(_)) = strike.victim() else { return kind };
        if self.found().serving.contains(&member.to_string()) {
            kind.replace("engine", "engine (target)")
        } else {
            kind
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What does not answer is looked at the next time.
async fn look(asking: &Asking, engines: &[(u16, Client)], found: &Mutex<Found>) {
    if let Ok(targets) = asking.all::<TargetShown>("/v1/targets").await {
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        found.serving = targets.iter().map(|target| target.node.clone()).collect();
        for target in targets {
            let epoch = target.target.epoch.0;
            let last = found.epochs.insert(target.volume, epoch).unwrap_or(epoch);
            found.moves += epoch.saturating_sub(last);
        }
    }
    if let Ok(volumes) = asking.all::<VolumeShown>("/v1/volumes").await {
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        for shown in volumes {
            let whole = shown.status.healthy_copies;
            let last = found.whole.insert(shown.volume.meta.name.clone(), whole);
            found.resyncs += whole.saturating_sub(last.unwrap_or(whole));
        }
    }
    for (number, engine) in engines {
        let asked = timeout(ANSWER_WITHIN, engine.text("/metrics")).await;
        let Ok(Ok(text)) = asked else { continue };
        let copied = copied(&text);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        let last = found.copied.insert(*number, copied).unwrap_or(0);
        // One that was started again counts anew.
        found.copied_bytes += if copied >= last { copied - last } else { copied };
    }
}

/// Bytes that the targets of an engine have copied.
fn copied(metrics: &str) -> u64 {
    let lines = metrics.lines().filter(|l| l.starts_with("holdfast_volume_copied_bytes_total"));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}
