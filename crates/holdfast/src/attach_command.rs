//! `holdfast attach` and `holdfast detach`, on the machine that shall have the volume.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use host::{Device, Local};
use hyper::Method;
use model::{Access, HostId, VolumeId};
use rest::{Answer, Client, PublicationPut, VolumeShown, encode};
use serde_json::{Value, json};

use crate::{run_folder::RunFolder, user_command::client};

/// How often to look whether something has come about that tells of itself nowhere.
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub(crate) struct AttachCommand {
    /// The volume, by its name or id
    volume: String,
    #[command(flatten)]
    on: On,
}

#[derive(Debug, Args)]
pub(crate) struct DetachCommand {
    /// The volume, by its name or id
    volume: String,
    #[command(flatten)]
    on: On,
}

#[derive(Debug, Args)]
pub(crate) struct On {
    #[command(flatten)]
    run: RunFolder,
    #[command(flatten)]
    connection: cli::Connection,
    /// How many seconds to wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// For programs
    #[arg(long)]
    json: bool,
}

impl AttachCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let here = Here::new(&self.on)?;
        let (shown, device) = block_on(here.attach(&self.volume))?;
        if here.json {
            let meta = &shown.volume.meta;
            let told = json!({
                "volume": meta.id, "name": meta.name, "host": here.host,
                "device": device.to_string(),
            });
            println!("{told:#}");
        } else {
            println!("{device}");
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl DetachCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let here = Here::new(&self.on)?;
        let shown = block_on(here.detach(&self.volume))?;
        let meta = &shown.volume.meta;
        if here.json {
            println!("{:#}", json!({ "volume": meta.id, "name": meta.name, "host": here.host }));
        } else {
            println!("volume/{} detached", meta.name);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// This machine's host, and the controller.
pub(crate) struct Here {
    run: PathBuf,
    host: HostId,
    pub(crate) client: Client,
    pub(crate) patience: Duration,
    pub(crate) json: bool,
}

impl Here {
    pub(crate) fn new(on: &On) -> Result<Self> {
        let run = on.run.folder();
        let local = Local::read(&run).context("looking for this machine's host")?;
        let patience = Duration::from_secs(on.timeout);
        let client = client(&on.connection)?;
        Ok(Self { run, host: local.host, client, patience, json: on.json })
    }

    /// Whether this machine has the volume already.
    pub(crate) async fn has(&self, volume: &str) -> Result<bool> {
        let id = self.look(volume).await?.volume.meta.id;
        Ok(Local::read(&self.run)?.volumes.get(&id).is_some_and(|held| held.device.is_some()))
    }

    pub(crate) async fn attach(&self, volume: &str) -> Result<(VolumeShown, Device)> {
        let end = Instant::now() + self.patience;
        let shown = self.look(volume).await?;
        let shown = match self.wanted(&shown)? {
            None => shown,
            Some(hosts) => self.publish(volume, &shown, hosts).await?,
        };
        let device = self.device(shown.volume.meta.id, end).await?;
        Ok((shown, device))
    }

    /// Waits until this host has left and the volume is free for others.
    pub(crate) async fn detach(&self, volume: &str) -> Result<VolumeShown> {
        let end = Instant::now() + self.patience;
        let host = self.host;
        let path = format!("/v1/volumes/{}/publication/{host}", encode(volume));
        let asked: Answer<Value> =
            self.client.change(Method::DELETE, &path, None, None::<&Value>).await?;
        drop(asked);
        loop {
            let shown = self.look(volume).await?;
            if !shown.volume.layout.hosts.contains_key(&host) {
                return Ok(shown);
            }
            if Instant::now() >= end {
                bail!("{volume} is on its way out, and not yet gone from this host");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&self, volume: &str) -> Result<VolumeShown> {
        Ok(self.client.get(&format!("/v1/volumes/{}", encode(volume))).await?)
    }

    /// The hosts that must be asked for; `None` if it is published here already.
    fn wanted(&self, shown: &VolumeShown) -> Result<Option<BTreeSet<HostId>>> {
        let volume = &shown.volume;
        let published = volume.layout.publication.attempt();
        let asked = volume.spec.publish.as_ref();
        let is_tried = asked.is_some_and(|publish| published == Some(publish.attempt));
        let mut hosts = asked.map(|publish| publish.hosts.clone()).unwrap_or_default();
        let failed = matches!(volume.layout.publication, model::Publication::Failed { .. });
        if hosts.contains(&self.host) && is_tried && !failed {
            return Ok(None);
        }
        hosts.insert(self.host);
        if volume.spec.access == Access::Exclusive && hosts.len() > 1 {
            let others = hosts.iter().filter(|host| **host != self.host);
            let others: Vec<String> = others.map(ToString::to_string).collect();
            let name = &volume.meta.name;
            bail!("{name} is published to {}: detach it there first", others.join(", "));
        }
        Ok(Some(hosts))
    }

    async fn publish(
        &self,
        volume: &str,
        shown: &VolumeShown,
        hosts: BTreeSet<HostId>,
    ) -> Result<VolumeShown> {
        let hosts = hosts.iter().map(ToString::to_string).collect();
        let put = PublicationPut { hosts, ..PublicationPut::default() };
        let seconds = self.patience.as_secs();
        let path =
            format!("/v1/volumes/{}/publication?wait=available&timeout={seconds}s", encode(volume));
        let revision = Some(shown.volume.meta.spec_revision);
        let answer: Answer<VolumeShown> =
            self.client.change(Method::PUT, &path, revision, Some(&put)).await?;
        match answer {
            Answer::Done(shown) | Answer::Unchanged(shown) => Ok(shown),
            Answer::Accepted(shown) => {
                bail!("{volume} is not there yet: {}", shown.status.status.words.join("; "))
            }
            Answer::Gone | Answer::Preview(_) => bail!("{volume} is gone"),
        }
    }

    /// What the host has made of it.
    async fn device(&self, volume: VolumeId, end: Instant) -> Result<Device> {
        loop {
            let held = Local::read(&self.run)?.volumes.remove(&volume);
            if let Some(device) = held.and_then(|held| held.device) {
                return Ok(device);
            }
            if Instant::now() >= end {
                bail!("the volume is published, and this machine's host shows no device of it");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}
