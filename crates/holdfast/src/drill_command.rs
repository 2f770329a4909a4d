//! `holdfast drill`: ends a volume's target on purpose, and tells what an application would see.
//!
//! It reads the volume, and writes back what it read if nobody else has it, so that the data is the
//! same at the end whatever happens; and it compares. Only a target is ended, not its node.

mod probe;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use host::Device;
use hyper::Method;
use model::{Bytes, Millis};
use rest::{Answer, Client, DrillReport, DrillStart, Health, TargetShown, VolumeShown, encode};
use serde_json::{Value, json};

use self::probe::{Probe, Seen};
use crate::attach_command::{Here, On, block_on};

/// How long the volume is used before the strike, and after the move.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub(crate) struct DrillCommand {
    /// The volume, by its name or id
    volume: String,
    /// How much of the volume is compared before and after, spread over all of it
    #[arg(long, default_value = "64MiB", value_parser = size)]
    compare: Bytes,
    /// Go on although only one healthy copy is left
    #[arg(long)]
    on_last_copy: bool,
    #[command(flatten)]
    on: On,
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: model::Invalid| error.to_string())
}

impl DrillCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let here = Here::new(&self.on)?;
        let drill = Drill {
            path: format!("/v1/volumes/{}", encode(&self.volume)),
            volume: self.volume,
            compare: self.compare,
            on_last_copy: self.on_last_copy,
            here,
        };
        let report = block_on(drill.run())?;
        if drill.here.json {
            println!("{:#}", json!(report));
        }
        Ok(if report.wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

struct Drill {
    volume: String,
    path: String,
    compare: Bytes,
    on_last_copy: bool,
    here: Here,
}

impl Drill {
    async fn run(&self) -> Result<DrillReport> {
        let was_here = self.here.has(&self.volume).await?;
        let (_, device) = self.here.attach(&self.volume).await?;
        let held = if was_here { "here already, so it is only read" } else { "attached for this" };
        self.tell("volume", &format!("{}, {held}", self.volume));
        let drilled = self.on_device(&device, !was_here).await;
        if !was_here {
            self.here.detach(&self.volume).await?;
            self.tell("detached", "as it was before");
        }
        drilled
    }

    async fn on_device(&self, device: &Device, is_own: bool) -> Result<DrillReport> {
        let Device::Nbd { uri } = device else {
            bail!(
                "{device} is the kernel's: a drill measures through NBD, on a host that runs with \
                 `--paths user`"
            )
        };
        // What would be refused is refused before anybody has to wait.
        let dry: Answer<Value> = self.ask("/drill?dry-run=true", &self.start()).await?;
        drop(dry);
        let mut probe = Probe::open(uri, self.compare, is_own)?;
        let blocks = probe.blocks();
        probe = tokio::task::spawn_blocking(move || probe.remember()).await??;
        self.tell("read", &format!("{blocks} blocks, to compare them later"));
        let before = self.target().await?;
        let stop = probe.stop_sign();
        let working = tokio::task::spawn_blocking(move || probe.work());
        tokio::time::sleep(BEFORE).await;
        let struck = self.strike(&before).await;
        if struck.is_ok() {
            tokio::time::sleep(AFTER).await;
        }
        stop.set();
        let (probe, seen) = working.await.context("using the volume")??;
        let after = struck?;
        let wrong = tokio::task::spawn_blocking(move || probe.compare()).await??;
        let report = report(&before, &after, &seen, blocks, wrong, is_own);
        self.conclude(&report, is_own).await?;
        Ok(report)
    }

    /// Ends the target, and waits for the next one.
    async fn strike(&self, before: &TargetShown) -> Result<TargetShown> {
        let end = Instant::now() + self.here.patience;
        let _: Answer<Value> = self.ask("/drill", &self.start()).await?;
        self.tell("struck", &format!("the target on {} is ended, without a word", before.node));
        loop {
            let target = self.target().await;
            if let Ok(target) = target
                && target.target.epoch > before.target.epoch
                && target.seen == "serving"
            {
                self.tell("served", &format!("by {} again", target.node));
                return Ok(target);
            }
            if Instant::now() >= end {
                bail!(
                    "no new target serves yet: see `holdfast why volume {}`; an engine that is too \
                     old for drills does not end its target",
                    self.volume
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn conclude(&self, report: &DrillReport, is_own: bool) -> Result<()> {
        self.tell(
            "gap",
            &format!(
                "{} between two answers at most; {} reads and {} writes, none failed",
                report.gap, report.reads, report.writes
            ),
        );
        let other = if is_own { "are wrong" } else { "differ: whoever has it may have written" };
        let differing = if is_own { report.wrong } else { report.changed };
        self.tell("compared", &format!("{} blocks, {differing} {other}", report.compared));
        let _: Answer<Value> = self.ask("/drill/report", report).await?;
        let seconds = self.here.patience.as_secs();
        let healed: VolumeShown =
            self.client().get(&format!("{}?wait=healthy&timeout={seconds}s", self.path)).await?;
        match healed.status.status.health {
            Health::Healthy => self.tell("healthy", "every copy is whole"),
            other => self.tell("not yet", &format!("it is {other}: `holdfast why` tells more")),
        }
        Ok(())
    }

    const fn start(&self) -> DrillStart {
        DrillStart { on_last_copy: self.on_last_copy }
    }

    async fn ask(&self, part: &str, body: &impl serde::Serialize) -> Result<Answer<Value>> {
        let path = format!("{}{part}", self.path);
        Ok(self.client().change(Method::POST, &path, None, Some(body)).await?)
    }

    async fn target(&self) -> Result<TargetShown> {
        Ok(self.client().get(&format!("/v1/targets/{}", encode(&self.volume))).await?)
    }

    fn client(&self) -> &Client {
        &self.here.client
    }

    fn tell(&self, word: &str, rest: &str) {
        if !self.here.json {
            println!("{word:>9}  {rest}");
        }
    }
}

fn report(
    before: &TargetShown,
    after: &TargetShown,
    seen: &Seen,
    compared: u64,
    differing: u64,
    is_own: bool,
) -> DrillReport {
    let (wrong, changed) = if is_own { (differing, 0) } else { (0, differing) };
    DrillReport {
        from: before.node.clone(),
        to: after.node.clone(),
        gap: Millis(u64::try_from(seen.gap.as_millis()).unwrap_or(u64::MAX)),
        reads: seen.reads,
        writes: seen.writes,
        compared,
        wrong: wrong + seen.wrong,
        changed,
    }
}
