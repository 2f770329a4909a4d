//! One node, its disks in memory, and time that moves when the test says so.

use alloc::{
    boxed::Box,
    collections::BTreeMap,
    string::{String, ToString as _},
    vec,
    vec::Vec,
};
use core::time::Duration;

use block::Buffer;
use model::{
    ConfigHead, EngineError, Era, InstanceId, Inventory, Key, Meta, NodeConfig, NodeId, NodePart,
    Pool, PoolId, PoolItem, PoolLayout, PoolSpec, Revision, Scope, Time,
};
use pool::{IoError, IoId, SimDisk};

use crate::{DiskId, DiskIoId, DiskOpenError, Effect, LogEvent, NodeParams, StorageNode, Ticket};

pub const NODE: NodeId = NodeId::from_u128(1);
pub const INSTANCE: InstanceId = InstanceId::from_u128(0x1_0000);

/// A disk, and what is wrong with it.
#[derive(Debug)]
pub struct TestDisk {
    pub disk: SimDisk,
    pub condition: Condition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Fine,
    /// Another process has it.
    Busy,
    /// Takes everything and ends nothing.
    Hung,
    /// Fails everything after so many operations.
    FailsAfter(usize),
}

impl TestDisk {
    fn complete(&mut self) -> Option<(DiskIoId, Result<Option<Buffer>, IoError>)> {
        if self.condition == Condition::Hung {
            return None;
        }
        let (IoId(io), result) = self.disk.complete()?;
        let result = match &mut self.condition {
            Condition::FailsAfter(0) => Err(IoError { code: 5 }),
            Condition::FailsAfter(left) => {
                *left -= 1;
                result
            }
            _ => result,
        };
        Some((DiskIoId(u32::try_from(io).unwrap()), result))
    }
}

#[derive(Debug)]
pub struct TestNode {
    pub node: StorageNode,
    pub now: Duration,
    pub disks: BTreeMap<String, TestDisk>,
    open: BTreeMap<DiskId, String>,
    last_disk: u32,
    last_ticket: u64,
    pub applied: BTreeMap<Ticket, Result<Revision, EngineError>>,
    pub inventories: BTreeMap<Ticket, Inventory>,
    pub outdated: u64,
    pub is_stopped: bool,
    pub log: Vec<LogEvent>,
}

impl TestNode {
    pub fn new(blocks: u64, paths: &[&str]) -> Self {
        let disk = |(seed, path): (u64, &&str)| {
            let disk = TestDisk { disk: SimDisk::new(blocks, seed), condition: Condition::Fine };
            ((*path).to_string(), disk)
        };
        Self::on((1..).zip(paths).map(disk).collect(), INSTANCE)
    }

    /// A process on disks that are there.
    pub fn on(disks: BTreeMap<String, TestDisk>, instance: InstanceId) -> Self {
        let params = NodeParams {
            advertised: vec!["127.0.0.1:4420".into()],
            ..NodeParams::new(NODE, instance, pool::Boot(1))
        };
        Self {
            node: StorageNode::new(params, Duration::ZERO),
            now: Duration::ZERO,
            disks,
            open: BTreeMap::new(),
            last_disk: 0,
            last_ticket: 0,
            applied: BTreeMap::new(),
            inventories: BTreeMap::new(),
            outdated: 0,
            is_stopped: false,
            log: Vec::new(),
        }
    }

    pub fn apply(&mut self, config: NodeConfig) -> Ticket {
        let ticket = self.ticket();
        self.node.apply(self.now, ticket, config);
        self.settle();
        ticket
    }

    pub fn request_inventory(&mut self) -> Ticket {
        let ticket = self.ticket();
        self.node.request_inventory(self.now, ticket);
        self.settle();
        ticket
    }

    /// The inventory now.
    pub fn inventory(&mut self) -> Inventory {
        let ticket = self.request_inventory();
        self.inventories.remove(&ticket).expect("nothing is being opened")
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket(self.last_ticket)
    }

    /// Lets time pass, with every deadline on the way.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.node.next_deadline() < end {
            self.now = self.now.max(self.node.next_deadline());
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    /// Runs until nothing more comes without time passing.
    pub fn settle(&mut self) {
        loop {
            self.node.run(self.now);
            let mut is_quiet = true;
            while let Some(effect) = self.node.next_effect() {
                is_quiet = false;
                self.carry_out(effect);
            }
            for path in self.open.values() {
                let Some(entry) = self.disks.get_mut(path) else { continue };
                while let Some((io, result)) = entry.complete() {
                    is_quiet = false;
                    self.node.disk_done(self.now, io, result);
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::OpenDisk(open) => {
                let result = self.open_disk(&open.paths[0]);
                self.node.disk_opened(self.now, &open, result);
            }
            Effect::CloseDisk(disk) => {
                self.open.remove(&disk);
            }
            Effect::Disk { io, disk, op, .. } => {
                let path = self.open.get(&disk).cloned();
                match path.and_then(|path| self.disks.get_mut(&path)) {
                    Some(entry) => entry.disk.submit(IoId(u64::from(io.0)), op),
                    None => self.node.disk_done(self.now, io, Err(IoError { code: 5 })),
                }
            }
            Effect::Applied { ticket, result } => {
                self.applied.insert(ticket, result);
            }
            Effect::Inventory { ticket, inventory } => {
                self.inventories.insert(ticket, *inventory);
            }
            Effect::Outdated { sequence } => self.outdated = self.outdated.max(sequence),
            Effect::Stopped => self.is_stopped = true,
            Effect::Log(event) => self.log.push(event),
            Effect::Send { outgoing, .. } => self.node.recycle(outgoing),
            Effect::Dial { .. } | Effect::Close(_) | Effect::AskStore { .. } => {}
        }
    }

    fn open_disk(&mut self, path: &str) -> Result<(DiskId, u64), DiskOpenError> {
        let reason = path.to_string();
        let Some(entry) = self.disks.get(path) else {
            return Err(DiskOpenError::Missing { reason });
        };
        let is_taken = self.open.values().any(|open| open == path);
        if entry.condition == Condition::Busy || is_taken {
            return Err(DiskOpenError::Busy { reason });
        }
        self.last_disk += 1;
        let disk = DiskId(self.last_disk);
        self.open.insert(disk, path.to_string());
        Ok((disk, entry.disk.blocks()))
    }
}

/// A config of pools alone, each on its disk.
pub fn pools(generation: u64, pools: &[(PoolId, &str)]) -> NodeConfig {
    let head = ConfigHead {
        era: Era::from_u128(1),
        term: InstanceId::from_u128(2),
        instance: INSTANCE,
        generation: Revision(generation),
        scope: Scope::Whole,
        former: Vec::new(),
    };
    let part = |(id, disk): &(PoolId, &str)| {
        let disks = vec![(*disk).to_string()];
        let spec = PoolSpec::new(NODE, disks.clone());
        let meta = Meta::new(*id, "pool", Time(1));
        let carried = Box::new(Pool { meta, spec, layout: PoolLayout::default() });
        let item = PoolItem { id: *id, disks, must_exist: false, carried };
        (Key::Pool(*id), Some(NodePart::Pool(item)))
    };
    NodeConfig { head, parts: pools.iter().map(part).collect() }
}
