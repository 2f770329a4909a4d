//! Engines in this process, the brain, and one workload.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use block::{BLOCK, Buffer, Durability::Volatile, Extent};
use disk::{Client, Options, Uri};
use e2e::{
    brain::{Brain, Seen},
    in_process,
    plan::{Plan, Seat, VOLUME, node, replica_of},
    work::{Host, Seen as Work},
};
use engine::{Engine, InjectedFault as Fault, Settings, start};
use model::{Bytes, Millis, NodeId};
use nvme::{
    Code, Op, Vendor, VendorData,
    reservation::{Acquire, Command, Register},
};
use store::embedded::Embedded;

use crate::flip::Wire;

const PATIENCE: Duration = Duration::from_secs(30);
const SIZE: Bytes = Bytes(64 << 20);
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000e2e00";

pub struct Rig {
    _folder: tempfile::TempDir,
    addresses: Vec<SocketAddr>,
    /// The way to each engine for the others.
    pub wires: Vec<Wire>,
    disks: Vec<PathBuf>,
    engines: Vec<Option<Engine>>,
    pub brain: Brain,
    pub host: Host,
}

impl Rig {
    pub async fn new(replicas: usize) -> Self {
        Self::on_disks_of(&vec![Bytes(SIZE.0 * 2); replicas]).await
    }

    /// A replica on a disk of each of these sizes.
    pub async fn on_disks_of(sizes: &[Bytes]) -> Self {
        in_process::log("E2E_LOG");
        let replicas = sizes.len();
        let folder = tempfile::tempdir().unwrap();
        let disks: Vec<PathBuf> =
            (0..replicas).map(|at| folder.path().join(format!("disk{at}"))).collect();
        for (disk, size) in disks.iter().zip(sizes) {
            std::fs::File::create(disk).unwrap().set_len(size.0).unwrap();
        }
        let plan = Plan { disks: disks.clone(), has_bare: false, size: SIZE, host_nqn: NQN.into() };
        let records = folder.path().join("store");
        std::fs::create_dir(&records).unwrap();
        let brain = Brain::start(plan, Embedded::open(&records).unwrap()).await.unwrap();
        let addresses: Vec<_> = (0..replicas).map(|_| free_address()).collect();
        let mut wires = Vec::new();
        for address in &addresses {
            wires.push(Wire::to(*address).await);
        }
        let engines = (0..replicas).map(|_| None).collect();
        let uri = Uri { addresses: addresses.clone(), nqn: engine::nqn(VOLUME.0) };
        let host = Host::start(uri, NQN.into(), folder.path().join("ledger"));
        let mut rig = Self { _folder: folder, addresses, wires, disks, engines, brain, host };
        for at in 0..replicas {
            rig.bring(node(at)).await;
        }
        rig
    }

    pub fn at(&self, wanted: NodeId) -> usize {
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
            listen: self.addresses[at],
            advertise: Some(self.wires[at].address.to_string()),
            controllers: vec![self.brain.address.clone()],
            disks: vec![self.disks[at].clone()],
            takes_faults: true,
            checks_loopback: true,
            times,
            ..Settings::new(wanted, format!("n{at}"))
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

    /// A host of this number writes, if it may.
    pub async fn write_as(&self, host: u8) -> Result<(), Code> {
        let (extent, data) = (Extent::new(0, 1), Buffer::zeroed(BLOCK));
        self.ask_as(host, vec![Op::Write { extent, data, durability: Volatile }]).await
    }

    /// A host of this number keeps all others from writing, for good.
    pub async fn reserve(&self, host: u8) {
        let new = u64::from(host);
        let (ignores_key, persist) = (false, Some(true));
        let action = Register::Register;
        let register = Command::Register { action, ignores_key, current: 0, new, persist };
        let (action, kind) = (Acquire::Acquire, 1);
        let acquire = Command::Acquire { action, ignores_key, kind, current: new, other: 0 };
        let ops = vec![Op::Reservation(register), Op::Reservation(acquire)];
        self.ask_as(host, ops).await.unwrap();
    }

    async fn ask_as(&self, host: u8, ops: Vec<Op>) -> Result<(), Code> {
        let uri = Uri { addresses: self.addresses.clone(), nqn: engine::nqn(VOLUME.0) };
        let host_id = uuid::Uuid::from_bytes([host; 16]);
        let options = Options { host_nqn: NQN.into(), host_id, ..Options::default() };
        let work = move || {
            let mut client = Client::connect(&uri, options).unwrap();
            let mut answers = ops.into_iter().map(|op| client.run(op).unwrap());
            answers.try_for_each(|answer| answer.map(|_| ()).map_err(|status| status.code))
        };
        tokio::task::spawn_blocking(work).await.unwrap()
    }

    /// What a target that has fenced nothing is told by a replica that it asks past its machine.
    pub async fn ask_unfenced(&self, replica: NodeId, opcode: u8) -> Result<(), Code> {
        let nqn = engine::nqn(replica_of(replica).0);
        let uri = Uri { addresses: vec![self.addresses[self.at(replica)]], nqn };
        let host_nqn = engine::nqn(self.seat().node.0);
        let options = Options { host_nqn, ..Options::default() };
        let words = [1024, 0, 0, 0, 256, 0];
        let op = Op::Vendor(Vendor { opcode, words, data: VendorData::FromController(4096) });
        let work = move || Client::connect(&uri, options).unwrap().run(op).unwrap();
        let answer = tokio::task::spawn_blocking(work).await.unwrap();
        answer.map(|_| ()).map_err(|status| status.code)
    }

    /// Changes bits of a disk whose engine is away: one of every so many bytes of its front part,
    /// where the pool has its tables and its journal.
    pub fn damage(&self, node: NodeId, front: u64, every: u64) {
        use std::os::unix::fs::FileExt as _;
        let disk = &self.disks[self.at(node)];
        let file = std::fs::File::options().read(true).write(true).open(disk).unwrap();
        for at in (every / 2..front).step_by(usize::try_from(every).unwrap()) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
        }
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
