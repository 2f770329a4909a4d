//! Two builds of the product in one cluster: this one, and one that plays the next release.
//!
//! The other build says and stores more than this one knows, on the wire and in the store. The
//! cluster is upgraded one process at a time, as the guide says, and rolled back the same way,
//! while an application verifies what it reads.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]
#![allow(clippy::print_stdout, reason = "how long each step took")]

mod mixed;
mod records;
mod watch;

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use e2e::{
    application::{Application, Place, Tempo},
    asking::Asking,
    bed::{self, Bed, Store},
    binary,
};
use local::{Cluster, Member, Network, watch::until};
use model::{Bytes, InstanceId};
use rest::{Client, ClusterShown, NodeShown};
use tempfile::TempDir;

use self::watch::Watch;

const PATIENCE: Duration = Duration::from_mins(1);

/// Which of the two a process is.
#[derive(Clone, Copy, Debug)]
enum Build {
    This,
    Next,
}

struct Rolling {
    cluster: Cluster,
    asking: Asking,
    builds: [PathBuf; 2],
    began: Instant,
    _folder: TempDir,
}

impl Rolling {
    /// All of this build, on etcd with a standby.
    async fn start() -> Self {
        let builds = [binary::built().unwrap(), binary::next().unwrap()];
        let bed = Bed {
            binary: builds[0].clone(),
            network: Network::Loopback,
            store: Store::Etcd,
            nodes: 3,
            pool_size: Bytes::mib(512),
            controller_words: Vec::new(),
        };
        let folder = tempfile::Builder::new().prefix("hf-").tempdir().unwrap();
        let cluster = bed.make(&folder.path().join("data")).await.unwrap();
        let asking = Asking::of(&cluster).unwrap();
        Self { cluster, asking, builds, began: Instant::now(), _folder: folder }
    }

    fn binary(&self, build: Build) -> &PathBuf {
        &self.builds[match build {
            Build::This => 0,
            Build::Next => 1,
        }]
    }

    /// Stops one in good order, starts it as the other build, and waits for health.
    async fn replace(&mut self, member: Member, build: Build) {
        let began = Instant::now();
        let before = self.process_of(member).await;
        self.cluster.stop(member).unwrap();
        self.cluster.binary.path = self.binary(build).clone();
        self.cluster.start(member).unwrap();
        if before.is_some() {
            self.followed(member, before).await;
        }
        self.healed().await;
        println!(
            "{:6.1} s  {member} is of {build:?}: {:.1} s",
            self.began.elapsed().as_secs_f64(),
            began.elapsed().as_secs_f64()
        );
    }

    /// The process that a node has on record.
    async fn process_of(&self, member: Member) -> Option<InstanceId> {
        let Member::Engine(_) = member else { return None };
        until("a node's record", PATIENCE, || async {
            let nodes = self.asking.all::<NodeShown>("/v1/nodes").await?;
            let node = nodes.into_iter().find(|shown| shown.node.meta.name == member.to_string());
            Ok(node.and_then(|shown| shown.node.layout.instance))
        })
        .await
        .ok()
    }

    /// From the moment on that the new process is on record, the volume is not called healthy
    /// before its copy is.
    async fn followed(&self, member: Member, before: Option<InstanceId>) {
        until("the new process on record", PATIENCE, || async {
            let now = self.process_of(member).await;
            Ok((now.is_some() && now != before).then_some(()))
        })
        .await
        .unwrap();
    }

    /// The standby first, the leader last.
    async fn replace_controllers(&mut self, build: Build) {
        let leader = self.leader().await;
        let standby = if leader == 1 { 2 } else { 1 };
        for number in [standby, leader] {
            self.replace(Member::Controller(number), build).await;
        }
    }

    async fn replace_engines(&mut self, build: Build) {
        for number in 1..=3 {
            self.replace(Member::Engine(number), build).await;
        }
    }

    async fn leader(&self) -> u16 {
        until("a leader", PATIENCE, || async {
            for number in 1..=2 {
                if self.controller(number).await?.leading {
                    return Ok(Some(number));
                }
            }
            Ok(None)
        })
        .await
        .unwrap()
    }

    /// The cluster as one controller shows it.
    async fn controller(&self, number: u16) -> anyhow::Result<ClusterShown> {
        Ok(Client::new(&self.cluster.url_of(number))?.get("/v1/cluster").await?)
    }

    async fn healed(&self) {
        self.asking.healed(PATIENCE).await.unwrap();
    }

    /// What a command of a build says, of the cluster.
    fn say(&self, build: Build, words: &[&str]) -> String {
        let mut command = Command::new(self.binary(build));
        let said = command.args(words).args(["--server", &self.cluster.url()]).output().unwrap();
        let text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        assert!(said.status.success(), "{words:?}: {text}");
        text
    }

    /// What a process has said so far.
    fn log(&self, member: Member) -> String {
        std::fs::read_to_string(self.cluster.folder.log(member)).unwrap()
    }
}

/// Works on a part of the volume, so that what a node missed is copied in a moment.
fn tempo() -> Tempo {
    Tempo { every: Duration::from_millis(2), depth: 64, seed: 1, within: Some(0..1024) }
}

/// The application's last words, and every block.
async fn judge(application: Application) {
    let (mut place, seen): (Place, _) = application.end(PATIENCE).unwrap();
    // Only with its host, which is upgraded and rolled back once.
    assert!(seen.devices_lost <= 2, "{} times without a device", seen.devices_lost);
    let longest = seen.pauses.iter().map(|(_, _, pause)| *pause).max().unwrap_or_default();
    println!("{} reads, {} writes, {longest:?} without an answer", seen.reads, seen.writes);
    tokio::task::spawn_blocking(move || place.check(PATIENCE)).await.unwrap().unwrap();
}
