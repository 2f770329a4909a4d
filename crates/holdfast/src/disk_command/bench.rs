//! `holdfast disk bench`.

use std::time::Duration;

use anyhow::{Result, bail};
use block::BLOCK;
use clap::{ArgGroup, Args};
use disk::bench::{self, Pattern, Speed};
use model::Bytes;
use serde_json::json;

use super::{Output, To, verify::depth};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("direction").required(true)))]
pub(crate) struct Bench {
    #[command(flatten)]
    to: To,
    /// Measure reads
    #[arg(long, group = "direction")]
    read: bool,
    /// Measure writes, over whatever is there
    #[arg(long, group = "direction")]
    write: bool,
    /// Commands under way at once
    #[arg(long, default_value_t = 32, value_parser = depth)]
    depth: usize,
    /// Bytes of one command: 4KiB, 128KiB
    #[arg(long, default_value = "4KiB")]
    size: Bytes,
    /// One after the other instead of at random
    #[arg(long)]
    sequential: bool,
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Flush after so many writes; 0 never
    #[arg(long, value_name = "WRITES", default_value_t = 0)]
    flush_every: u64,
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Bench {
    pub(super) fn run(self) -> Result<()> {
        let mut client = self.to.connect_for(self.depth)?;
        let most = Bytes(u64::try_from(client.attached().max_transfer).unwrap_or(u64::MAX));
        let unit = BLOCK as u64;
        if self.size.0 == 0 || !self.size.0.is_multiple_of(unit) || self.size > most {
            bail!("--size {}: whole blocks of {BLOCK} bytes, at most {most}", self.size);
        }
        let bench = bench::Bench {
            duration: Duration::from_secs(self.seconds),
            depth: self.depth,
            blocks: u32::try_from(self.size.0 / unit)?,
            is_write: self.write,
            pattern: if self.sequential { Pattern::Sequential } else { Pattern::Random },
            flush_every: self.flush_every,
        };
        let speed = bench::run(&mut client, &bench)?;
        self.tell(&speed);
        Ok(())
    }

    fn tell(&self, speed: &Speed) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let Speed { commands, per_second, bytes_per_second, p50, p99, max } = speed;
        let (p50, p99, max) = (micros(*p50), micros(*p99), micros(*max));
        if self.output == Output::Json {
            let told = json!({
                "direction": if self.write { "write" } else { "read" },
                "pattern": if self.sequential { "sequential" } else { "random" },
                "size": self.size.0,
                "depth": self.depth,
                "commands": commands,
                "per_second": per_second,
                "bytes_per_second": bytes_per_second,
                "p50_us": p50,
                "p99_us": p99,
                "max_us": max,
            });
            println!("{told:#}");
        } else {
            let mib = bytes_per_second / f64::from(1 << 20);
            println!(
                "{commands} commands: {per_second:.0}/s, {mib:.1} MiB/s, \
                 p50 {p50} us, p99 {p99} us, longest {max} us"
            );
        }
    }
}
