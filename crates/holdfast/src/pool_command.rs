//! `holdfast pool`: a pool on a file or device that no engine has open.

mod drive;

use std::{
    io::{ErrorKind, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use block::BLOCK;
use clap::{Args, Subcommand};
use model::{Bytes, PoolId};
use pool::{
    Boot, Flaws, Format, FormatOptions, Fsck, Import, ImportOptions, Imported, Pool, Report,
    Request, RequestId, Sizes,
};
use serde_json::{Value, json};
use uring::Disk;
use uuid::Uuid;

use self::drive::{Asked, Medium, drive};
use crate::disk_command::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Make a pool; refuses a file or device that carries anything
    Create {
        #[command(flatten)]
        on: On,
        /// Make the file, of this size
        #[arg(long)]
        size: Option<Bytes>,
        /// [default: a new one]
        #[arg(long)]
        id: Option<Uuid>,
        /// A name for people [default: the id]
        #[arg(long)]
        name: Option<String>,
        /// Overwrite what it carries, named as `create` names it when it refuses
        #[arg(long, value_name = "WHAT IT CARRIES")]
        force_over: Option<String>,
    },
    /// Open a pool as an engine would, replay its journal and leave it clean
    Import {
        #[command(flatten)]
        on: On,
    },
    /// Read and check everything; changes nothing
    Fsck {
        #[command(flatten)]
        on: On,
    },
    /// Tell every replica and snapshot; changes nothing
    Dump {
        #[command(flatten)]
        on: On,
    },
    /// Say what a file or device carries; changes nothing
    #[command(name = "info")]
    Look {
        #[command(flatten)]
        on: On,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct On {
    /// The file or block device
    disk: PathBuf,
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl PoolCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let (on, told) = match self {
            Self::Create { on, size, id, name, force_over } => {
                let id = PoolId(id.unwrap_or_else(Uuid::new_v4));
                let told = create(&on.disk, size, id, name, force_over.as_deref())?;
                (on, told)
            }
            Self::Import { on } => {
                let told = import(&on.disk)?;
                (on, told)
            }
            Self::Fsck { on } => {
                let told = report(&check(&mut open(&on.disk)?)?);
                (on, told)
            }
            Self::Dump { on } => {
                let mut medium = open(&on.disk)?.unchanged();
                let told = dump(&open_pool(&mut medium)?.pool);
                (on, told)
            }
            Self::Look { on } => {
                let told = describe(&mut open(&on.disk)?)?;
                (on, told)
            }
        };
        let text = match on.output {
            Output::Json => format!("{told:#}"),
            Output::Text => table(&told, 0).join("\n"),
        };
        match writeln!(std::io::stdout(), "{text}") {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            written => written?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn open(path: &Path) -> Result<Medium> {
    Medium::new(Disk::open(path)?)
}

fn create(
    path: &Path,
    size: Option<Bytes>,
    id: PoolId,
    name: Option<String>,
    force_over: Option<&str>,
) -> Result<Value> {
    let mut medium = match size {
        Some(size) if !path.exists() => {
            let size = size.0.next_multiple_of(BLOCK as u64);
            Medium::new(Disk::create(path, size)?)?
        }
        Some(_) => bail!("{} is there already: leave out --size", path.display()),
        None => open(path)?,
    };
    let carries = medium.probe()?;
    let force = match (carries.map(|carries| carries.to_string()), force_over) {
        (None, None) => false,
        (None, Some(what)) => bail!("{} does not carry {what}: it is blank", path.display()),
        (Some(found), Some(what)) if found == what => true,
        (Some(found), Some(what)) => {
            bail!("{} carries {found}, not {what}: nothing was changed", path.display())
        }
        (Some(found), None) => bail!(
            "{} carries {found}: to destroy that, say --force-over \"{found}\"",
            path.display()
        ),
    };
    let blocks = medium.blocks();
    let options = FormatOptions {
        pool: id,
        name: name.unwrap_or_else(|| id.to_string()),
        blocks,
        sizes: Sizes::usual(blocks),
        force,
    };
    drive(&mut Format::new(options), &mut medium)??;
    describe(&mut medium)
}

fn check(medium: &mut Medium) -> Result<Report> {
    Ok(drive(&mut Fsck::new(medium.blocks()), medium)??)
}

fn open_pool(medium: &mut Medium) -> Result<Imported> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let boot = boot.and_then(|text| text.trim().parse().ok()).unwrap_or_else(Uuid::new_v4);
    let options = ImportOptions {
        blocks: medium.blocks(),
        boot: Boot(boot.as_u128()),
        discard: false,
        flaws: Flaws::default(),
    };
    Ok(drive(&mut Import::new(options), medium)??)
}

fn import(path: &Path) -> Result<Value> {
    let mut medium = open(path)?;
    let Imported { mut pool, stop, replayed, findings } = open_pool(&mut medium)?;
    let request = RequestId(1);
    pool.submit(request, Request::Export);
    drive(&mut Asked { pool: &mut pool, request }, &mut medium)?
        .context("leaving the pool clean")?;
    let mut told = summary(&pool);
    told["was_left"] = format!("{stop:?}").to_lowercase().into();
    told["replayed"] = replayed.into();
    told["findings"] = findings.iter().map(ToString::to_string).collect();
    Ok(told)
}

/// What it carries, and of a pool what its head says.
fn describe(medium: &mut Medium) -> Result<Value> {
    let size = Bytes(medium.blocks() * BLOCK as u64);
    Ok(match medium.probe()? {
        None => json!({ "carries": "nothing known", "size": size.to_string() }),
        Some(pool::Carries::Pool(_)) => report(&check(medium)?),
        Some(other) => json!({ "carries": other.to_string(), "size": size.to_string() }),
    })
}

fn report(report: &Report) -> Value {
    let size = |blocks: u64| Bytes(blocks * BLOCK as u64).to_string();
    json!({
        "carries": format!("pool {}", report.pool),
        "pool": report.pool,
        "name": report.name,
        "size": size(report.geometry.blocks),
        "space": size(report.geometry.clusters * pool::CLUSTER),
        "used": report.used.to_string(),
        "replicas": report.replicas,
        "snapshots": report.snapshots,
        "clean": report.is_clean,
        "batches_to_replay": report.batches,
        "findings": report.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn summary(pool: &Pool) -> Value {
    let stats = pool.stats();
    json!({
        "pool": pool.id(),
        "name": pool.name(),
        "capacity": stats.capacity.to_string(),
        "used": stats.used.to_string(),
        "reserved": stats.reserved.to_string(),
        "committed": stats.committed.to_string(),
        "free": stats.free.to_string(),
    })
}

fn dump(pool: &Pool) -> Value {
    let size = |blocks: u64| Bytes(blocks * BLOCK as u64).to_string();
    let replicas = pool.replicas().map(|replica| {
        json!({
            "replica": replica.replica,
            "volume": replica.volume,
            "size": size(replica.blocks),
            "thin": replica.thin,
            "epoch": replica.header.epoch,
            "roster": replica.header.roster,
            "members": replica.header.members,
            "own": replica.space.own.to_string(),
            "shared": replica.space.ancestors.to_string(),
            "record": serde_json::from_slice(replica.carried.1).unwrap_or(Value::Null),
        })
    });
    let snapshots = pool.snapshots().map(|snapshot| {
        json!({
            "snapshot": snapshot.snapshot,
            "replica": snapshot.replica,
            "volume": snapshot.volume,
            "name": snapshot.name,
            "size": size(snapshot.blocks),
            "own": snapshot.space.own.to_string(),
        })
    });
    let mut told = summary(pool);
    told["replicas"] = replicas.collect();
    told["snapshots"] = snapshots.collect();
    told["history"] = serde_json::to_value(pool.mark()).unwrap_or_default();
    told["record"] = serde_json::from_slice(pool.carried().1).unwrap_or(Value::Null);
    told
}

/// For people: a name and a value a line, what is inside further in.
fn table(told: &Value, depth: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, value) in told.as_object().into_iter().flatten() {
        let name = format!("{:depth$}{}", "", name.replace('_', " "));
        match value {
            Value::Array(items) if items.is_empty() => lines.push(format!("{name:<20} none")),
            Value::Array(items) => {
                lines.push(name);
                for item in items {
                    match item {
                        Value::String(line) => lines.push(format!("{:depth$}  {line}", "")),
                        item => lines.extend(table(item, depth + 2)),
                    }
                }
            }
            Value::String(line) => lines.push(format!("{name:<20} {line}")),
            value => lines.push(format!("{name:<20} {value}")),
        }
    }
    lines
}
