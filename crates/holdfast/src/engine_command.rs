//! `holdfast engine`: a node's storage, told what to do by controllers or by a file.

mod alone;
pub(crate) mod identity;
mod spec;

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use controller::{Opened, StoreUrl};
use engine::{Engine, Records, Served, Settings};
use model::{Millis, NodeId};
use tracing::info;
use uring::Backend;
use uuid::Uuid;

use self::{alone::Alone, spec::Spec};
use crate::{
    ending::Ending,
    listen::{Trust, allow},
};

/// Where targets are served, if nothing else is said: the port that NVMe/TCP has.
const LISTEN: &str = "127.0.0.1:4420";

#[derive(Debug, Args)]
pub(crate) struct EngineCommand {
    /// Serve what this file lists, without any controller
    #[arg(long, value_name = "SPEC.toml", conflicts_with_all = ["controllers", "etcd"])]
    serve: Option<PathBuf>,
    /// A controller to connect to; may be given several times
    #[arg(long = "controller", value_name = "HOST:PORT", required_unless_present = "serve")]
    controllers: Vec<String>,
    /// Keep membership records straight in etcd instead of through a controller
    #[arg(long, value_name = "URL[,URL]")]
    etcd: Option<String>,
    /// This node's id; else the one in the state folder, made at the first start
    #[arg(long, value_name = "UUID")]
    node_id: Option<Uuid>,
    /// This node's name [default: the machine's]
    #[arg(long)]
    name: Option<String>,
    /// The folder of what this engine must remember
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Where targets and replicas are served [default: 127.0.0.1:4420]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The address that others dial, if it is not the one that is listened on
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// Metrics, health and the inventory over HTTP
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,
    /// A disk to look for a pool on; may be given several times
    #[arg(long = "disk", value_name = "PATH")]
    disks: Vec<PathBuf>,
    /// How to reach disks and sockets
    #[arg(long, value_enum, default_value_t = With::Auto)]
    backend: With,
    /// Checksums on the way to replicas on this machine, too; to others there always are some
    #[arg(long)]
    digests: bool,
    /// After so long without a write a region counts as equal on all replicas: no resync copies it
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 10_000)]
    clean_after: u64,
    /// Let faults be injected through the admin port: for tests
    #[arg(long)]
    allow_faults: bool,
    /// Listen beyond loopback without TLS: anyone who reaches it is let in
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    ending: Ending,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum With {
    /// `io_uring`, or threads where it is forbidden
    Auto,
    Uring,
    Threads,
}

impl EngineCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
        // The control side is little work; data has a thread of its own.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self.serve.clone() {
                Some(file) => self.serve_alone(&file).await,
                None => self.serve_controllers().await,
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    async fn serve_controllers(self) -> Result<()> {
        let node = match (self.node_id, &self.state) {
            (Some(id), _) => NodeId(id),
            (None, Some(folder)) => identity::kept(folder)?,
            (None, None) => bail!("say who this node is: --node-id UUID, or --state FOLDER"),
        };
        let records = match &self.etcd {
            None => Records::Controllers,
            Some(urls) => open_etcd(urls).await?,
        };
        let ending = self.ending;
        let settings = self.settings(node, records)?;
        let engine = engine::start(settings, Vec::new()).await?;
        ending.told().await?;
        info!("stopping");
        engine.stop().await;
        Ok(())
    }

    async fn serve_alone(mut self, file: &std::path::Path) -> Result<()> {
        let spec = Spec::read(file)?;
        self.listen = self.listen.or(spec.listen);
        self.admin = self.admin.or(spec.admin);
        self.state = self.state.or_else(|| spec.state.clone());
        let alone = Alone::open(spec.volumes.clone(), self.state.as_deref()).await?;
        let node = self.node_id.map_or(alone.node(), NodeId);
        let (advertised, ending) = (self.advertise.clone(), self.ending);
        let settings = self.settings(node, alone.records())?;
        let served: Vec<Served> =
            spec.devices.iter().map(spec::Device::open).collect::<Result<_>>()?;
        let exports = spec.exports();
        let engine = engine::start(settings, served).await?;
        // It must not die of being told to stop while it waits for its disks.
        let ready = tokio::select! {
            ready = alone.begin(&engine) => Some(ready),
            stopped = ending.told() => stopped.map(|()| None)?,
        };
        if let Some(ready) = ready {
            if let Err(error) = ready {
                engine.stop().await;
                return Err(error);
            }
            announce(&engine, advertised.as_deref(), &exports);
            ending.told().await?;
        }
        info!("stopping");
        alone.end(&engine).await;
        engine.stop().await;
        Ok(())
    }

    fn settings(self, node: NodeId, records: Records) -> Result<Settings> {
        let trust = if self.insecure { Trust::Anyone } else { Trust::Loopback };
        let listen = match self.listen {
            Some(listen) => listen,
            None => LISTEN.parse()?,
        };
        allow("hosts and other engines", listen, trust)?;
        if let Some(admin) = self.admin {
            allow("metrics and faults", admin, trust)?;
        }
        Ok(Settings {
            node,
            name: self.name.unwrap_or_else(identity::machine),
            listen,
            advertise: self.advertise,
            admin: self.admin,
            controllers: self.controllers,
            disks: self.disks,
            records,
            backend: match self.backend {
                With::Auto => Backend::Auto,
                With::Uring => Backend::Uring,
                With::Threads => Backend::Threads,
            },
            takes_faults: self.allow_faults,
            checks_loopback: self.digests,
            times: mirror::Times { idle: Millis(self.clean_after), ..mirror::Times::default() },
            throttle: mirror::Throttle::default(),
        })
    }
}

/// One line for each thing that is served: its name and where it is.
fn announce(engine: &Engine, advertised: Option<&str>, exports: &[(String, Uuid)]) {
    let address = advertised.map_or_else(|| engine.address.to_string(), str::to_owned);
    for (name, id) in exports {
        println!("{name} nvme-tcp://{address}/{}", engine::nqn(*id));
    }
    if let Some(admin) = engine.admin {
        println!("metrics http://{admin}/metrics");
    }
}

async fn open_etcd(urls: &str) -> Result<Records> {
    let url: StoreUrl = format!("etcd:{urls}").parse()?;
    match url.open().await.context("connecting to etcd")? {
        Opened::Etcd(etcd) => Ok(Records::Etcd(Box::new(etcd))),
        Opened::Embedded(_) => bail!("{urls} is no etcd"),
    }
}
