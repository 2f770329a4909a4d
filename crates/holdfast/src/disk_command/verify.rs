//! `holdfast disk fill` and `verify`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use disk::{
    Client, Ledger, Promise,
    verify::{self, Tally, VerifyError, Workload},
};
use serde_json::json;

use super::{Output, To, progress::Progress};

#[derive(Debug, Args)]
pub(crate) struct Fill {
    #[command(flatten)]
    to: To,
    /// The file that says what each block must hold; made anew
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
    /// Tells this fill from others [default: the time]
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    to: To,
    /// The file that says what each block must hold; made, for a disk of zeros, if it is not there
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
    /// How long to write and read at random; 0 only checks
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// How many of a hundred commands write
    #[arg(long, value_name = "PERCENT", default_value_t = 50,
        value_parser = clap::value_parser!(u8).range(0..=100))]
    writes: u8,
    /// Commands under way at once
    #[arg(long, default_value_t = 32, value_parser = depth)]
    depth: usize,
    /// Flush after so many writes
    #[arg(long, value_name = "WRITES", default_value_t = 64)]
    flush_every: u64,
    /// The largest command, in blocks of 4 KiB
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    blocks_max: u32,
    /// From when on a write must be kept
    #[arg(long, value_enum, default_value_t = From::Acknowledged)]
    promise: From,
    /// Another seed, another workload [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Do not read the whole disk before and after
    #[arg(long)]
    no_check: bool,
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum From {
    /// Once it is acknowledged: machines may die, but not all of them lose power
    Acknowledged,
    /// Once a flush after it is acknowledged: whatever happens
    Flushed,
}

/// Commands that a queue can have under way.
pub(super) fn depth(text: &str) -> Result<usize, String> {
    let depth: usize = text.parse().map_err(|_| "not a number".to_owned())?;
    if (1..=1024).contains(&depth) { Ok(depth) } else { Err("from 1 to 1024".into()) }
}

fn time_as_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(1)
}

impl Fill {
    pub(super) fn run(self) -> Result<()> {
        let mut client = self.to.connect()?;
        let blocks = client.blocks();
        let seed = self.seed.unwrap_or_else(time_as_seed);
        let mut ledger = Ledger::create(&self.ledger, seed, blocks)
            .with_context(|| format!("making the ledger {}", self.ledger.display()))?;
        let mut progress = Progress::new("filling", blocks);
        let filled = verify::fill(&mut client, &mut ledger, |done| progress.at(done))?;
        if filled.lost_told > 0 {
            bail!("the flush at the end failed: what was written may be gone");
        }
        drop(progress);
        println!(
            "{blocks} blocks written and flushed; {} says what they hold",
            self.ledger.display()
        );
        Ok(())
    }
}

impl Verify {
    /// Ends with an error only if the work could not be done; a wrong block is a finding.
    pub(super) fn run(self) -> Result<ExitCode> {
        let mut client = self.to.connect_for(self.depth)?;
        let mut ledger = self.open_ledger(&client)?;
        match self.work(&mut client, &mut ledger) {
            Ok(tally) => {
                self.tell(&tally, None);
                Ok(ExitCode::SUCCESS)
            }
            Err(VerifyError::Wrong(wrong)) => {
                self.tell(&Tally::default(), Some(&wrong));
                Ok(ExitCode::FAILURE)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn open_ledger(&self, client: &Client) -> Result<Ledger> {
        let named = || format!("the ledger {}", self.ledger.display());
        if Path::new(&self.ledger).exists() {
            return Ledger::open(&self.ledger, client.blocks()).with_context(named);
        }
        let seed = self.seed.unwrap_or_else(time_as_seed);
        Ledger::create(&self.ledger, seed, client.blocks()).with_context(named)
    }

    fn work(&self, client: &mut Client, ledger: &mut Ledger) -> Result<Tally, VerifyError> {
        let mut tally = Tally::default();
        if !self.no_check || self.seconds == 0 {
            add(&mut tally, &check(client, ledger)?);
        }
        if self.seconds > 0 {
            let workload = Workload {
                duration: Duration::from_secs(self.seconds),
                depth: self.depth,
                writes: self.writes,
                flush_every: self.flush_every,
                blocks_max: self.blocks_max,
                promise: match self.promise {
                    From::Acknowledged => Promise::Acknowledged,
                    From::Flushed => Promise::Flushed,
                },
                seed: self.seed.unwrap_or_else(time_as_seed),
                ..Workload::default()
            };
            add(&mut tally, &verify::run(client, ledger, &workload)?);
            if !self.no_check {
                add(&mut tally, &check(client, ledger)?);
            }
        }
        Ok(tally)
    }

    fn tell(&self, tally: &Tally, wrong: Option<&disk::Wrong>) {
        if self.output == Output::Json {
            let told = json!({
                "wrong": wrong.map(ToString::to_string),
                "wrong_block": wrong.map(|wrong| wrong.block),
                "reads": tally.reads,
                "writes": tally.writes,
                "flushes": tally.flushes,
                "losses_told": tally.lost_told,
                "longest_gap_ms": u64::try_from(tally.gap.as_millis()).unwrap_or(u64::MAX),
                "path_changes": tally.switches,
            });
            println!("{told:#}");
        } else if let Some(wrong) = wrong {
            println!("WRONG: {wrong}");
        } else {
            println!(
                "every block is right: {} reads, {} writes, {} flushes, longest gap {:?}, \
                 {} path changes, {} losses told",
                tally.reads,
                tally.writes,
                tally.flushes,
                tally.gap,
                tally.switches,
                tally.lost_told
            );
        }
    }
}

fn check(client: &mut Client, ledger: &mut Ledger) -> Result<Tally, VerifyError> {
    let mut progress = Progress::new("checking", client.blocks());
    verify::check(client, ledger, |done| progress.at(done))
}

fn add(to: &mut Tally, more: &Tally) {
    to.reads += more.reads;
    to.writes += more.writes;
    to.flushes += more.flushes;
    to.lost_told += more.lost_told;
    to.gap = to.gap.max(more.gap);
    to.switches += more.switches;
}
