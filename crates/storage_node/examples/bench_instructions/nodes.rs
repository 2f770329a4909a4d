//! A volume of two replicas on two storage nodes: one beside its target, one on the other node.

use std::{collections::BTreeMap, net::SocketAddr};

use block::{BLOCK, Buffer};
use mirror::{StoreAnswer, StoreRequest};
use model::{
    Admission, Bytes, ChildItem, ConfigHead, Epoch, Era, HostId, InstanceId, Key, Membership, Meta,
    NodeConfig, NodeId, NodePart, Pool, PoolId, PoolItem, PoolLayout, PoolSpec, ReplicaId,
    ReplicaItem, Revision, Scope, TargetItem, Time, Volume, VolumeLayout, VolumePart, VolumeSpec,
};
use pool::Io;
use storage_node::{ConnId, Device, DiskId, DiskIoId, Effect, NodeParams, StorageNode, Ticket};

use crate::{
    host::{BLOCKS, HOST_NQN, NOW, VOLUME, Wire},
    outside_the_machines,
};

const DISK_BLOCKS: u64 = 1 << 14;
const HERE: usize = 0;
const THERE: usize = 1;
const HOST: HostId = HostId::from_u128(5);
const EPOCH: Epoch = Epoch(1);

/// One node or two, with everything outside of them: disks, wires, the store.
pub(crate) struct Nodes {
    all: Vec<Node>,
    record: Membership,
    /// The other end of each connection between the nodes.
    wires: BTreeMap<(usize, ConnId), (usize, ConnId)>,
    wire: Wire,
}

struct Node {
    machine: StorageNode,
    disk: Vec<u8>,
    /// Done by the disk, as a ring would tell: all at once, later.
    done: Vec<(DiskIoId, Option<Buffer>)>,
}

fn node_id(at: usize) -> NodeId {
    NodeId::from_u128(10 + u128::try_from(at).unwrap())
}

fn replica_id(at: usize) -> ReplicaId {
    ReplicaId::from_u128(20 + u128::try_from(at).unwrap())
}

fn pool_id(at: usize) -> PoolId {
    PoolId::from_u128(30 + u128::try_from(at).unwrap())
}

fn instance(at: usize) -> InstanceId {
    InstanceId::from_u128((1 + u128::try_from(at).unwrap()) << 64)
}

impl Node {
    fn new(at: usize) -> Self {
        let params = NodeParams::new(node_id(at), instance(at), pool::Boot(1));
        let disk = vec![0; usize::try_from(DISK_BLOCKS).unwrap() * BLOCK];
        Self { machine: StorageNode::new(params, NOW), disk, done: Vec::new() }
    }

    fn perform(&mut self, op: &Io, buffer: Option<Buffer>) -> Option<Buffer> {
        outside_the_machines(|| {
            let at = |offset: u64| usize::try_from(offset).unwrap();
            match op {
                Io::Read { offset, len } => {
                    let mut buffer = buffer.unwrap();
                    let from = &self.disk[at(*offset)..at(*offset) + len];
                    buffer.get_mut().unwrap().copy_from_slice(from);
                    Some(buffer)
                }
                Io::Write { offset, data, .. } => {
                    self.disk[at(*offset)..at(*offset) + data.len()].copy_from_slice(data.bytes());
                    None
                }
                Io::Sync | Io::Discard { .. } => None,
            }
        })
    }
}

impl Nodes {
    /// A volume with a replica on each of two nodes, served by the first.
    pub(crate) fn mirrored() -> Self {
        let mut record = Membership::founded(VOLUME, [replica_id(HERE), replica_id(THERE)]);
        record.epoch = EPOCH;
        let (wires, wire) = (BTreeMap::new(), Wire::default());
        let mut nodes = Self { all: vec![Node::new(HERE), Node::new(THERE)], record, wires, wire };
        for generation in [2, 3] {
            // Replicas first, so that they admit the target before it starts.
            for at in [THERE, HERE] {
                let config = config(at, generation);
                nodes.all[at].machine.apply(NOW, Ticket(generation), config);
                nodes.settle(&mut Wire::default());
            }
        }
        let target = nodes.all[HERE].machine.target(VOLUME).unwrap();
        assert!(target.is_serving(), "the target serves: {:?}", target.phase());
        nodes
    }

    /// A device in memory: the port and its driver alone.
    pub(crate) fn device() -> Self {
        let mut node = Node::new(HERE);
        let device = Device::memory(BLOCKS).unwrap();
        node.machine.serve(storage_node::nqn(VOLUME.0), VOLUME.0, device);
        let record = Membership::founded(VOLUME, []);
        Self { all: vec![node], record, wires: BTreeMap::new(), wire: Wire::default() }
    }

    /// Runs the nodes until none has anything more to say; what the host is to receive goes to
    /// `to_host`.
    pub(crate) fn settle(&mut self, to_host: &mut Wire) {
        loop {
            let mut is_quiet = true;
            for at in 0..self.all.len() {
                let mut done = std::mem::take(&mut self.all[at].done);
                for (io, data) in done.drain(..) {
                    self.all[at].machine.disk_done(NOW, io, Ok(data));
                }
                self.all[at].done = done;
                self.all[at].machine.run(NOW);
                while let Some(effect) = self.all[at].machine.next_effect() {
                    is_quiet = false;
                    self.carry_out(at, effect, to_host);
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn carry_out(&mut self, at: usize, effect: Effect, to_host: &mut Wire) {
        match effect {
            Effect::OpenDisk(open) => {
                let opened = Ok((DiskId(0), DISK_BLOCKS));
                self.all[at].machine.disk_opened(NOW, &open, opened);
            }
            Effect::Disk { io, op, buffer, .. } => {
                let data = self.all[at].perform(&op, buffer);
                self.all[at].done.push((io, data));
            }
            Effect::Dial { conn, .. } => {
                let other = self.all[THERE].machine.accept(NOW).unwrap();
                self.wires.insert((at, conn), (THERE, other));
                self.wires.insert((THERE, other), (at, conn));
                self.all[at].machine.connected(NOW, conn);
            }
            Effect::Send { conn, outgoing } => {
                if let Some((to, other)) = self.wires.get(&(at, conn)).copied() {
                    self.wire.bytes.clear();
                    self.wire.send(&outgoing);
                    self.all[to].machine.received(NOW, other, &self.wire.bytes);
                } else {
                    to_host.send(&outgoing);
                }
                self.all[at].machine.recycle(outgoing);
            }
            Effect::AskStore { target, call, request } => {
                let answer = match request {
                    StoreRequest::Read => StoreAnswer::Record(self.record.clone()),
                    StoreRequest::Swap(record) => {
                        let revision = self.record.revision.next();
                        self.record = Membership { revision, ..*record };
                        StoreAnswer::Committed(revision)
                    }
                };
                self.all[at].machine.store_answered(NOW, target, call, answer);
            }
            Effect::Applied { result, .. } => drop(result.unwrap()),
            Effect::Inventory { .. }
            | Effect::Outdated { .. }
            | Effect::CloseDisk(_)
            | Effect::Close(_)
            | Effect::Stopped
            | Effect::Log(_) => {}
        }
    }
}

impl Nodes {
    pub(crate) fn accept(&mut self) -> ConnId {
        self.all[HERE].machine.accept(NOW).unwrap()
    }

    pub(crate) fn receive(&mut self, conn: ConnId, bytes: &[u8]) {
        self.all[HERE].machine.received(NOW, conn, bytes);
    }
}

/// Its pool, its replica and, from the second generation on, the target of the first node.
fn config(at: usize, generation: u64) -> NodeConfig {
    let head = ConfigHead {
        era: Era::from_u128(1),
        term: InstanceId::from_u128(2),
        instance: instance(at),
        generation: Revision(generation),
        scope: Scope::Whole,
        former: Vec::new(),
    };
    let peer = |other: usize| {
        let address = SocketAddr::from(([127, 0, 0, 1], 4420)).to_string();
        (Key::Node(node_id(other)), Some(NodePart::Peer { address }))
    };
    let host = (Key::Host(HOST), Some(NodePart::Host { nqn: HOST_NQN.into() }));
    let pool = (Key::Pool(pool_id(at)), Some(NodePart::Pool(pool_item(at))));
    let is_serving = at == HERE && generation > 2;
    let volume = (Key::Volume(VOLUME), Some(NodePart::Volume(volume_part(at, is_serving))));
    NodeConfig { head, parts: [peer(HERE), peer(THERE), host, pool, volume].into() }
}

fn pool_item(at: usize) -> PoolItem {
    let (id, disks) = (pool_id(at), vec!["/disk".to_owned()]);
    let spec = PoolSpec::new(node_id(at), disks.clone());
    let meta = Meta::new(id, "pool", Time(1));
    let carried = Box::new(Pool { meta, spec, layout: PoolLayout::default() });
    PoolItem { id, disks, must_exist: false, carried }
}

fn volume_part(at: usize, is_serving: bool) -> VolumePart {
    let size = Bytes(BLOCKS * BLOCK as u64);
    let replica = ReplicaItem {
        id: replica_id(at),
        pool: pool_id(at),
        must_exist: false,
        size,
        thin: true,
        origin: None,
        admission: Some(Admission { epoch: EPOCH, node: Some(node_id(HERE)) }),
    };
    let child =
        |at| ChildItem { replica: replica_id(at), node: node_id(at), rebuild: true, retire: false };
    let target = is_serving.then(|| TargetItem {
        epoch: EPOCH,
        instance: instance(at),
        serve: true,
        size,
        children: vec![child(HERE), child(THERE)],
        hosts: [HOST].into(),
        snapshots: Vec::new(),
    });
    let carried = Volume {
        meta: Meta::new(VOLUME, "volume", Time(1)),
        spec: VolumeSpec { size, replicas: 2, ..VolumeSpec::default() },
        layout: VolumeLayout::default(),
    };
    let (replicas, carried) = (vec![replica], Box::new(carried));
    VolumePart { volume: VOLUME, replicas, target, needs: [].into(), carried }
}
