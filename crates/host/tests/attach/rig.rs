//! A real controller, real engines on real files, and hosts, all in this process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use controller::Seen;
use e2e::in_process::{self, PATIENCE, TestController, TestDisk, TestEngine, VOLUME, listener};
use host::{Device, Host, Local, Settings};
use model::{Bytes, HostId, NodeId, ReplicaId, VolumeSpec};
use plan::Request;
use store::memory::Memory;
use tokio::{net::TcpListener, time::timeout};

pub struct Rig {
    folder: tempfile::TempDir,
    store: Memory,
    pub controller: TestController,
    disks: [TestDisk; 3],
    engines: Vec<Option<TestEngine>>,
    attempts: u128,
}

impl Rig {
    /// A controller, three engines with a pool each, and a volume with so many copies.
    pub async fn new(replicas: u8) -> Self {
        in_process::log("HOST_LOG");
        let folder = tempfile::tempdir().unwrap();
        let store = Memory::default();
        let controller = TestController::start(store.clone(), listener().await);
        let disks: [TestDisk; 3] = std::array::from_fn(|_| TestDisk::of(Bytes::mib(256)));
        let engines = TestEngine::start_all(&disks, &[controller.address]).await;
        let engines = engines.into_iter().map(Some).collect();
        controller.leads().await;
        controller.make_pools(&disks).await;
        let spec =
            VolumeSpec { size: Bytes::mib(64), replicas, thin: true, ..VolumeSpec::default() };
        controller.make_volume(spec).await;
        Self { folder, store, controller, disks, engines, attempts: 0 }
    }

    fn run(&self, host: HostId) -> PathBuf {
        self.folder.path().join(format!("h{}", host.0.as_u128()))
    }

    /// Each life has another port: the controller tells everyone.
    pub async fn bring(&mut self, wanted: NodeId) {
        let (at, controllers) = (index(wanted), [self.controller.address]);
        let engine = TestEngine::start(wanted.0.as_u128(), &self.disks[at], &controllers).await;
        self.engines[at] = Some(engine);
    }

    /// As if its process had been killed.
    pub async fn lose(&mut self, wanted: NodeId) {
        self.engines[index(wanted)].take().unwrap().process.abandon().await;
    }

    /// As if its process had been killed and started again, on the same store.
    pub async fn restart_controller(&mut self) {
        let address = self.controller.address;
        self.controller.kill().await;
        // Its streams are let go a moment after it.
        let listening = async {
            loop {
                match TcpListener::bind(address).await {
                    Ok(listener) => return listener,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        let listener = timeout(PATIENCE, listening).await.unwrap();
        self.controller = TestController::start(self.store.clone(), listener);
    }

    pub fn host(&self, number: u128) -> Host {
        self.host_that_gives_up(number, host::limits::GIVE_UP)
    }

    pub fn host_that_gives_up(&self, number: u128, give_up: Duration) -> Host {
        let run = self.run(HostId::from_u128(number));
        let usual = in_process::host_settings(number, &run, &[self.controller.address]);
        host::start(Settings { give_up, ..usual }).unwrap()
    }

    /// Publishes the volume to the host alone; its socket.
    pub async fn publish(&mut self, host: HostId) -> PathBuf {
        self.attempts += 1;
        self.controller.publish(host, self.attempts).await;
        self.socket(host).await
    }

    pub async fn unpublish(&self, host: HostId) {
        let volume = VOLUME;
        let request = Request::UnpublishVolume { volume, host, force: false };
        self.controller.handle.ask(request).await.unwrap();
    }

    /// Where the target is, once nothing moves any more.
    pub async fn settled(&self) -> NodeId {
        self.until("a publication", in_process::published).await
    }

    /// Where the target listens.
    pub async fn target_address(&self) -> SocketAddr {
        let node = self.settled().await;
        let address =
            move |seen: &Seen<'_>| Some(seen.world.node(node)?.record.spec.address.clone());
        self.until("an address", address).await.parse().unwrap()
    }

    /// The copies, the node of each, and where that is reached.
    pub async fn replicas(&self) -> Vec<(ReplicaId, NodeId, SocketAddr)> {
        let look = |seen: &Seen<'_>| {
            let world = seen.world;
            let copies = world.volume(VOLUME)?.record.layout.replicas.iter().map(|copy| {
                let at = world.node(copy.node)?.record.spec.address.parse().ok()?;
                Some((copy.id, copy.node, at))
            });
            copies.collect::<Option<Vec<_>>>()
        };
        self.until("its copies", look).await
    }

    /// Every copy is recorded healthy again.
    pub async fn whole(&self, replicas: usize) {
        let is_so = move |seen: &Seen<'_>| {
            let view = seen.world.volume(VOLUME)?;
            let healthy = view.membership.as_ref()?.healthy().count();
            (healthy == replicas).then_some(())
        };
        self.until("every copy healthy", is_so).await;
    }

    /// The socket that the host shows for the volume.
    pub async fn socket(&self, host: HostId) -> PathBuf {
        let run = self.run(host);
        let found = async {
            loop {
                if let Some(socket) = shown(&run) {
                    return socket;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, found).await.unwrap()
    }

    pub async fn until<T: Send + 'static>(
        &self,
        what: &str,
        look: impl Fn(&Seen<'_>) -> Option<T> + Send + Clone + 'static,
    ) -> T {
        self.controller.until(what, look).await
    }
}

fn shown(run: &Path) -> Option<PathBuf> {
    match Local::read(run).ok()?.volumes.get(&VOLUME)?.device.clone()? {
        Device::Nbd { uri } => Some(uri.split_once("socket=")?.1.into()),
        Device::Block { .. } => None,
    }
}

pub fn node(at: usize) -> NodeId {
    NodeId::from_u128(at as u128 + 1)
}

fn index(node: NodeId) -> usize {
    usize::try_from(node.0.as_u128()).unwrap() - 1
}
