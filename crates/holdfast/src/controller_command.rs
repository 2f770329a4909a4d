//! `holdfast controller`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use controller::{Controller, DieAt, Opened, Served, Settings, StoreUrl};
use ports::Store;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    ending::Ending,
    listen::{Trust, bind},
};

/// Where engines and hosts find a controller, if nothing else is said.
const LISTEN: &str = "127.0.0.1:7420";
/// Where users and their tools find it.
const REST: &str = "127.0.0.1:7421";

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
    /// Where users and their tools connect [default: 127.0.0.1:7421]
    #[arg(long)]
    rest: Option<SocketAddr>,
    /// The URL under which other controllers reach this one's REST [default: that of --rest]
    #[arg(long)]
    advertise: Option<String>,
    /// Listen beyond loopback without TLS: anyone who reaches it is let in
    #[arg(long)]
    #[serde(default)]
    insecure: bool,
    /// Take faults on purpose: for tests
    #[arg(long)]
    #[serde(skip)]
    allow_faults: bool,
    /// End as if killed when a switchover is recorded at this stage
    #[arg(long, value_enum, value_name = "STAGE", requires = "allow_faults")]
    #[serde(skip)]
    die_at: Option<Stage>,
    /// A TOML file with the same words as the flags
    #[arg(long)]
    #[serde(skip)]
    config: Option<PathBuf>,
    #[command(flatten)]
    #[serde(skip)]
    ending: Ending,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stage {
    Init,
    RepublishVolume,
    ReplacePath,
    DeleteTarget,
}

impl From<Stage> for DieAt {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Init => Self::Init,
            Stage::RepublishVolume => Self::RepublishVolume,
            Stage::ReplacePath => Self::ReplacePath,
            Stage::DeleteTarget => Self::DeleteTarget,
        }
    }
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
            rest: self.rest.or(file.rest),
            advertise: self.advertise.or(file.advertise),
            insecure: self.insecure || file.insecure,
            allow_faults: self.allow_faults,
            die_at: self.die_at,
            config: None,
            ending: self.ending,
        })
    }

    async fn serve(self) -> Result<()> {
        let Some(url) = &self.store else {
            bail!("name the store: --store embedded:FOLDER or --store etcd:URL");
        };
        let url: StoreUrl = url.parse()?;
        let trust = if self.insecure { Trust::Anyone } else { Trust::Loopback };
        let listen = self.listen.map_or_else(|| LISTEN.parse(), Ok)?;
        let rest = self.rest.map_or_else(|| REST.parse(), Ok)?;
        let listener = bind("engines and hosts", listen, trust).await?;
        let rest = bind("REST", rest, trust).await?;
        let address = match self.advertise {
            Some(url) => url,
            None => format!("http://{}", rest.local_addr()?),
        };
        let settings = Settings {
            address: Some(address),
            dies_at: self.die_at.map(DieAt::from),
            ..Settings::default()
        };
        match url.open().await.context("opening the store")? {
            Opened::Embedded(store) => drive(store, &settings, [listener, rest], self.ending).await,
            Opened::Etcd(store) => drive(store, &settings, [listener, rest], self.ending).await,
        }
    }
}

/// Runs until a signal or until one of the two ends by itself. REST stops first: what it was asked
/// for is still done.
async fn drive<S: Store + Clone + 'static>(
    store: S,
    settings: &Settings,
    [listener, rest]: [TcpListener; 2],
    ending: Ending,
) -> Result<()> {
    let (stop, stop_rest) = (CancellationToken::new(), CancellationToken::new());
    let (controller, handle) = Controller::new(store.clone(), settings);
    info!(engines = %listener.local_addr()?, rest = %rest.local_addr()?, "listening");
    let mut driving = tokio::spawn(controller.run(listener, stop.clone()));
    let served = Served { handle, store };
    let mut serving = tokio::spawn(rest::serve(rest, served, stop_rest.clone()));
    tokio::select! {
        ended = &mut driving => bail!("the controller ended by itself: {ended:?}"),
        ended = &mut serving => bail!("the REST server ended by itself: {ended:?}"),
        told = ending.told() => told?,
    }
    info!("stopping");
    stop_rest.cancel();
    serving.await.context("the REST server failed")??;
    stop.cancel();
    driving.await.context("the controller failed")
}
