//! Starting the two threads of an engine, and ending them.

use std::{
    fs::File,
    net::SocketAddr,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use mirror::{StoreAnswer, StoreRequest};
use model::{InstanceId, NodeId, PoolId, VolumeId};
use pki::Keyring;
use ports::{MembershipError, Memberships};
use rpc::{Hello, Through};
use storage_node::NodeParams;
use store::{Direct, embedded::Embedded, etcd::Etcd};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::{info, warn};
use uring::{Backend, Listener, Reactor, Running};
use uuid::Uuid;

use crate::{
    admin,
    disks::Device,
    driver::{Driver, Ties},
    handle::{Handle, Order, StoreQuestion},
    link,
};

/// Orders that may wait for the shard, which takes them between two turns.
const ORDERS_MAX: usize = 4096;

/// The kernel lets go of a killed process's rings, and of the sockets in them, in well under a
/// second; a port that is really somebody else's is told soon enough.
const PORT_PATIENCE: Duration = Duration::from_secs(5);
const PORT_LOOK: Duration = Duration::from_millis(20);

/// How an engine is to run.
#[derive(Debug)]
pub struct Settings {
    pub node: NodeId,
    pub name: String,
    /// Where targets and replicas are served.
    pub listen: SocketAddr,
    /// What others dial to get there, if it is another address.
    pub advertise: Option<String>,
    /// Metrics, health and the inventory, for people and their tools.
    pub admin: Option<SocketAddr>,
    pub controllers: Vec<String>,
    /// What is shown to controllers, and what theirs are judged by.
    pub keyring: Option<Keyring>,
    /// Disks to look for pools on at start, before any config names them.
    pub disks: Vec<PathBuf>,
    pub records: Records,
    pub backend: Backend,
    pub takes_faults: bool,
    /// Links to replicas carry checksums on loopback, too.
    pub checks_loopback: bool,
    pub times: mirror::Times,
    pub throttle: mirror::Throttle,
}

impl Settings {
    /// At an address of this machine that is free, with the usual behaviour and nobody to talk to.
    pub fn new(node: NodeId, name: String) -> Self {
        Self {
            node,
            name,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertise: None,
            admin: None,
            controllers: Vec::new(),
            keyring: None,
            disks: Vec::new(),
            records: Records::Controllers,
            backend: Backend::Auto,
            takes_faults: false,
            checks_loopback: false,
            times: mirror::Times::default(),
            throttle: mirror::Throttle::default(),
        }
    }
}

/// The way to membership records.
#[derive(Debug)]
pub enum Records {
    /// Through whichever controller is connected.
    Controllers,
    Etcd(Box<Etcd>),
    /// A store of its own: for an engine without a controller.
    Own(Box<Embedded>),
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {at}")]
    Listen { at: SocketAddr, source: uring::IoError },
    #[error("{at} is no address that others can dial: say --advertise HOST:PORT")]
    Anywhere { at: SocketAddr },
    #[error("cannot listen on {at}")]
    Admin { at: SocketAddr, source: std::io::Error },
    #[error("no reactor can be had")]
    Reactor(#[from] uring::StartError),
    #[error("no thread can be had")]
    Thread(#[from] std::io::Error),
}

/// An engine that runs, until it is stopped or dropped with its runtime.
#[derive(Debug)]
pub struct Engine {
    pub handle: Handle,
    pub instance: InstanceId,
    /// Where it listens, with the port that the kernel chose.
    pub address: SocketAddr,
    pub admin: Option<SocketAddr>,
    tasks: JoinSet<()>,
    shard: Option<thread::JoinHandle<()>>,
}

/// A device that is served as it is.
#[derive(Debug)]
pub struct Served {
    pub nqn: String,
    pub uuid: Uuid,
    pub device: Device,
}

pub async fn start(settings: Settings, served: Vec<Served>) -> Result<Engine, StartError> {
    let instance = InstanceId(Uuid::new_v4());
    let at = settings.listen;
    if at.ip().is_unspecified() && settings.advertise.is_none() {
        return Err(StartError::Anywhere { at });
    }
    let listener = listen(at).await?;
    let address = listener.local_addr().unwrap_or(at);
    let (ask, questions) = mpsc::unbounded_channel();
    let (handle, shard) = start_shard(&settings, instance, listener, ask, served)?;
    let mut tasks = JoinSet::new();
    let hello = Hello {
        node: settings.node,
        name: settings.name,
        address: settings.advertise.unwrap_or_else(|| address.to_string()),
        instance,
        version: rpc::VERSION.into(),
        speaks: rpc::Speaks::OWN,
    };
    let (live, lives) = mpsc::channel(rpc::limits::BACKLOG);
    for controller in settings.controllers {
        let (hello, handle, live) = (hello.clone(), handle.clone(), live.clone());
        let to = rpc::Controller { address: controller, keyring: settings.keyring.clone() };
        tasks.spawn(link::keep(to, hello, handle, live));
    }
    match settings.records {
        Records::Controllers => {
            let (through, asked) = Through::new();
            tasks.spawn(link::switchboard(asked, lives));
            tasks.spawn(answer(questions, handle.clone(), Arc::new(through)));
        }
        Records::Etcd(etcd) => {
            tasks.spawn(answer(questions, handle.clone(), Arc::new(Direct(*etcd))));
        }
        Records::Own(store) => {
            tasks.spawn(answer(questions, handle.clone(), Arc::new(Direct(*store))));
        }
    }
    let admin = match settings.admin {
        None => None,
        Some(at) => {
            let listener =
                TcpListener::bind(at).await.map_err(|source| StartError::Admin { at, source })?;
            let bound = listener.local_addr().ok();
            tasks.spawn(admin::serve(listener, handle.clone()));
            bound
        }
    };
    info!(node = %settings.node, %address, "engine started");
    Ok(Engine { handle, instance, address, admin, tasks, shard: Some(shard) })
}

/// A predecessor that was killed a moment ago may still be on its way out, its port with it.
async fn listen(at: SocketAddr) -> Result<Listener, StartError> {
    let end = tokio::time::Instant::now() + PORT_PATIENCE;
    loop {
        match Listener::tcp(at) {
            Ok(listener) => return Ok(listener),
            Err(uring::IoError::Os(error))
                if error.kind() == std::io::ErrorKind::AddrInUse
                    && tokio::time::Instant::now() < end =>
            {
                tokio::time::sleep(PORT_LOOK).await;
            }
            Err(source) => return Err(StartError::Listen { at, source }),
        }
    }
}

/// The thread of the data path, and how to reach it.
fn start_shard(
    settings: &Settings,
    instance: InstanceId,
    listener: Listener,
    questions: mpsc::UnboundedSender<StoreQuestion>,
    served: Vec<Served>,
) -> Result<(Handle, thread::JoinHandle<()>), StartError> {
    let own = listener.local_addr().map(|at| at.to_string());
    let params = NodeParams {
        advertised: settings.advertise.clone().or(own).into_iter().collect(),
        times: settings.times,
        throttle: settings.throttle,
        takes_faults: settings.takes_faults,
        checks_loopback: settings.checks_loopback,
        ..NodeParams::new(settings.node, instance, boot())
    };
    let (stale, stale_seen) = watch::channel(0);
    let backend = settings.backend;
    let found: Vec<_> = settings.disks.iter().filter_map(|disk| pool_on(disk)).collect();
    let (started, starting) = std::sync::mpsc::sync_channel(1);
    let shard = thread::Builder::new().name("shard".into()).spawn(move || {
        // The reactor lives on the thread that made it.
        let reactor = match Reactor::new(backend) {
            Ok(reactor) => reactor,
            Err(error) => {
                let _ = started.send(Err(error));
                return;
            }
        };
        if let Running::Threads { instead: Some(reason) } = reactor.running() {
            warn!(%reason, "io_uring cannot be had: disks are served by threads");
        }
        let (outbox, orders) = uring::inbox(ORDERS_MAX, reactor.waker());
        let _ = started.send(Ok(outbox));
        let ties = Ties { orders, questions, stale };
        let mut driver = Driver::new(params, ties, reactor, listener);
        for Served { nqn, uuid, device } in served {
            driver.serve(nqn, uuid, device);
        }
        for (pool, path) in found {
            driver.look_at(pool, path);
        }
        driver.run();
    })?;
    let gone = || std::io::Error::other("the shard's thread ended");
    let outbox = starting.recv().map_err(|_| StartError::Thread(gone()))??;
    let orders = Arc::new(move |order: Order| {
        if outbox.send(order).is_err() {
            warn!("the shard takes no orders");
        }
    });
    Ok((Handle::new(orders, stale_seen), shard))
}

impl Engine {
    /// Ends at once, as a crash of the process would, and waits until the disks are let go.
    pub async fn abandon(mut self) {
        self.handle.abandon();
        self.tasks.shutdown().await;
        if let Some(shard) = self.shard.take() {
            let _ = tokio::task::spawn_blocking(move || shard.join()).await;
        }
    }

    /// Stops serving, leaves pools clean and ends.
    pub async fn stop(mut self) {
        // A disk that hangs must not keep the process for ever.
        let _ = tokio::time::timeout(Duration::from_secs(20), self.handle.stop()).await;
        self.tasks.shutdown().await;
        if let Some(shard) = self.shard.take()
            && shard.is_finished()
        {
            let _ = shard.join();
        }
    }
}

/// The pool that a disk carries, and the disk.
fn pool_on(disk: &Path) -> Option<(PoolId, String)> {
    let file = File::open(disk).ok()?;
    let size = std::io::Seek::seek(&mut &file, std::io::SeekFrom::End(0)).ok()?;
    let len = usize::try_from(size).map_or(pool::PROBED, |size| size.min(pool::PROBED));
    let (mut head, mut tail) = (vec![0; len], vec![0; len]);
    file.read_exact_at(&mut head, 0).ok()?;
    file.read_exact_at(&mut tail, size - len as u64).ok()?;
    match pool::probe(&head, &tail)? {
        pool::Carries::Pool(id) => Some((id, disk.to_str()?.into())),
        _ => None,
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.handle.abandon();
    }
}

/// Puts the targets' questions to the store.
async fn answer<M: Memberships + 'static>(
    mut questions: mpsc::UnboundedReceiver<StoreQuestion>,
    handle: Handle,
    memberships: Arc<M>,
) {
    let mut asking = JoinSet::new();
    while let Some(StoreQuestion { target, call, request }) = questions.recv().await {
        while asking.try_join_next().is_some() {}
        let (handle, memberships) = (handle.clone(), Arc::clone(&memberships));
        asking.spawn(async move {
            let answer = ask(memberships.as_ref(), target.volume, request).await;
            handle.order(Order::Record { target, call, answer });
        });
    }
}

async fn ask<M: Memberships>(
    memberships: &M,
    volume: VolumeId,
    request: StoreRequest,
) -> StoreAnswer {
    let answer = match request {
        StoreRequest::Read => match memberships.read(volume).await {
            Ok(Some(record)) => Ok(StoreAnswer::Record(record)),
            Ok(None) => {
                warn!(%volume, "the volume has no membership record");
                Ok(StoreAnswer::Unknown)
            }
            Err(error) => Err(error),
        },
        StoreRequest::Swap(record) => match memberships.swap(&record).await {
            Ok(revision) => Ok(StoreAnswer::Committed(revision)),
            Err(MembershipError::Conflict { .. }) => Ok(StoreAnswer::Conflict),
            Err(error) => Err(error),
        },
    };
    answer.unwrap_or_else(|error| {
        warn!(%volume, %error, "the store did not answer");
        StoreAnswer::Unknown
    })
}

/// This boot of the machine. Without one every start counts as after a loss of power, which costs a
/// resync and loses nothing.
fn boot() -> pool::Boot {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let id = read.and_then(|text| text.trim().parse().ok()).unwrap_or_else(Uuid::new_v4);
    pool::Boot(id.as_u128())
}
