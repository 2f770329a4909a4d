//! What a replicated volume costs: engines as processes, all on one core, the host on another.
//!
//! Prints a row of JSON per case; `cargo xtask bench engine` makes a table of them.

mod idle;
mod world;

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::{Context as _, Result};
use clap::Args;
use disk::bench::{Bench, Pattern, Speed};
use serde_json::{Value, json};

use self::world::{Medium, Shape, World};

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where files are made
    folder: PathBuf,
    /// Only cases whose name has this in it
    only: Option<String>,
    /// The binary whose engines are measured; else it is built
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// How long each case runs, and how often: the middle one counts.
const SPAN: Duration = Duration::from_millis(700);
const ROUNDS: usize = 3;
/// Engines have the first core, the host and the stand-in for the controller the second.
const ENGINES: usize = 0;
const HOST: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    depth: usize,
    blocks: u32,
    is_write: bool,
    flush_every: u64,
}

const fn case(name: &'static str, depth: usize, blocks: u32, is_write: bool) -> Case {
    Case { name, depth, blocks, is_write, flush_every: 0 }
}

const CASES: [Case; 9] = [
    case("read 4k depth 1", 1, 1, false),
    case("read 4k depth 32", 32, 1, false),
    case("read 4k depth 128", 128, 1, false),
    case("write 4k depth 1", 1, 1, true),
    case("write 4k depth 32", 32, 1, true),
    Case { flush_every: 32, ..case("write 4k depth 32, flush every 32", 32, 1, true) },
    case("write 4k depth 128", 128, 1, true),
    case("read 128k in order, depth 16", 16, 32, false),
    case("write 128k in order, depth 16", 16, 32, true),
];

const SHAPES: [(&str, Shape); 5] = [
    ("one local", Shape { replicas: 1, has_bare: false }),
    ("one remote", Shape { replicas: 1, has_bare: true }),
    ("two", Shape { replicas: 2, has_bare: false }),
    ("two remote", Shape { replicas: 2, has_bare: true }),
    ("three", Shape { replicas: 3, has_bare: false }),
];

pub fn main(options: &Options) -> Result<()> {
    tracing_subscriber::fmt().with_max_level(tracing::Level::ERROR).with_ansi(false).init();
    let binary = options.binary.clone().map_or_else(e2e::binary::built, Ok)?;
    let own = std::process::id().to_string();
    let bind = ["--all-tasks", "--cpu-list", "--pid", &HOST.to_string(), &own];
    Command::new("taskset").args(bind).output().context("binding to a core")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for medium in [Medium::Memory, Medium::File] {
        for (name, shape) in SHAPES {
            let title = format!("{name}, {}", medium.name());
            if options.only.as_ref().is_some_and(|only| !title.contains(only)) {
                continue;
            }
            runtime.block_on(measure(&title, &binary, medium.folder(&options.folder), shape))?;
        }
    }
    if options.only.as_ref().is_none_or(|only| "idle".contains(only.as_str())) {
        idle::run(&binary, &options.folder)?;
    }
    Ok(())
}

async fn measure(
    title: &str,
    binary: &std::path::Path,
    folder: PathBuf,
    shape: Shape,
) -> Result<()> {
    let mut world = World::start(binary, &folder, shape).await?;
    for case in CASES {
        let bench = Bench {
            duration: SPAN,
            depth: case.depth,
            blocks: case.blocks,
            is_write: case.is_write,
            pattern: if case.blocks == 1 { Pattern::Random } else { Pattern::Sequential },
            flush_every: case.flush_every,
        };
        let mut speeds: Vec<Speed> = Vec::new();
        for _ in 0..ROUNDS {
            speeds.push(world.bench(&bench).await?);
        }
        speeds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        tell(&format!("{title}: {}", case.name), &speeds[speeds.len() / 2]);
    }
    let behind = world.read_behind_writes().await?;
    tell(&format!("{title}: read 4k depth 1 behind writes of depth 128"), &behind);
    if shape.replicas > 1 {
        let (mib_per_second, foreground) = world.rebuild().await?;
        print(&json!({
            "case": format!("{title}: rebuild, MiB/s"),
            "value": mib_per_second.round(),
        }));
        tell(&format!("{title}: read and write 4k depth 4 during the rebuild"), &foreground);
    }
    Ok(())
}

fn tell(case: &str, speed: &Speed) {
    print(&json!({
        "case": case,
        "per_second": speed.per_second.round(),
        "p50_us": micros(speed.p50),
        "p99_us": micros(speed.p99),
    }));
}

fn print(row: &Value) {
    println!("{row}");
}

fn micros(span: Duration) -> f64 {
    (span.as_secs_f64() * 10_000_000.0).round() / 10.0
}
