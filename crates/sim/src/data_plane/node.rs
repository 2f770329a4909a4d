//! A node: disks that outlive everything, and a process that runs the real storage node.

use block::Buffer;
use mirror::{Replica, Target, Throttle, Times};
use pool::{Boot, Crash, Flaws, Format, FormatOptions, FormatStep, Pool, SimDisk, Sizes};
use storage_node::{LogEvent, Mutations, NodeParams, Ticket};

use super::{
    judge::Reported,
    world::{Event, GEOMETRY, Stage, VOLUME, World, instance, node_id, pool_id, replica_id},
};
use crate::{
    Random,
    simulated_node::{NodeOutput, SimulatedDisk, SimulatedNode, time},
};

/// Clusters for the windows and some snapshots of them, and little more: pools can be filled.
const DISK: u64 = 64 * 40;
const SIZES: Sizes = Sizes { journal: 48, catalog: 8, room_for: DISK + 4 * GROWTH };
const GROWTH: u64 = 64 * 4;
/// The second disk has a pool with an idle replica.
const SECOND_DISK: u64 = 64 * 8;
const SECOND_SIZES: Sizes = Sizes { journal: 48, catalog: 8, room_for: SECOND_DISK };
/// Where the volume lies, and the other one.
pub(super) const MAIN: usize = 0;
pub(super) const SECOND: usize = 1;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) index: usize,
    pub(super) disks: Vec<SimulatedDisk>,
    pub(super) boot: u128,
    /// Counts its processes; zero before the first.
    pub(super) process: u64,
    pub(super) running: Option<Box<SimulatedNode>>,
    wake_at: u64,
    /// The highest epoch that a replica here said it had let in.
    pub(super) fenced: u64,
    pub(super) reported: Reported,
    /// Its disk refuses something.
    pub(super) is_bad: bool,
    /// Its disk is a blank one, and the record does not know.
    pub(super) is_swapped: bool,
}

pub(super) fn disk_path(node: usize, disk: usize) -> String {
    format!("/dev/disk-{node}-{disk}")
}

pub(super) fn address(node: usize) -> String {
    format!("10.0.0.{}:4420", node + 1)
}

impl Node {
    pub(super) fn new(index: usize, random: &mut Random) -> Self {
        let disk = |disk: usize, blocks: u64, seed: u64| {
            let mut drive = SimDisk::new(blocks, seed);
            drive.litter();
            SimulatedDisk::new(disk_path(index, disk), drive)
        };
        let (main, second) = (random.draw(), random.draw());
        Self {
            index,
            disks: vec![disk(MAIN, DISK, main), disk(SECOND, SECOND_DISK, second)],
            boot: 1,
            process: 0,
            running: None,
            wake_at: u64::MAX,
            fenced: 0,
            reported: Reported::default(),
            is_bad: false,
            is_swapped: false,
        }
    }

    /// The pool of the volume, when it is open.
    pub(super) fn pool(&self) -> Option<&Pool> {
        self.running.as_ref()?.machine.pool(pool_id(self.index, MAIN))
    }

    pub(super) fn is_up(&self) -> bool {
        self.pool().is_some()
    }

    pub(super) fn replica(&self) -> Option<&Replica<Buffer>> {
        self.running.as_ref()?.machine.replica(replica_id(self.index))
    }

    pub(super) fn target(&self) -> Option<&Target<Buffer>> {
        self.running.as_ref()?.machine.target(VOLUME)
    }
}

impl World {
    /// Makes a pool, before anything happens.
    pub(super) fn format(&mut self, node: usize, disk: usize) {
        let drive = &mut self.nodes[node].disks[disk].disk;
        let options = FormatOptions {
            pool: pool_id(node, disk),
            name: format!("pool-{node}-{disk}"),
            blocks: drive.blocks(),
            sizes: if disk == MAIN { SIZES } else { SECOND_SIZES },
            force: true,
        };
        let mut format = Format::new(options);
        loop {
            match format.poll() {
                Some(FormatStep::Io { id, io }) => drive.submit(id, io),
                Some(FormatStep::Done(result)) => {
                    if let Err(error) = *result {
                        self.breaks("7", format!("a pool cannot be made: {error}"));
                    }
                    return;
                }
                None => match drive.complete() {
                    Some((id, result)) => format.io_done(id, result),
                    None => return,
                },
            }
        }
    }

    /// A process begins, unless another was started meanwhile. Some look for pools before anybody
    /// tells them of one.
    pub(super) fn start_process(&mut self, node: usize, after: u64) {
        let it = &mut self.nodes[node];
        if it.process != after || it.running.is_some() {
            return;
        }
        it.process += 1;
        let process = it.process;
        let params = NodeParams {
            advertised: vec![address(node)],
            times: Times { idle: model::Millis(3_000), ..Times::default() },
            throttle: Throttle { rate: 8_000, window: 2 },
            geometry: GEOMETRY,
            mutations: Mutations {
                pool: self.rules.pool.map_or_else(Flaws::default, Flaws::with),
                mirror: self.rules.mirror,
                node: self.rules.node,
            },
            ..NodeParams::new(node_id(node), instance(node, process), Boot(it.boot))
        };
        let mut running = SimulatedNode::new(params, self.now);
        if self.random.chance(700) {
            for disk in [MAIN, SECOND] {
                running.machine.look_at(pool_id(node, disk), disk_path(node, disk));
            }
        }
        it.running = Some(Box::new(running));
        it.wake_at = u64::MAX;
        it.reported = Reported::default();
        self.control.process_started(node);
        self.note(|| format!("process {process} of node {node} starts"));
        self.turn(node);
        let delay = self.latency();
        self.after(delay, Event::SendConfig { node });
    }

    /// The node acts, and everything that it wants is begun.
    pub(super) fn turn(&mut self, node: usize) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let Some(running) = &mut it.running else { return };
        let outputs = running.run(now, &mut it.disks);
        let audit = running.machine.take_audit();
        self.judge_audit(node, &audit);
        let is_told = outputs.iter().any(|output| matches!(output, NodeOutput::Outdated { .. }));
        let is_opened = outputs.iter().any(|output| {
            let NodeOutput::Log(LogEvent::PoolImported { pool, .. }) = output else { return false };
            *pool == pool_id(node, MAIN)
        });
        for output in outputs {
            self.node_says(node, output);
        }
        self.judge_report(node, is_told);
        if is_opened {
            self.grow_to_device(node);
            self.judge_copy(node);
        }
        self.set_wake(node);
    }

    fn set_wake(&mut self, node: usize) {
        let now = self.now;
        let it = &mut self.nodes[node];
        let Some(running) = &it.running else { return };
        let at = running.next_deadline().max(now + 1);
        if at < it.wake_at {
            it.wake_at = at;
            let process = it.process;
            self.at(at, Event::Wake { node, process });
        }
    }

    pub(super) fn wake(&mut self, node: usize, process: u64) {
        let it = &mut self.nodes[node];
        if it.process != process || it.running.is_none() || it.wake_at > self.now {
            return;
        }
        it.wake_at = u64::MAX;
        self.turn(node);
    }

    fn node_says(&mut self, node: usize, output: NodeOutput) {
        match output {
            NodeOutput::DiskBusy { disk } => {
                let process = self.nodes[node].process;
                let delay = self.random.between(20, 600);
                self.after(delay, Event::Disk { node, disk, process });
            }
            NodeOutput::Dial { conn, to } => self.node_dials(node, conn, to),
            NodeOutput::Send { end, bytes } => {
                self.judge_send(node, end);
                self.send(end, bytes);
            }
            NodeOutput::Close { end } => self.close(end),
            NodeOutput::AskStore { target, call, request } => {
                self.ask_store(node, target, call, request);
            }
            NodeOutput::Applied { ticket, result } => self.config_applied(node, ticket, result),
            NodeOutput::Inventory { inventory } => self.judge_inventory(node, &inventory),
            NodeOutput::Outdated { sequence } => {
                self.judge_outdated(node, sequence);
                let it = &mut self.nodes[node];
                if !std::mem::replace(&mut it.reported.is_asked, true) {
                    let process = it.process;
                    let delay = self.latency();
                    self.after(delay, Event::AskInventory { node, process });
                }
            }
            NodeOutput::Stopped => {}
            NodeOutput::Log(event) => self.node_logs(node, &event),
        }
    }

    pub(super) fn ask_inventory(&mut self, node: usize, process: u64) {
        let now = self.now;
        let it = &mut self.nodes[node];
        if let Some(running) = it.running.as_mut().filter(|_| it.process == process) {
            running.machine.request_inventory(time(now), Ticket(0));
            self.turn(node);
        }
    }

    fn node_logs(&mut self, node: usize, event: &LogEvent) {
        self.note(|| format!("node {node}: {event:?}"));
        match event {
            LogEvent::Target { notice, .. } if self.stage != Stage::Stopping => {
                self.count_notice(notice);
            }
            LogEvent::PoolFaulted { reason, .. } if !self.nodes[node].is_bad => {
                self.breaks("7", format!("a pool of node {node} fails without a reason: {reason}"));
            }
            _ => {}
        }
    }

    pub(super) fn disk_ends(&mut self, node: usize, disk: usize, process: u64) {
        let now = self.now;
        let it = &mut self.nodes[node];
        if it.process != process {
            return;
        }
        let drive = &mut it.disks[disk];
        if let Some(left) = drive.hung_until.checked_sub(now).filter(|left| *left > 0) {
            self.after(left, Event::Disk { node, disk, process });
            return;
        }
        let Some(running) = &mut it.running else { return };
        if running.disk_ends(now, &mut drive.disk) {
            self.turn(node);
        }
    }

    /// Something that no config asks for.
    pub(super) fn ask_pool(&mut self, node: usize, request: pool::Request) {
        let now = self.now;
        let it = &mut self.nodes[node];
        if let Some(running) = &mut it.running {
            running.machine.ask_pool(time(now), pool_id(node, MAIN), request);
            self.turn(node);
        }
    }

    /// The device is larger first; the pool follows, or does not before a crash.
    pub(super) fn grow(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        let drive = &mut it.disks[MAIN].disk;
        let blocks = drive.blocks() + GROWTH;
        if it.running.is_none() || blocks > DISK + 4 * GROWTH {
            return;
        }
        drive.grow(blocks);
        self.grow_to_device(node);
    }

    /// Whoever opens a pool on a larger device makes it grow.
    fn grow_to_device(&mut self, node: usize) {
        let blocks = self.nodes[node].disks[MAIN].disk.blocks();
        if self.nodes[node].pool().is_some_and(|pool| pool.geometry().blocks < blocks) {
            self.ask_pool(node, pool::Request::Grow { blocks });
        }
    }

    /// Somebody puts in another disk, and makes pool and replica anew.
    pub(super) fn swap_disk(&mut self, node: usize) {
        let mut drive = SimDisk::new(DISK, self.random.draw());
        drive.litter();
        let it = &mut self.nodes[node];
        it.disks[MAIN] = SimulatedDisk::new(disk_path(node, MAIN), drive);
        it.is_swapped = true;
        it.fenced = 0;
        self.format(node, MAIN);
        self.note(|| format!("node {node} has a blank disk"));
    }

    /// The process is gone; its disks may or may not have lost their power.
    pub(super) fn kill(&mut self, node: usize, crash: Crash) {
        // The kernel lets its files go a little later, now and then.
        let held = if self.random.chance(200) { self.random.between(1_000, 400_000) } else { 0 };
        let it = &mut self.nodes[node];
        it.running = None;
        it.is_bad = false;
        for drive in &mut it.disks {
            drive.disk.crash(crash);
            drive.held_until = self.now + if crash == Crash::Process { held } else { 0 };
        }
        if crash == Crash::Power {
            it.boot += 1;
            self.lost_power |= node < self.copies;
        }
        let process = it.process;
        self.note(|| format!("process {process} of node {node} dies: {crash:?}"));
        self.control.process_died(node);
        self.lose_streams(node);
    }
}
