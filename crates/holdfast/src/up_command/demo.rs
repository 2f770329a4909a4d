//! `holdfast up --demo`: what Holdfast is for, told in a minute by real processes.

mod application;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use hyper::Method;
use local::{Cluster, Member, watch::until};
use model::{Bytes, VolumeSpec};
use rest::{Answer, Client, Health, PublicationPut, TargetShown, VolumePut, VolumeShown};
use serde_json::Value;

use self::application::Application;
use super::READY_WITHIN;

const VOLUME: &str = "demo";
const SIZE: Bytes = Bytes::mib(256);
/// What the application works on: the rest shows that a resync leaves out what did not change.
const BUSY: Bytes = Bytes::mib(16);
/// Long enough for every switchover and resync of so small a volume on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long the application works around each strike, which comes after the first second.
const WORK: Duration = Duration::from_secs(4);
const STRIKE_AFTER: Duration = Duration::from_secs(1);

pub(super) async fn run(mut cluster: Cluster) -> Result<ExitCode> {
    let began = Instant::now();
    say!("One machine plays a cluster: every part is a process of its own.\n");
    cluster.start_all()?;
    cluster.ready(READY_WITHIN).await?;
    cluster.make_pools().await?;
    let nodes = cluster.folder.shape.nodes;
    tell("up", &format!("a controller, {nodes} nodes with a pool each, a host"));
    let mut story = Story { client: cluster.client()?, cluster };
    let told = story.tell().await;
    if told.is_err() {
        say!("\nlogs are in {}", story.keep_logs().display());
    }
    told?;
    story.cluster.stop_all()?;
    tell("down", &format!("everything has stopped in good order; {:.0?} in all", began.elapsed()));
    Ok(ExitCode::SUCCESS)
}

fn tell(word: &str, rest: &str) {
    say!("{word:>9}  {rest}");
}

struct Story {
    cluster: Cluster,
    client: Client,
}

impl Story {
    async fn tell(&mut self) -> Result<()> {
        let copies = u8::try_from(self.cluster.folder.shape.nodes.min(3))?;
        self.make_volume(copies).await?;
        let device = self.attach().await?;
        let application = Application::open(&device, &self.cluster.folder.path)?;
        let blocks = application.blocks();
        tell("attached", &format!("as {device}"));
        let application = application.fill().await?;
        tell("filled", &format!("{blocks} blocks, each with its own mark"));
        // What stopped in good order is the same everywhere: nothing of the fill is copied later.
        let ledger = application.close();
        self.detach().await?;
        let application = Application::reopen(&self.attach().await?, ledger)?;
        tell("again", &format!("detached and attached; the application works on {BUSY} of it"));
        let application = self.lose_target(application).await?;
        let application = self.lose_replica(application, copies).await?;
        let tally = application.check().await?;
        tell(
            "verified",
            &format!("{blocks} blocks read back, 0 wrong, 0 lost ({} reads)", tally.reads),
        );
        self.end().await
    }

    async fn make_volume(&self, copies: u8) -> Result<()> {
        let spec = VolumeSpec { size: SIZE, replicas: copies, thin: true, ..VolumeSpec::default() };
        let put = VolumePut { id: None, labels: [].into(), spec };
        self.put(&format!("/v1/volumes/{VOLUME}"), &put, "the volume").await?;
        tell("created", &format!("volume {VOLUME}: {SIZE}, a copy on each of {copies} nodes"));
        Ok(())
    }

    async fn attach(&self) -> Result<String> {
        let hosts = vec![Member::Host(1).to_string()];
        let put = PublicationPut { hosts, ..PublicationPut::default() };
        self.put(&format!("/v1/volumes/{VOLUME}/publication"), &put, "the publication").await?;
        let volume = self.volume().await?.volume.meta.id;
        let run = self.cluster.folder.path.join(Member::Host(1).to_string());
        until("the device", PATIENCE, || async {
            let here = host::Local::read(&run)?;
            let device = here.volumes.get(&volume).and_then(|held| held.device.as_ref());
            Ok(device.map(ToString::to_string))
        })
        .await
    }

    async fn detach(&self) -> Result<()> {
        let path = format!("/v1/volumes/{VOLUME}/publication/{}", Member::Host(1));
        let _: Answer<Value> = self.client.change(Method::DELETE, &path, None, None::<&()>).await?;
        until("the host to leave", PATIENCE, || async {
            let layout = self.volume().await?.volume.layout;
            Ok((layout.hosts.is_empty() && layout.target.is_none()).then_some(()))
        })
        .await
    }

    async fn put(&self, path: &str, body: &impl serde::Serialize, what: &str) -> Result<()> {
        let path = format!("{path}?wait=available&timeout=30s");
        let answer: Answer<Value> =
            self.client.change(Method::PUT, &path, None, Some(body)).await?;
        match answer {
            Answer::Accepted(_) => bail!("{what} was not ready in time"),
            _ => Ok(()),
        }
    }

    async fn volume(&self) -> Result<VolumeShown> {
        Ok(self.client.get(&format!("/v1/volumes/{VOLUME}")).await?)
    }

    async fn target(&self) -> Result<TargetShown> {
        Ok(self.client.get(&format!("/v1/targets/{VOLUME}")).await?)
    }

    async fn lose_target(&mut self, application: Application) -> Result<Application> {
        let before = self.target().await?;
        let victim = self.engine(&before.node)?;
        let working = tokio::spawn(application.work(WORK));
        tokio::time::sleep(STRIKE_AFTER).await;
        tell("kill -9", &format!("{victim}: the volume's target and one copy die with it"));
        self.cluster.kill(victim)?;
        let after = until("another target", PATIENCE, || async {
            let target = self.target().await?;
            Ok((target.target.epoch > before.target.epoch && target.seen == "serving")
                .then_some(target))
        })
        .await?;
        let (application, tally) = working.await.context("the application died")??;
        tell(
            "moved",
            &format!(
                "to {}; the application waited {} ms at most and saw no error",
                after.node,
                tally.gap.as_millis()
            ),
        );
        self.heal(victim).await?;
        Ok(application)
    }

    async fn lose_replica(&mut self, application: Application, copies: u8) -> Result<Application> {
        let target = self.target().await?;
        let engines = self.cluster.members().into_iter();
        let mut others = engines.filter(|member| {
            matches!(member, Member::Engine(_)) && member.to_string() != target.node
        });
        let Some(victim) = others.next().filter(|_| copies > 1) else { return Ok(application) };
        let working = tokio::spawn(application.work(WORK));
        tokio::time::sleep(STRIKE_AFTER).await;
        tell("kill -9", &format!("{victim}: another copy dies with it"));
        self.cluster.kill(victim)?;
        let (application, tally) = working.await.context("the application died")??;
        tell(
            "went on",
            &format!(
                "{} writes and {} reads without it, the longest wait {} ms",
                tally.writes,
                tally.reads,
                tally.gap.as_millis()
            ),
        );
        self.heal(victim).await?;
        Ok(application)
    }

    /// Starts the node again and waits until every copy is whole.
    async fn heal(&mut self, member: Member) -> Result<()> {
        let target = self.target().await?;
        let server = self.engine(&target.node)?;
        let before = self.copied(server).await?;
        self.cluster.start(member)?;
        until("every copy to be whole", PATIENCE, || async {
            let shown = self.volume().await?;
            Ok((shown.status.status.health == Health::Healthy).then_some(()))
        })
        .await?;
        let copied = Bytes(self.copied(server).await?.saturating_sub(before));
        tell(
            "healed",
            &format!("{member} is back; {copied} of {SIZE} were copied, what it missed"),
        );
        Ok(())
    }

    fn engine(&self, node: &str) -> Result<Member> {
        let mut members = self.cluster.members().into_iter();
        members.find(|member| member.to_string() == node).with_context(|| format!("no node {node}"))
    }

    /// Bytes that the targets of an engine have copied.
    async fn copied(&self, member: Member) -> Result<u64> {
        let Member::Engine(number) = member else { return Ok(0) };
        let text = self.cluster.admin(number)?.text("/metrics").await?;
        let lines = text.lines().filter(|l| l.starts_with("holdfast_volume_copied_bytes_total"));
        Ok(lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum())
    }

    async fn end(&self) -> Result<()> {
        self.detach().await?;
        let path = format!("/v1/volumes/{VOLUME}?wait=gone&timeout=30s");
        let answer: Answer<Value> =
            self.client.change(Method::DELETE, &path, None, None::<&()>).await?;
        match answer {
            Answer::Gone => tell("deleted", &format!("volume {VOLUME}: its space is free again")),
            _ => bail!("the volume was not deleted in time"),
        }
        Ok(())
    }

    /// The folder of a demo goes with it: what a failure needs is copied out.
    fn keep_logs(&self) -> std::path::PathBuf {
        let from = self.cluster.folder.path.join("logs");
        let to = std::env::temp_dir().join(format!("holdfast-demo-logs-{}", std::process::id()));
        let copy = || -> std::io::Result<()> {
            std::fs::create_dir_all(&to)?;
            for file in std::fs::read_dir(&from)? {
                let file = file?;
                std::fs::copy(file.path(), to.join(file.file_name()))?;
            }
            Ok(())
        };
        if copy().is_ok() { to } else { from }
    }
}
