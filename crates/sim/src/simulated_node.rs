//! A storage node on simulated disks: the driver of the engine, with nothing of a kernel.
//!
//! What the node wants of its disks is done here; what it wants of others (streams, the store, the
//! controller) comes out as [`NodeOutput`], for the world that it lives in.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use block::Buffer;
use model::{EngineError, Inventory, Revision};
use pool::{IoId, SimDisk};
use storage_node::{
    ConnId, DiskId, DiskIoId, DiskOpenError, Effect, LogEvent, NodeParams, OpenDisk, StorageNode,
    TargetKey, Ticket,
};

use crate::streams::{Arrival, StreamEnd};

/// A disk of a machine: it outlives every process.
#[derive(Debug)]
pub struct SimulatedDisk {
    pub path: String,
    pub disk: SimDisk,
    /// Until then it ends nothing.
    pub hung_until: u64,
    /// Until then a process that is gone still has it.
    pub held_until: u64,
}

/// A process: the real node, and what a driver knows of it.
#[derive(Debug)]
pub struct SimulatedNode {
    pub machine: StorageNode,
    /// By the numbers that the node uses, the place in the list of disks.
    disks: BTreeMap<DiskId, usize>,
    last_disk: u32,
    conns: BTreeMap<ConnId, StreamEnd>,
    ends: BTreeMap<StreamEnd, ConnId>,
}

/// What a node wants of the world around it.
#[derive(Debug)]
pub enum NodeOutput {
    /// An operation was given to this disk: let one end some time.
    DiskBusy {
        disk: usize,
    },
    /// Say so by `dialled`.
    Dial {
        conn: ConnId,
        to: SocketAddr,
    },
    Send {
        end: StreamEnd,
        bytes: Vec<u8>,
    },
    Close {
        end: StreamEnd,
    },
    AskStore {
        target: TargetKey,
        call: u64,
        request: mirror::StoreRequest,
    },
    Applied {
        ticket: Ticket,
        result: Result<Revision, EngineError>,
    },
    Inventory {
        inventory: Box<Inventory>,
    },
    Outdated {
        sequence: u64,
    },
    Stopped,
    Log(LogEvent),
}

impl SimulatedDisk {
    pub fn new(path: String, disk: SimDisk) -> Self {
        Self { path, disk, hung_until: 0, held_until: 0 }
    }
}

/// What a disk answers that is not open.
const EIO: pool::IoError = pool::IoError { code: 5 };

/// Worlds count microseconds.
pub const fn time(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

impl NodeOutput {
    fn dials(&self, wanted: ConnId) -> bool {
        matches!(self, Self::Dial { conn, .. } if *conn == wanted)
    }
}

impl SimulatedNode {
    pub fn new(params: NodeParams, now: u64) -> Self {
        Self {
            machine: StorageNode::new(params, time(now)),
            disks: BTreeMap::new(),
            last_disk: 0,
            conns: BTreeMap::new(),
            ends: BTreeMap::new(),
        }
    }

    /// Lets the node act, and does what its disks are to do.
    pub fn run(&mut self, now: u64, disks: &mut [SimulatedDisk]) -> Vec<NodeOutput> {
        let mut outputs = Vec::new();
        loop {
            self.machine.run(time(now));
            let mut has_news = false;
            while let Some(effect) = self.machine.next_effect() {
                has_news |= self.carry_out(now, disks, effect, &mut outputs);
            }
            if !has_news {
                return outputs;
            }
        }
    }

    /// When `run` is due.
    pub fn next_deadline(&self) -> u64 {
        let deadline = self.machine.next_deadline();
        u64::try_from(deadline.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
    }

    /// True if the node has heard something of it already.
    fn carry_out(
        &mut self,
        now: u64,
        disks: &mut [SimulatedDisk],
        effect: Effect,
        outputs: &mut Vec<NodeOutput>,
    ) -> bool {
        let output = match effect {
            Effect::OpenDisk(open) => {
                let result = self.open_disk(now, disks, &open);
                self.machine.disk_opened(time(now), &open, result);
                return true;
            }
            Effect::CloseDisk(disk) => {
                self.disks.remove(&disk);
                return false;
            }
            // Delays are for faults that are injected; here disks have their own.
            Effect::Disk { io, disk, op, .. } => {
                let Some(index) = self.disks.get(&disk).copied() else {
                    self.machine.disk_done(time(now), io, Err(EIO));
                    return true;
                };
                disks[index].disk.submit(IoId(u64::from(io.0)), op);
                NodeOutput::DiskBusy { disk: index }
            }
            Effect::Dial { conn, to } => NodeOutput::Dial { conn, to },
            Effect::Send { conn, outgoing } => {
                let end = self.conns.get(&conn).copied();
                let bytes: Vec<u8> = outgoing.pieces(0).flatten().copied().collect();
                self.machine.recycle(outgoing);
                let Some(end) = end else { return false };
                NodeOutput::Send { end, bytes }
            }
            Effect::Close(conn) => {
                let known = if let Some(end) = self.forget(conn) {
                    outputs.push(NodeOutput::Close { end });
                    true
                } else {
                    // Left before anybody was dialled.
                    let dialled = outputs.iter().position(|output| output.dials(conn));
                    dialled.map(|at| outputs.remove(at)).is_some()
                };
                if known {
                    self.machine.closed(time(now), conn);
                }
                return known;
            }
            Effect::AskStore { target, call, request } => {
                NodeOutput::AskStore { target, call, request }
            }
            Effect::Applied { ticket, result } => NodeOutput::Applied { ticket, result },
            Effect::Inventory { inventory, .. } => NodeOutput::Inventory { inventory },
            Effect::Outdated { sequence } => NodeOutput::Outdated { sequence },
            Effect::Stopped => NodeOutput::Stopped,
            Effect::Log(event) => NodeOutput::Log(event),
        };
        outputs.push(output);
        false
    }

    fn open_disk(
        &mut self,
        now: u64,
        disks: &[SimulatedDisk],
        open: &OpenDisk,
    ) -> Result<(DiskId, u64), DiskOpenError> {
        let index = disks.iter().position(|disk| open.paths.contains(&disk.path));
        let Some(index) = index else {
            return Err(DiskOpenError::Missing { reason: "there is no such disk".into() });
        };
        if now < disks[index].held_until {
            return Err(DiskOpenError::Busy { reason: "another process has it".into() });
        }
        self.last_disk += 1;
        let disk = DiskId(self.last_disk);
        self.disks.insert(disk, index);
        Ok((disk, disks[index].disk.blocks()))
    }

    /// One operation of a disk ends, any of those that are under way. False if none was.
    pub fn disk_ends(&mut self, now: u64, disk: &mut SimDisk) -> bool {
        let Some((IoId(io), result)) = disk.complete() else { return false };
        let io = DiskIoId(u32::try_from(io).unwrap_or(u32::MAX));
        let result: Result<Option<Buffer>, _> = result;
        self.machine.disk_done(time(now), io, result);
        true
    }

    /// A connection that the node dials goes by this end.
    pub fn dialled(&mut self, conn: ConnId, end: StreamEnd) {
        self.conns.insert(conn, end);
        self.ends.insert(end, conn);
    }

    /// False if a stream that was dialled is refused.
    pub fn arrived(&mut self, now: u64, end: StreamEnd, arrival: &Arrival) -> bool {
        if *arrival == Arrival::Dialled {
            let Some(conn) = self.machine.accept(time(now)) else { return false };
            self.dialled(conn, end);
            return true;
        }
        let Some(conn) = self.ends.get(&end).copied() else { return true };
        match arrival {
            Arrival::Dialled => {}
            Arrival::Accepted => self.machine.connected(time(now), conn),
            Arrival::Bytes(bytes) => self.machine.received(time(now), conn, bytes),
            Arrival::Closed => {
                self.forget(conn);
                self.machine.closed(time(now), conn);
            }
        }
        true
    }

    fn forget(&mut self, conn: ConnId) -> Option<StreamEnd> {
        let end = self.conns.remove(&conn)?;
        self.ends.remove(&end);
        Some(end)
    }
}
