//! Engines in this process, the brain, and one workload.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use disk::Uri;
use e2e::{
    brain::{Brain, Seen},
    plan::{Plan, Seat, VOLUME, node},
    work::{Host, Seen as Work},
};
use engine::{Engine, Records, Settings, fault::Fault, start};
use model::{Bytes, Millis, NodeId};
use store::embedded::Embedded;

const PATIENCE: Duration = Duration::from_secs(30);
const SIZE: Bytes = Bytes(64 << 20);
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000e2e00";

pub struct Rig {
    _folder: tempfile::TempDir,
    addresses: Vec<SocketAddr>,
    disks: Vec<PathBuf>,
    engines: Vec<Option<Engine>>,
    pub brain: Brain,
    pub host: Host,
}

impl Rig {
    pub async fn new(replicas: usize) -> Self {
        Self::on_disks_of(replicas, Bytes(SIZE.0 * 2)).await
    }

    /// With disks of this size, each.
    pub async fn on_disks_of(replicas: usize, disk_size: Bytes) -> Self {
        log();
        let folder = tempfile::tempdir().unwrap();
        let disks: Vec<PathBuf> =
            (0..replicas).map(|at| folder.path().join(format!("disk{at}"))).collect();
        for disk in &disks {
            std::fs::File::create(disk).unwrap().set_len(disk_size.0).unwrap();
        }
        let plan = Plan { disks: disks.clone(), size: SIZE, host_nqn: NQN.into() };
        let records = folder.path().join("store");
        std::fs::create_dir(&records).unwrap();
        let brain = Brain::start(plan, Embedded::open(&records).unwrap()).await.unwrap();
        let addresses: Vec<_> = (0..replicas).map(|_| free_address()).collect();
        let engines = (0..replicas).map(|_| None).collect();
        let uri = Uri { addresses: addresses.clone(), nqn: engine::nqn(VOLUME.0) };
        let host = Host::start(uri, NQN.into(), folder.path().join("ledger"));
        let mut rig = Self { _folder: folder, addresses, disks, engines, brain, host };
        for at in 0..replicas {
            rig.bring(node(at)).await;
        }
        rig
    }

    fn at(&self, wanted: NodeId) -> usize {
        (0..self.disks.len()).find(|at| node(*at) == wanted).unwrap()
    }

    pub async fn inject(&self, wanted: NodeId, fault: Fault) {
        let engine = self.engines[self.at(wanted)].as_ref().unwrap();
        engine.handle.inject(fault).await.unwrap();
    }

    pub fn other(&self, than: NodeId) -> NodeId {
        (0..self.disks.len()).map(node).find(|node| *node != than).unwrap()
    }

    pub async fn bring(&mut self, wanted: NodeId) {
        let at = self.at(wanted);
        let times = mirror::Times { idle: Millis(1_000), ..mirror::Times::default() };
        let settings = Settings {
            node: wanted,
            name: format!("n{at}"),
            listen: self.addresses[at],
            advertise: None,
            admin: None,
            controllers: vec![self.brain.address.clone()],
            disks: vec![self.disks[at].clone()],
            records: Records::Controllers,
            backend: uring::Backend::Auto,
            takes_faults: true,
            times,
            throttle: mirror::Throttle::default(),
        };
        self.engines[at] = Some(start(settings, Vec::new()).await.unwrap());
    }

    pub async fn lose(&mut self, wanted: NodeId) {
        let at = self.at(wanted);
        self.engines[at].take().unwrap().abandon().await;
    }

    pub async fn until(&self, what: &str, is_so: impl Fn(&Seen) -> bool) -> Seen {
        self.brain.until(what, PATIENCE, is_so).await.unwrap()
    }

    pub async fn whole(&self) -> Seen {
        self.until("every copy healthy", Seen::is_whole).await
    }

    pub fn seat(&self) -> Seat {
        self.brain.seen.borrow().seat.unwrap()
    }

    pub async fn fill(&self) {
        self.host.fill().await.unwrap();
    }

    /// Starts the workload.
    pub fn begin(&self) {
        self.host.begin(0..SIZE.0 / 4096).unwrap();
    }

    pub async fn end(&self) -> Work {
        let seen = self.host.end().await.unwrap();
        assert!(seen.writes > 0, "nothing was written");
        seen
    }

    /// Every block of the volume.
    pub async fn check(&self) {
        self.host.check().await.unwrap();
    }

    /// Every block of one copy, with all others away.
    pub async fn check_alone(&mut self, alone: NodeId) {
        let nodes: Vec<NodeId> = (0..self.disks.len()).map(node).collect();
        for other in nodes.iter().filter(|other| **other != alone) {
            self.lose(*other).await;
        }
        self.until("the last copy served", move |seen| {
            seen.is_serving && seen.seat.is_some_and(|seat| seat.node == alone)
        })
        .await;
        self.check().await;
        for other in nodes.iter().filter(|other| **other != alone) {
            self.bring(*other).await;
        }
        self.whole().await;
    }
}

fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn log() {
    let level = match std::env::var("E2E_LOG").as_deref() {
        Ok("debug") => tracing::Level::DEBUG,
        Ok(_) => tracing::Level::INFO,
        Err(_) => tracing::Level::ERROR,
    };
    // Another test may have set it.
    let _ = tracing_subscriber::fmt().with_max_level(level).with_test_writer().try_init();
}
