//! `holdfast up` and `holdfast down`: a whole cluster on one machine.

mod demo;
mod keep;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use clap::Args;
use local::{Binary, Cluster, Folder, Ports, Shape};
use model::Bytes;

use crate::ending::Ending;

/// Where its data lies, if nothing else is said.
const DATA: &str = "holdfast-data";
const READY_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug, Args)]
pub(crate) struct UpCommand {
    /// The folder of its data [default: holdfast-data; a new one in the demo]
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// How many nodes; an old cluster may gain some
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    nodes: u16,
    /// How large the disk of each node may grow
    #[arg(long, default_value = "8GiB", value_parser = size)]
    pool_size: Bytes,
    /// The first of its ports: engines connect there, users at the next [default: 7420]
    #[arg(long)]
    port: Option<u16>,
    /// Keep its records in this etcd instead of the folder
    #[arg(long, value_name = "URL[,URL]")]
    etcd: Option<String>,
    /// Show what it is for: kill a target and a replica under a verifying workload, and end
    #[arg(long)]
    demo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DownCommand {
    /// The folder of its data
    #[arg(long, value_name = "FOLDER", default_value = DATA)]
    data: PathBuf,
    /// Delete the folder, with every volume
    #[arg(long)]
    wipe: bool,
}

fn size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|error: model::Invalid| error.to_string())?;
    if size < Bytes::mib(64) { Err("a disk has at least 64 MiB".into()) } else { Ok(size) }
}

impl UpCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            // Told to stop at any moment, it drops the cluster, and nothing is left running.
            tokio::select! {
                done = self.up() => done,
                told = Ending::default().told(), if self.demo => {
                    told?;
                    bail!("stopped in the middle of the demo")
                }
            }
        })
    }

    async fn up(&self) -> Result<ExitCode> {
        if self.demo && self.data.is_none() {
            let folder = tempfile::Builder::new().prefix("holdfast-demo-").tempdir()?;
            return demo::run(self.open(&folder.path().join("data"))?).await;
        }
        let data = self.data.clone().unwrap_or_else(|| DATA.into());
        let cluster = self.open(&data)?;
        if self.demo { demo::run(cluster).await } else { keep::run(cluster, &data).await }
    }

    fn open(&self, data: &std::path::Path) -> Result<Cluster> {
        let ports = match self.port {
            Some(first) => Ports { first },
            None if self.demo => Ports::unused()?,
            None => Ports::USUAL,
        };
        let wanted = Shape { nodes: self.nodes, pool_size: self.pool_size, ports };
        let mut folder = Folder::open(data, wanted)?;
        if self.port.is_some() {
            folder.shape.ports = ports;
        }
        if let Some(taken) = folder.shape.ports.taken() {
            bail!("port {taken} is taken: another cluster may run, or name others with --port");
        }
        let mut binary = Binary::own(&folder.path)?;
        if let Some(etcd) = &self.etcd {
            binary.store = format!("etcd:{etcd}");
        }
        Ok(Cluster::new(folder, binary))
    }
}

impl DownCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let shown = self.data.display();
        if local::stop(&self.data)? {
            say!("the cluster in {shown} has stopped");
        } else {
            say!("no cluster runs in {shown}");
        }
        if self.wipe {
            local::wipe(&self.data)?;
            say!("{shown} is deleted");
        }
        Ok(ExitCode::SUCCESS)
    }
}
