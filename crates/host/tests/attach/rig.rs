//! A real controller, real engines on real files, and hosts, all in this process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use controller::{Controller, Handle, Seen, Settings as ControllerSettings};
use engine::{Engine, Records, Settings as EngineSettings};
use host::{Device, Host, Local, Settings, Way};
use model::{
    AttemptId, Bytes, HostId, NodeId, PoolId, PoolSpec, Publication, ReplicaId, Time, VolumeId,
    VolumeSpec, VolumeStage,
};
use plan::Request;
use store::memory::Memory;
use tokio::{net::TcpListener, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(40);
pub const VOLUME: VolumeId = VolumeId::from_u128(1000);

pub struct Rig {
    folder: tempfile::TempDir,
    pub store: Memory,
    pub address: SocketAddr,
    pub handle: Handle,
    controller: JoinHandle<()>,
    engines: Vec<Option<Engine>>,
    attempts: u128,
}

impl Rig {
    /// A controller, three engines with a pool each, and a volume with so many copies.
    pub async fn new(replicas: u8) -> Self {
        log();
        let folder = tempfile::tempdir().unwrap();
        let store = Memory::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (controller, handle) = drive(store.clone(), listener);
        let engines = (0..3).map(|_| None).collect();
        let mut rig = Self { folder, store, address, handle, controller, engines, attempts: 0 };
        for at in 0..3 {
            std::fs::File::create(rig.disk(at)).unwrap().set_len(256 << 20).unwrap();
            rig.bring(node(at)).await;
        }
        rig.until("leading", |seen| seen.lead.is_own.then_some(())).await;
        rig.make_pools().await;
        rig.make_volume(replicas).await;
        rig
    }

    fn disk(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("disk{at}"))
    }

    pub fn run(&self, host: HostId) -> PathBuf {
        self.folder.path().join(format!("h{}", host.0.as_u128()))
    }

    pub async fn bring(&mut self, wanted: NodeId) {
        let at = index(wanted);
        let settings = EngineSettings {
            node: wanted,
            name: format!("n{at}"),
            // Each life has another port: the controller tells everyone.
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertise: None,
            admin: None,
            controllers: vec![self.address.to_string()],
            keyring: None,
            disks: vec![self.disk(at)],
            records: Records::Controllers,
            backend: uring::Backend::Auto,
            takes_faults: true,
            checks_loopback: false,
            times: mirror::Times::default(),
            throttle: mirror::Throttle::default(),
        };
        self.engines[at] = Some(engine::start(settings, Vec::new()).await.unwrap());
    }

    /// As if its process had been killed.
    pub async fn lose(&mut self, wanted: NodeId) {
        self.engines[index(wanted)].take().unwrap().abandon().await;
    }

    /// As if its process had been killed and started again, on the same store.
    pub async fn restart_controller(&mut self) {
        self.controller.abort();
        let _ = (&mut self.controller).await;
        // Its streams are let go a moment after it.
        let listening = async {
            loop {
                match TcpListener::bind(self.address).await {
                    Ok(listener) => return listener,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        let listener = timeout(PATIENCE, listening).await.unwrap();
        (self.controller, self.handle) = drive(self.store.clone(), listener);
    }

    pub fn host(&self, number: u128) -> Host {
        self.host_that_gives_up(number, host::limits::GIVE_UP)
    }

    pub fn host_that_gives_up(&self, number: u128, give_up: Duration) -> Host {
        let host = HostId::from_u128(number);
        let settings = Settings {
            host,
            name: format!("h{number}"),
            nqn: None,
            node: None,
            controllers: vec![self.address.to_string()],
            keyring: None,
            run: self.run(host),
            way: Way::User,
            give_up,
            backend: uring::Backend::Auto,
        };
        host::start(settings).unwrap()
    }

    async fn make_pools(&self) {
        for at in 0..3 {
            let (id, node) = (PoolId::from_u128(100 + at as u128), node(at));
            self.until("a node", move |seen| seen.world.node(node).map(|_| ())).await;
            let disks = vec![self.disk(at).to_str().unwrap().to_owned()];
            let spec =
                PoolSpec { node, disks, deleting: false, forgotten: false, extra: [].into() };
            let (name, labels) = (format!("p{at}"), [].into());
            self.handle.ask(Request::CreatePool { id, name, labels, spec }).await.unwrap();
            let is_ready = move |seen: &Seen<'_>| {
                let pool = seen.world.pools.get(&id)?;
                let ready = pool.record.layout.stage == model::PoolStage::Ready;
                (ready && pool.seen.is_some()).then_some(())
            };
            self.until("a pool", is_ready).await;
        }
    }

    async fn make_volume(&self, replicas: u8) {
        let spec =
            VolumeSpec { size: Bytes::mib(64), replicas, thin: true, ..VolumeSpec::default() };
        let (id, name, labels) = (VOLUME, "v".to_owned(), [].into());
        let request = Request::CreateVolume { id, name, labels, spec: spec.into() };
        self.handle.ask(request).await.unwrap();
        let is_made = |seen: &Seen<'_>| {
            let stage = &seen.world.volume(VOLUME)?.record.layout.stage;
            (*stage == VolumeStage::Created).then_some(())
        };
        self.until("a volume", is_made).await;
    }

    /// Publishes the volume to the host alone; its socket.
    pub async fn publish(&mut self, host: HostId) -> PathBuf {
        self.until("a host", move |i| i.world.hosts.get(&host).map(|_| ())).await;
        self.attempts += 1;
        let request = Request::PublishVolume {
            volume: VOLUME,
            attempt: AttemptId::from_u128(self.attempts),
            deadline: now() + model::Millis::minutes(5),
            hosts: [host].into(),
        };
        self.handle.ask(request).await.unwrap();
        self.settled().await;
        self.socket(host).await
    }

    pub async fn unpublish(&self, host: HostId) {
        let volume = VOLUME;
        let request = Request::UnpublishVolume { volume, host, force: false };
        self.handle.ask(request).await.unwrap();
    }

    /// Published, served, and no switchover under way: where the target is.
    pub async fn settled(&self) -> NodeId {
        let is_so = |seen: &Seen<'_>| {
            let layout = &seen.world.volume(VOLUME)?.record.layout;
            let published = matches!(layout.publication, Publication::Published { .. });
            let target = layout.target.as_ref().filter(|_| published);
            target.filter(|_| layout.switchover.is_none()).map(|target| target.node)
        };
        self.until("a publication", is_so).await
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
        if let Ok(found) = timeout(PATIENCE, self.handle.until(look)).await {
            return found.unwrap();
        }
        let words = self.handle.look(|seen| {
            let plans = plan::sweep(seen.world);
            let volume = seen.world.volume(VOLUME).map(|view| view.record.layout.clone());
            format!("leads: {}, {plans:#?}, {volume:#?}", seen.lead.is_own)
        });
        panic!("not within {PATIENCE:?}: {what}; {}", words.await.unwrap())
    }
}

fn shown(run: &Path) -> Option<PathBuf> {
    match Local::read(run).ok()?.volumes.get(&VOLUME)?.device.clone()? {
        Device::Nbd { uri } => Some(uri.split_once("socket=")?.1.into()),
        Device::Block { .. } => None,
    }
}

fn drive(store: Memory, listener: TcpListener) -> (JoinHandle<()>, Handle) {
    let (controller, handle) = Controller::new(store, &ControllerSettings::default());
    (tokio::spawn(controller.run(listener, CancellationToken::new())), handle)
}

pub fn node(at: usize) -> NodeId {
    NodeId::from_u128(at as u128 + 1)
}

fn index(node: NodeId) -> usize {
    usize::try_from(node.0.as_u128()).unwrap() - 1
}

fn now() -> Time {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Time(wall.as_millis().try_into().unwrap())
}

fn log() {
    let level = match std::env::var("HOST_LOG").as_deref() {
        Ok("debug") => tracing::Level::DEBUG,
        Ok(_) => tracing::Level::INFO,
        Err(_) => tracing::Level::ERROR,
    };
    // Another test may have set it.
    let _ = tracing_subscriber::fmt().with_max_level(level).with_test_writer().try_init();
}
