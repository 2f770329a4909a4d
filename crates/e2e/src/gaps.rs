//! `cargo xtask bench cluster`: what people feel of a cluster of real processes. How long an
//! application waits when its target dies or falls silent, and what a thousand volumes cost.

mod many;
mod rows;
mod strikes;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use e2e::{
    bed::{Bed, Store, Stores},
    binary::built,
};
use local::Network;
use model::Bytes;

use self::{rows::Rows, strikes::Counts};
use crate::cluster::{enter, everybody};

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// The file that the figures are kept in, as JSON
    #[arg(long, value_name = "FILE", default_value = "target/bench/cluster.json")]
    json: PathBuf,
    /// Kill the target's process so often, half of them while still degraded
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// Stop the target's process so often
    #[arg(long, default_value_t = 20)]
    stops: usize,
    /// Cut the target's node off the network so often; 0 needs no namespaces
    #[arg(long, default_value_t = 20)]
    cuts: usize,
    /// Make so many volumes of three copies; 0 makes none
    #[arg(long, default_value_t = 1000)]
    volumes: usize,
    #[arg(long, value_enum, default_value_t = Stores::Both)]
    store: Stores,
    /// The binary that is measured; else it is built
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// This process has the namespaces that it needs, and this binary was chosen
    #[arg(long, value_name = "PATH", hide = true)]
    inside: Option<PathBuf>,
}

pub fn main(options: &Options) -> Result<()> {
    let chosen = options.inside.clone().or_else(|| options.binary.clone());
    let binary = chosen.map_or_else(built, Ok)?;
    if options.cuts > 0 && options.inside.is_none() {
        return enter(&binary, "--cuts 0");
    }
    if options.cuts > 0 {
        Network::build(&everybody()).context("making namespaces; else say --cuts 0")?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut rows = Rows::default();
    for store in options.store.each() {
        let bed = Bed {
            binary: binary.clone(),
            network: Network::Loopback,
            store: *store,
            nodes: 3,
            pool_size: Bytes::gib(16),
            controller_words: Vec::new(),
        };
        runtime.block_on(measure(options, &bed, &mut rows))?;
    }
    println!("\n{rows}");
    let text = serde_json::to_vec_pretty(&rows.json())?;
    if let Some(folder) = options.json.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&options.json, text)
        .with_context(|| format!("writing {}", options.json.display()))?;
    println!("kept in {}", options.json.display());
    Ok(())
}

async fn measure(options: &Options, bed: &Bed, rows: &mut Rows) -> Result<()> {
    let store = bed.store;
    if options.kills + options.stops > 0 {
        let counts = Counts { kills: options.kills, stops: options.stops, cuts: 0 };
        let gaps = strikes::run(bed, counts).await?;
        rows.gaps(&format!("{store}: target killed while healed"), &gaps.healed, 1.0);
        rows.gaps(&format!("{store}: target killed while degraded"), &gaps.degraded, 1.0);
        rows.gaps(&format!("{store}: target's process stopped"), &gaps.stopped, 5.0);
    }
    if options.cuts > 0 {
        let apart = Bed { network: Network::Namespaces, ..bed.clone() };
        let counts = Counts { cuts: options.cuts, ..Counts::default() };
        let gaps = strikes::run(&apart, counts).await?;
        rows.gaps(&format!("{store}: target's node cut off the network"), &gaps.cut, 5.0);
    }
    if options.volumes > 0 {
        let cost = many::run(bed, options.volumes).await?;
        let many = format!("{store}: {} volumes of 3 copies", options.volumes);
        rows.at_least(&format!("{many}: made, each second"), cost.per_second, 50.0);
        rows.at_most(&format!("{many}: controller resident, MiB"), cost.resident_mib, 200.0);
        rows.at_most(&format!("{many}: controller idle, % of a core"), cost.idle_percent, 1.0);
        // The lease of the one before must end first.
        let goal = if store == Store::Etcd { 6.0 } else { 3.0 };
        rows.at_most(&format!("{many}: restarted, all seen well, s"), cost.restart, goal);
    }
    Ok(())
}
