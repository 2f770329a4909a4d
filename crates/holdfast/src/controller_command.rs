//! `holdfast controller`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use controller::{Controller, Opened, Settings, StoreUrl};
use ports::Store;
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::listen::{Trust, bind};

/// Where engines and hosts find a controller, if nothing else is said.
const LISTEN: &str = "127.0.0.1:7420";

/// Flags win over the file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControllerCommand {
    /// The store: embedded:FOLDER or etcd:URL[,URL]
    #[arg(long)]
    store: Option<String>,
    /// Where engines and hosts connect [default: 127.0.0.1:7420]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Listen beyond loopback without TLS: anyone who reaches it is let in
    #[arg(long)]
    #[serde(default)]
    insecure: bool,
    /// A TOML file with the same words as the flags
    #[arg(long)]
    #[serde(skip)]
    config: Option<PathBuf>,
}

impl ControllerCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
        let all = self.with_file()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(all.serve())?;
        Ok(ExitCode::SUCCESS)
    }

    fn with_file(self) -> Result<Self> {
        let Some(path) = &self.config else { return Ok(self) };
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let file: Self = toml::from_str(&text).with_context(|| format!("in {}", path.display()))?;
        Ok(Self {
            store: self.store.or(file.store),
            listen: self.listen.or(file.listen),
            insecure: self.insecure || file.insecure,
            config: None,
        })
    }

    async fn serve(self) -> Result<()> {
        let Some(url) = &self.store else {
            bail!("name the store: --store embedded:FOLDER or --store etcd:URL");
        };
        let url: StoreUrl = url.parse()?;
        let trust = if self.insecure { Trust::Anyone } else { Trust::Loopback };
        let listen = match self.listen {
            Some(listen) => listen,
            None => LISTEN.parse()?,
        };
        let listener = bind("engines and hosts", listen, trust).await?;
        match url.open().await.context("opening the store")? {
            Opened::Embedded(store) => drive(store, listener).await,
            Opened::Etcd(store) => drive(store, listener).await,
        }
    }
}

async fn drive<S: Store + Clone + 'static>(store: S, listener: TcpListener) -> Result<()> {
    let stop = CancellationToken::new();
    let (controller, handle) = Controller::new(store, &Settings::default());
    let mut driving = tokio::spawn(controller.run(listener, stop.clone()));
    let (mut interrupted, mut terminated) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let ended = tokio::select! {
        ended = &mut driving => Some(ended),
        _ = interrupted.recv() => None,
        _ = terminated.recv() => None,
    };
    drop(handle);
    if let Some(ended) = ended {
        warn!("controller ended by itself");
        return ended.context("the controller failed");
    }
    info!("stopping");
    stop.cancel();
    driving.await.context("the controller failed")
}
