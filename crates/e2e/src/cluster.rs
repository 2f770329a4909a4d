//! `cargo xtask e2e cluster`: a whole cluster, struck at random while applications verify.
//!
//! Every process is real and has a machine of its own, played by a network namespace. Strikes come
//! from a seed, overlap, and wait for nobody's health. When they are over, everything must heal,
//! every block must be right, and the doctor must find nothing.

mod chaos;
mod copies;
pub(crate) mod report;
mod run;
mod schedule;
mod watcher;

use std::{
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use e2e::{
    bed::{Bed, CONTROLLERS, Stores},
    binary::built,
};
use local::{Member, Network};
use model::Bytes;
use serde_json::json;

use self::run::Course;
pub(crate) use self::{
    chaos::Chaos,
    report::Report,
    schedule::{Planned, Strike},
    watcher::Watcher,
};

/// Strikes in the short form, on each store.
const SHORT: Duration = Duration::from_secs(20);
const NODES: u16 = 3;
const POOL: Bytes = Bytes::mib(1024);

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Strike for so long, on all stores together; the short form takes 20 s on each
    #[arg(long)]
    minutes: Option<u64>,
    /// The same seed, the same strikes at the same times [default: the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Where records are kept
    #[arg(long, value_enum, default_value_t = Stores::Both)]
    store: Stores,
    /// Whether each process has a machine of its own: without one no network can be cut
    #[arg(long, value_enum, default_value_t = Machines::Namespaces)]
    network: Machines,
    /// At the end, read every copy alone, too; the long form does
    #[arg(long)]
    copies: bool,
    /// Write the report there, too, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The binary that is run; else it is built
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// This process has the namespaces that it needs, and this binary was chosen
    #[arg(long, value_name = "PATH", hide = true)]
    inside: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Machines {
    Namespaces,
    Loopback,
}

pub fn main(options: &Options) -> Result<()> {
    let chosen = options.inside.clone().or_else(|| options.binary.clone());
    let binary = chosen.map_or_else(built, Ok)?;
    let network = match options.network {
        Machines::Loopback => Network::Loopback,
        Machines::Namespaces if options.inside.is_some() => Network::Namespaces,
        Machines::Namespaces => return enter(&binary, "--network loopback"),
    };
    if network == Network::Namespaces {
        Network::build(&everybody()).context("making namespaces; else say --network loopback")?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let stores = options.store.each();
    let count = u32::try_from(stores.len())?;
    let length = options.minutes.map_or(SHORT, |minutes| Duration::from_mins(minutes) / count);
    let seed = options.seed.unwrap_or_else(time_as_seed);
    let reads_copies = options.copies || options.minutes.is_some();
    let course = Course { seed, length, reads_copies };
    let mut kept = Vec::new();
    for store in stores {
        println!("seed {seed}, {store} store, {length:?} of strikes");
        let bed = Bed {
            binary: binary.clone(),
            network,
            store: *store,
            nodes: NODES,
            pool_size: POOL,
            controller_words: Vec::new(),
        };
        let report = runtime.block_on(run::strike(&bed, &course))?;
        report.print();
        kept.push(json!({ "seed": seed, "store": store.to_string(), "report": report.json() }));
    }
    if let Some(file) = &options.json {
        let text = serde_json::to_vec_pretty(&kept)?;
        std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

/// Everybody that any run may need.
pub(crate) fn everybody() -> Vec<Member> {
    let controllers = (1..=CONTROLLERS).map(Member::Controller);
    let engines = (1..=NODES).map(Member::Engine);
    controllers.chain(engines).chain([Member::Host(1), Member::Etcd]).collect()
}

/// This program again, in namespaces of its own. `without` says how to do without them.
pub(crate) fn enter(binary: &Path, without: &str) -> Result<()> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--propagation", "private"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("--").arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    command.arg("--inside").arg(binary);
    let error = command.exec();
    bail!("unshare cannot be run: {error}; without namespaces say {without}")
}

fn time_as_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(1)
}
