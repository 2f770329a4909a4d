//! `holdfast host`: the process that gives this machine its volumes.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use cli::Certificates;
use host::{Settings, Way, limits::GIVE_UP};
use model::{HostId, NodeId};
use pki::Role;
use tracing::info;
use uring::Backend;
use uuid::Uuid;

use crate::{
    config_file::ConfigFile,
    ending::Ending,
    engine_command::identity,
    listen::{keyring, name},
    run_folder::RunFolder,
};

#[derive(Debug, Args)]
pub(crate) struct HostCommand {
    /// A controller to connect to; may be given several times
    #[arg(long = "controller", value_name = "HOST:PORT")]
    controllers: Vec<String>,
    /// This host's id; else the one in the state folder, made at the first start
    #[arg(long, value_name = "UUID")]
    host_id: Option<Uuid>,
    /// This host's name [default: the machine's]
    #[arg(long)]
    name: Option<String>,
    /// The name to connect to targets with [default: one made of the id]
    #[arg(long, value_name = "NQN")]
    nqn: Option<String>,
    /// The storage node on the same machine, if there is one
    #[arg(long, value_name = "UUID")]
    node_id: Option<Uuid>,
    /// The folder of what this host must remember
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    #[command(flatten)]
    run: RunFolder,
    /// Who connects to targets
    #[arg(long, value_enum, default_value_t = By::Auto)]
    paths: By,
    /// Fail what an application has under way when nobody served the volume for so long
    #[arg(long, value_name = "SECONDS", default_value_t = GIVE_UP.as_secs())]
    give_up: u64,
    #[command(flatten)]
    certificates: Certificates,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    ending: Ending,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// The kernel where it can, else this process
    Auto,
    /// The kernel's NVMe/TCP: volumes are block devices
    Kernel,
    /// This process: volumes are NBD exports on local sockets
    User,
}

impl HostCommand {
    pub(crate) fn run(self) -> Result<ExitCode> {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
        self.config.tell();
        // Data has threads of its own.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let ending = self.ending;
            let host = host::start(self.settings()?)?;
            ending.told().await?;
            info!("stopping");
            host.stop().await;
            Ok(ExitCode::SUCCESS)
        })
    }

    fn settings(self) -> Result<Settings> {
        let id = match (self.host_id, &self.state) {
            (Some(id), _) => id,
            (None, Some(folder)) => identity::kept_as(folder, "host-id")?,
            (None, None) => bail!("say who this host is: --host-id UUID, or --state FOLDER"),
        };
        if self.controllers.is_empty() {
            bail!("name a controller: --controller HOST:PORT");
        }
        let keyring = keyring(&self.certificates, Role::Host)?;
        Ok(Settings {
            host: HostId(id),
            name: name(self.name, keyring.as_ref())?.unwrap_or_else(identity::machine),
            nqn: self.nqn,
            node: self.node_id.map(NodeId),
            controllers: self.controllers,
            keyring,
            run: self.run.folder(),
            way: match self.paths {
                By::Auto => Way::Auto,
                By::Kernel => Way::Kernel,
                By::User => Way::User,
            },
            give_up: Duration::from_secs(self.give_up),
            backend: Backend::Auto,
        })
    }
}
