//! A controller, engines on sparse files and hosts, all real, in the process of a test.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use ::plan::Request;
use controller::{Controller, Handle, Seen, Settings};
use model::{
    AttemptId, Bytes, HostId, NodeId, PoolId, PoolSpec, PoolStage, Publication, Time, VolumeId,
    VolumeSpec, VolumeStage,
};
use ports::Store;
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

/// A busy machine is slow, and whoever waits longer waits for ever.
pub const PATIENCE: Duration = Duration::from_secs(40);
/// The one volume of most tests.
pub const VOLUME: VolumeId = VolumeId::from_u128(1000);

/// A controller that runs.
#[derive(Debug)]
pub struct TestController {
    pub handle: Handle,
    pub address: SocketAddr,
    pub stop: CancellationToken,
    task: JoinHandle<()>,
}

/// A disk that survives the process that uses it.
#[derive(Debug)]
pub struct TestDisk(tempfile::TempDir);

/// A running engine; dropping it kills it.
#[derive(Debug)]
pub struct TestEngine {
    pub node: NodeId,
    pub process: engine::Engine,
}

pub async fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

pub fn now() -> Time {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time(wall.as_millis().try_into().unwrap())
}

/// Shows what the processes log, if the variable says so.
pub fn log(variable: &str) {
    let level = match std::env::var(variable).as_deref() {
        Ok("debug") => tracing::Level::DEBUG,
        Ok(_) => tracing::Level::INFO,
        Err(_) => tracing::Level::ERROR,
    };
    // Another test may have set it.
    let _ = tracing_subscriber::fmt().with_max_level(level).with_test_writer().try_init();
}

/// The volume was made.
pub fn created(seen: &Seen<'_>) -> Option<()> {
    let view = seen.world.volume(VOLUME)?;
    (view.record.layout.stage == VolumeStage::Created).then_some(())
}

/// Published, served, and no switchover under way: where the target is.
pub fn published(seen: &Seen<'_>) -> Option<NodeId> {
    let layout = &seen.world.volume(VOLUME)?.record.layout;
    let is_published = matches!(layout.publication, Publication::Published { .. });
    let target = layout.target.as_ref().filter(|_| is_published && layout.switchover.is_none());
    target.map(|target| target.node)
}

impl TestController {
    pub fn start<S: Store + Clone + 'static>(store: S, listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let settings =
            Settings { address: Some(format!("http://{address}")), ..Settings::default() };
        Self::start_with(store, listener, &settings)
    }

    pub fn start_with<S: Store + Clone + 'static>(
        store: S,
        listener: TcpListener,
        settings: &Settings,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let (controller, handle) = Controller::new(store, settings);
        let stop = CancellationToken::new();
        let task = tokio::spawn(controller.run(listener, stop.clone()));
        Self { handle, address, stop, task }
    }

    pub async fn until<T: Send + 'static>(
        &self,
        what: &str,
        look: impl Fn(&Seen<'_>) -> Option<T> + Send + Clone + 'static,
    ) -> T {
        if let Ok(found) = timeout(PATIENCE, self.handle.until(look)).await {
            return found.unwrap();
        }
        let words = self.handle.look(|seen| {
            let plans = ::plan::sweep(seen.world);
            let volume = seen.world.volume(VOLUME).map(|view| view.record.layout.clone());
            format!("leads: {}, {plans:#?}, {volume:#?}", seen.lead.is_own)
        });
        panic!("not within {PATIENCE:?}: {what}; {}", words.await.unwrap())
    }

    pub async fn leads(&self) {
        self.until("leading", |seen| seen.lead.is_own.then_some(())).await;
    }

    /// A pool that is online on each of these disks, the first on node 1.
    pub async fn make_pools(&self, disks: &[TestDisk]) {
        for (number, disk) in (1..).zip(disks) {
            let (node, id) = (NodeId::from_u128(number), PoolId::from_u128(100 + number));
            self.until("a node", move |seen| seen.world.node(node).map(|_| ())).await;
            let disks = vec![disk.path()];
            let spec = PoolSpec::new(node, disks);
            let (name, labels) = (format!("p{number}"), [].into());
            self.handle.ask(Request::CreatePool { id, name, labels, spec }).await.unwrap();
            let online = move |seen: &Seen<'_>| {
                let pool = seen.world.pools.get(&id)?;
                let ready = pool.record.layout.stage == PoolStage::Ready;
                (ready && pool.seen.is_some()).then_some(())
            };
            self.until("a pool", online).await;
        }
    }

    pub async fn make_volume(&self, spec: VolumeSpec) {
        let (id, name, labels) = (VOLUME, "v1".to_owned(), [].into());
        let request = Request::CreateVolume { id, name, labels, spec: spec.into() };
        self.handle.ask(request).await.unwrap();
        self.until("a volume", created).await;
    }

    /// Publishes the volume to the host alone.
    pub async fn publish(&self, host: HostId, attempt: u128) {
        self.until("a host", move |seen| seen.world.hosts.get(&host).map(|_| ())).await;
        let request = Request::PublishVolume {
            volume: VOLUME,
            attempt: AttemptId::from_u128(attempt),
            deadline: now() + model::Millis::minutes(5),
            hosts: [host].into(),
        };
        self.handle.ask(request).await.unwrap();
        self.until("a publication", published).await;
    }

    /// As kill -9 would end it: nothing is given away.
    pub async fn kill(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    pub async fn end(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

impl Default for TestDisk {
    /// Room for every volume of these tests; nothing is written to most of it.
    fn default() -> Self {
        Self::of(Bytes::gib(8))
    }
}

impl TestDisk {
    pub fn of(size: Bytes) -> Self {
        let disk = Self(tempfile::tempdir().unwrap());
        std::fs::File::create(disk.file()).unwrap().set_len(size.0).unwrap();
        disk
    }

    pub fn file(&self) -> PathBuf {
        self.0.path().join("disk")
    }

    pub fn path(&self) -> String {
        self.file().to_str().unwrap().to_owned()
    }
}

impl TestEngine {
    pub async fn start(number: u128, disk: &TestDisk, controllers: &[SocketAddr]) -> Self {
        let node = NodeId::from_u128(number);
        let settings = engine::Settings {
            controllers: controllers.iter().map(ToString::to_string).collect(),
            disks: vec![disk.file()],
            takes_faults: true,
            ..engine::Settings::new(node, format!("n{number}"))
        };
        Self { node, process: engine::start(settings, Vec::new()).await.unwrap() }
    }

    /// One on each disk.
    pub async fn start_all(disks: &[TestDisk], controllers: &[SocketAddr]) -> Vec<Self> {
        let mut engines = Vec::new();
        for (number, disk) in (1..).zip(disks) {
            engines.push(Self::start(number, disk, controllers).await);
        }
        engines
    }
}

/// A host that keeps its paths itself, with what applications look for in this folder.
pub fn host_settings(number: u128, run: &Path, controllers: &[SocketAddr]) -> host::Settings {
    host::Settings {
        host: HostId::from_u128(number),
        name: format!("h{number}"),
        nqn: None,
        node: None,
        controllers: controllers.iter().map(ToString::to_string).collect(),
        keyring: None,
        run: run.to_owned(),
        way: host::Way::User,
        give_up: host::limits::GIVE_UP,
        backend: uring::Backend::Auto,
    }
}
