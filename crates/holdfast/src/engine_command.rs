//! `holdfast engine`: a node's storage, told what to do by controllers or by a file.

mod alone;
pub(crate) mod identity;
mod spec;

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use cli::Certificates;
use controller::{Opened, StoreUrl};
use engine::{Engine, Records, Served, Settings};
use model::{Millis, NodeId};
use pki::Role;
use store::etcd::Tls;
use tracing::{info, warn};
use uring::Backend;
use uuid::Uuid;

use self::{alone::Alone, spec::Spec};
use crate::{
    config_file::ConfigFile,
    ending::Ending,
    listen::{Trust, allow, etcd_tls, keyring, name},
};

/// Where targets are served, if nothing else is said: the port that NVMe/TCP has.
const LISTEN: &str = "127.0.0.1:4420";

#[derive(Debug, Args)]
pub(crate) struct EngineCommand {
    /// Serve what this file lists, without any controller
    #[arg(long, value_name = "SPEC.toml", conflicts_with_all = ["controllers", "etcd"])]
    serve: Option<PathBuf>,
    /// A controller to connect to; may be given several times
    #[arg(long = "controller", value_name = "HOST:PORT")]
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
    #[command(flatten)]
    certificates: Certificates,
    /// The folder of ca.crt, tls.crt and tls.key for etcd with https
    #[arg(long, value_name = "FOLDER")]
    etcd_pki: Option<PathBuf>,
    /// Listen beyond loopback without certificates: anyone who reaches it is let in
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    config: ConfigFile,
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
        self.config.tell();
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
        if self.controllers.is_empty() {
            bail!("name a controller: --controller HOST:PORT; or serve a file: --serve SPEC.toml");
        }
        let records = match &self.etcd {
            None => Records::Controllers,
            Some(urls) => open_etcd(urls, etcd_tls(self.etcd_pki.as_deref())?).await?,
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
        let keyring = keyring(&self.certificates, Role::Engine)?;
        let trust = Trust::new(self.insecure, keyring.as_ref());
        let listen = match self.listen {
            Some(listen) => listen,
            None => LISTEN.parse()?,
        };
        allow("hosts and other engines", listen, trust)?;
        if trust == Trust::Certificates && !listen.ip().is_loopback() {
            // Who may use what came from a controller that showed a certificate; the data itself
            // goes in the open.
            warn!(%listen, "data is served without TLS, to names on a list: keep the net private");
        }
        if let Some(admin) = self.admin {
            // It asks nobody for a certificate, whatever this engine itself shows.
            allow("users of metrics", admin, Trust::new(self.insecure, None))?;
        }
        Ok(Settings {
            node,
            name: name(self.name, keyring.as_ref())?.unwrap_or_else(identity::machine),
            listen,
            advertise: self.advertise,
            admin: self.admin,
            controllers: self.controllers,
            keyring,
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
        say!("{name} nvme-tcp://{address}/{}", engine::nqn(*id));
    }
    if let Some(admin) = engine.admin {
        say!("metrics http://{admin}/metrics");
    }
}

async fn open_etcd(urls: &str, tls: Option<Tls>) -> Result<Records> {
    let url: StoreUrl = format!("etcd:{urls}").parse()?;
    match url.open(tls).await.context("connecting to etcd")? {
        Opened::Etcd(etcd) => Ok(Records::Etcd(Box::new(etcd))),
        Opened::Embedded(_) => bail!("{urls} is no etcd"),
    }
}
