//! `holdfast controller`.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use cli::Certificates;
use controller::{Controller, DieAt, Opened, Served, Settings, StoreUrl};
use pki::{Door, Role};
use ports::Store;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    config_file::ConfigFile,
    ending::Ending,
    listen::{Trust, bind, etcd_tls, keyring},
};

/// Where engines and hosts find a controller, if nothing else is said.
const LISTEN: &str = "127.0.0.1:7420";
/// Where users and their tools find it.
const REST: &str = "127.0.0.1:7421";

#[derive(Debug, Args)]
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
    /// Take faults on purpose: for tests
    #[arg(long)]
    allow_faults: bool,
    /// End as if killed when a switchover is recorded at this stage
    #[arg(long, value_enum, value_name = "STAGE", requires = "allow_faults")]
    die_at: Option<Stage>,
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
        self.config.tell();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.serve())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn serve(self) -> Result<()> {
        let Some(url) = &self.store else {
            bail!("name the store: --store embedded:FOLDER or --store etcd:URL");
        };
        let url: StoreUrl = url.parse()?;
        let keyring = keyring(&self.certificates, Role::Controller)?;
        let trust = Trust::new(self.insecure, keyring.as_ref());
        let listen = self.listen.map_or_else(|| LISTEN.parse(), Ok)?;
        let rest = self.rest.map_or_else(|| REST.parse(), Ok)?;
        let listener = bind("engines and hosts", listen, trust).await?;
        let rest = bind("REST", rest, trust).await?;
        let address = match self.advertise {
            Some(url) => url,
            None => own_url(rest.local_addr()?, keyring.is_some())?,
        };
        let settings = Settings {
            address: Some(address),
            dies_at: self.die_at.map(DieAt::from),
            ..Settings::default()
        };
        let tls = etcd_tls(self.etcd_pki.as_deref())?;
        let door = |listener| Door { listener, keyring: keyring.clone() };
        let doors = [door(listener), door(rest)];
        match url.open(tls).await.context("opening the store")? {
            Opened::Embedded(store) => drive(store, &settings, doors, self.ending).await,
            Opened::Etcd(store) => drive(store, &settings, doors, self.ending).await,
        }
    }
}

/// Where other controllers reach this one's REST, if nothing else is said.
fn own_url(rest: SocketAddr, is_secure: bool) -> Result<String> {
    if rest.ip().is_unspecified() {
        bail!("{rest} is no address to dial: say --advertise URL");
    }
    Ok(format!("{}://{rest}", if is_secure { "https" } else { "http" }))
}

/// Runs until a signal or until one of the two ends by itself. REST stops first: what it was asked
/// for is still done.
async fn drive<S: Store + Clone + 'static>(
    store: S,
    settings: &Settings,
    [engines, rest]: [Door; 2],
    ending: Ending,
) -> Result<()> {
    let (stop, stop_rest) = (CancellationToken::new(), CancellationToken::new());
    let (controller, handle) = Controller::new(store.clone(), settings);
    let (at, rest_at) = (engines.listener.local_addr()?, rest.listener.local_addr()?);
    info!(engines = %at, rest = %rest_at, "listening");
    let mut driving = tokio::spawn(controller.run(engines, stop.clone()));
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
