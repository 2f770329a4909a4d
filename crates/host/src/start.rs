//! Starting a host, and ending it.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use disk::{GiveUp, Options};
use model::{HostId, InstanceId, NodeId};
use pki::Keyring;
use rpc::HostHello;
use tokio::{sync::Notify, task::JoinSet};
use tracing::info;
use uring::Backend;
use uuid::Uuid;

use crate::{
    Kernel, Local, NoKernel, User,
    agent::{Agent, Identity},
    limits, link,
    paths::Paths,
};

/// How a host is to run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub host: HostId,
    pub name: String,
    /// The NVMe qualified name it connects with [else: that of its id].
    pub nqn: Option<String>,
    /// The storage node on the same machine, if there is one.
    pub node: Option<NodeId>,
    pub controllers: Vec<String>,
    /// What is shown to controllers, and what theirs are judged by.
    pub keyring: Option<Keyring>,
    /// The folder of what applications look for: sockets, and which volumes are here.
    pub run: PathBuf,
    pub way: Way,
    /// Commands wait so long for a target before they fail.
    pub give_up: Duration,
    pub backend: Backend,
}

/// Who keeps the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The kernel where it can, else this process.
    Auto,
    Kernel,
    User,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the run folder {} cannot be used", run.display())]
    Run { run: PathBuf, source: io::Error },
    #[error("another host uses the run folder {}", run.display())]
    Taken { run: PathBuf },
    #[error(
        "the run folder {} has a name of more than {} bytes: sockets in it could not be named",
        run.display(), limits::RUN_FOLDER_LENGTH_MAX
    )]
    TooLong { run: PathBuf },
    #[error(transparent)]
    NoKernel(#[from] NoKernel),
}

/// A host that runs, until it is stopped or dropped.
#[derive(Debug)]
pub struct Host {
    pub host: HostId,
    pub instance: InstanceId,
    /// Who keeps the paths, in a word.
    pub way: &'static str,
    tasks: JoinSet<()>,
    /// Held as long as this process uses the run folder.
    _lock: File,
}

pub fn start(settings: Settings) -> Result<Host, StartError> {
    let instance = InstanceId(Uuid::new_v4());
    let lock = take(&settings.run)?;
    let bell = Arc::new(Notify::new());
    let nqn = settings.nqn.clone().unwrap_or_else(|| settings.host.nqn());
    let (paths, way) = paths(&settings, &nqn, &bell)?;
    let identity = Identity {
        host: settings.host,
        name: settings.name.clone(),
        instance,
        run: settings.run,
        way,
    };
    let hello = HostHello {
        host: settings.host,
        name: settings.name,
        nqn,
        node: settings.node,
        instance,
        version: rpc::VERSION.into(),
        speaks: rpc::Speaks::OWN,
    };
    let (agent, handle, orders) = Agent::new(identity, paths);
    let mut tasks = JoinSet::new();
    tasks.spawn(agent.run(orders, bell));
    for controller in settings.controllers {
        let to = rpc::Controller { address: controller, keyring: settings.keyring.clone() };
        tasks.spawn(link::keep(to, hello.clone(), handle.clone()));
    }
    info!(host = %settings.host, paths = way, "host started");
    Ok(Host { host: settings.host, instance, way, tasks, _lock: lock })
}

impl Host {
    /// Ends the streams and whatever this process itself serves. The kernel's paths stay.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

fn paths(
    settings: &Settings,
    nqn: &str,
    bell: &Arc<Notify>,
) -> Result<(Box<dyn Paths>, &'static str), StartError> {
    let kernel = || {
        let before = Local::read(&settings.run).ok().filter(|local| local.host == settings.host);
        let (root, give_up) = (PathBuf::from("/"), settings.give_up);
        let bell = Arc::clone(bell);
        Kernel::open(root, settings.host, nqn.to_owned(), give_up, before.as_ref(), bell)
    };
    let found = match settings.way {
        Way::User => None,
        Way::Kernel => Some(kernel()?),
        Way::Auto => kernel().ok(),
    };
    if let Some(kernel) = found {
        return Ok((Box::new(kernel), "kernel"));
    }
    let options = Options {
        host_nqn: nqn.to_owned(),
        host_id: settings.host.0,
        patience: settings.give_up,
        give_up: GiveUp::FailCommands,
        backend: settings.backend,
        ..Options::default()
    };
    let user = User::new(settings.run.clone(), options, Arc::clone(bell));
    Ok((Box::new(user), "user"))
}

/// The folder, made if need be, and a lock that ends with this process.
fn take(run: &Path) -> Result<File, StartError> {
    let failed = |source| StartError::Run { run: run.into(), source };
    if run.as_os_str().len() > limits::RUN_FOLDER_LENGTH_MAX {
        return Err(StartError::TooLong { run: run.into() });
    }
    // Whoever can open a socket in it can read and write the volume.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(run).map_err(failed)?;
    let lock = File::create(run.join("host.lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(StartError::Taken { run: run.into() }),
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

#[cfg(test)]
mod tests;
