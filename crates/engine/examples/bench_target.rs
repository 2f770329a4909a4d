//! The target beside the limit of the protocol: memory and a plain file, served over NVMe/TCP on
//! loopback, one thread for the engine and one for the client.
//!
//! Prints a row of JSON per case; `cargo xtask bench engine` makes a table of them.

#![allow(clippy::print_stdout, reason = "rows are what it is for")]

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use disk::{
    Client, Options, Uri,
    bench::{Bench, Pattern, Speed},
};
use engine::{Device, Served, Settings, nqn};
use model::NodeId;
use serde_json::{Value, json};
use uuid::Uuid;

/// How long each case runs, and how often: the middle one counts.
const SPAN: Duration = Duration::from_millis(700);
const ROUNDS: usize = 3;
const BYTES: u64 = 256 << 20;

#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    depth: usize,
    blocks: u32,
    is_write: bool,
    pattern: Pattern,
}

const fn case(name: &'static str, depth: usize, blocks: u32, is_write: bool) -> Case {
    let pattern = if blocks == 1 { Pattern::Random } else { Pattern::Sequential };
    Case { name, depth, blocks, is_write, pattern }
}

const CASES: [Case; 8] = [
    case("read 4k depth 1", 1, 1, false),
    case("read 4k depth 32", 32, 1, false),
    case("read 4k depth 128", 128, 1, false),
    case("write 4k depth 1", 1, 1, true),
    case("write 4k depth 32", 32, 1, true),
    case("write 4k depth 128", 128, 1, true),
    case("read 128k in order, depth 16", 16, 32, false),
    case("write 128k in order, depth 16", 16, 32, true),
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let only = std::env::args().nth(2);
    let path = folder.join("target.bench");
    drop(std::fs::remove_file(&path));
    let file = uring::Disk::create(&path, BYTES)?;
    let devices = [
        ("memory", Device::memory(BYTES / block::BLOCK as u64).ok_or("no memory")?),
        ("nothing", Device::nothing(BYTES / block::BLOCK as u64)),
        ("file", Device::File(file)),
    ];
    let (names, served): (Vec<_>, Vec<_>) = devices
        .into_iter()
        .map(|(name, device)| {
            let uuid = Uuid::new_v4();
            ((name, nqn(uuid)), Served { nqn: nqn(uuid), uuid, device })
        })
        .unzip();
    let settings = Settings::new(NodeId(Uuid::new_v4()), "bench".into());
    let engine = engine::start(settings, served).await?;
    for (name, nqn) in names {
        let uri = Uri { addresses: vec![engine.address], nqn };
        let mut client = Client::connect(&uri, Options::default())?;
        // fio's own file is written by fio.
        disk::bench::fill(&mut client)?;
        for case in CASES {
            let title = format!("{name}: {}", case.name);
            if only.as_ref().is_some_and(|only| !title.contains(only.as_str())) {
                continue;
            }
            let row = measure(&mut client, name, case, &path)?;
            println!("{row}");
        }
    }
    engine.abandon().await;
    drop(std::fs::remove_file(&path));
    Ok(())
}

/// The middle of several rounds; beside a file, fio does the same on another one between them.
fn measure(
    client: &mut Client,
    name: &str,
    case: Case,
    path: &Path,
) -> Result<Value, Box<dyn Error>> {
    let bench = Bench {
        duration: SPAN,
        depth: case.depth,
        blocks: case.blocks,
        is_write: case.is_write,
        pattern: case.pattern,
        flush_every: 0,
    };
    let mut ours: Vec<Speed> = Vec::new();
    let mut theirs: Vec<f64> = Vec::new();
    for _ in 0..ROUNDS {
        ours.push(disk::bench::run(client, &bench)?);
        if name == "file" {
            theirs.extend(fio(case, &path.with_extension("fio")));
        }
    }
    ours.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    theirs.sort_by(f64::total_cmp);
    let middle = &ours[ours.len() / 2];
    let mut row = json!({
        "case": format!("target, {name}: {}", case.name),
        "per_second": middle.per_second.round(),
        "p50_us": micros(middle.p50),
        "p99_us": micros(middle.p99),
    });
    if let Some(beside) = theirs.get(theirs.len() / 2) {
        row["beside"] = "fio io_uring".into();
        row["beside_per_second"] = beside.round().into();
        row["ratio"] = ((middle.per_second / beside * 100.0).round() / 100.0).into();
    }
    Ok(row)
}

fn micros(span: Duration) -> f64 {
    (span.as_secs_f64() * 10_000_000.0).round() / 10.0
}

/// Commands per second of fio on a file of its own.
fn fio(case: Case, path: &Path) -> Option<f64> {
    let mode = match (case.pattern, case.is_write) {
        (Pattern::Random, false) => "randread",
        (Pattern::Random, true) => "randwrite",
        (Pattern::Sequential, false) => "read",
        (Pattern::Sequential, true) => "write",
    };
    let output = Command::new("fio")
        .args(["--name=x", "--ioengine=io_uring", "--direct=1", "--time_based", "--runtime=1"])
        .args(["--output-format=json", "--allow_file_create=1", "--size=256M"])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--rw={mode}"))
        .arg(format!("--bs={}", case.blocks as usize * block::BLOCK))
        .arg(format!("--iodepth={}", case.depth))
        .output()
        .ok()?;
    let told: Value = serde_json::from_slice(&output.stdout).ok()?;
    let kind = if case.is_write { "write" } else { "read" };
    told["jobs"][0][kind]["iops"].as_f64()
}
