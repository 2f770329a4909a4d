//! A node: a disk that outlives everything, and a process with a pool and a replica.

use std::collections::BTreeMap;

use block::Buffer;
use mirror::{Frozen, Replica};
use model::{InstanceId, PoolId};
use pool::{
    Boot, Crash, Flaws, Format, FormatOptions, FormatStep, Fsck, FsckStep, Image, Import,
    ImportOptions, ImportStep, Io, Out, Pool, Request, RequestId, SimDisk, Sizes,
};

use super::{
    disk_ops::Asker,
    world::{BLOCKS, Event, GEOMETRY, VOLUME, WINDOWS, World, number, replica_id},
};

/// Clusters for the windows and some snapshots of them, and little more: pools can be filled.
const DISK: u64 = 64 * 40;
const SIZES: Sizes = Sizes { journal: 48, catalog: 8, room_for: DISK + 4 * GROWTH };
const GROWTH: u64 = 64 * 4;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) disk: SimDisk,
    /// Blocks of the device, as the process knows it.
    blocks: u64,
    pub(super) boot: u128,
    /// Counts its processes; zero before the first.
    pub(super) process: u64,
    pub(super) state: State,
    /// The highest epoch that a replica here said it had let in.
    pub(super) fenced: u64,
    /// Its disk refuses something.
    pub(super) is_bad: bool,
    /// Its disk is a blank one, and the record does not know.
    pub(super) is_swapped: bool,
    /// Until then its disk ends nothing.
    pub(super) stalled_until: u64,
}

#[derive(Debug)]
pub(super) enum State {
    Down,
    Importing(Box<Import>),
    Up(Box<Up>),
}

/// An open pool and its replica.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) pool: Pool,
    /// None on a node that only runs targets.
    pub(super) replica: Option<Replica<Buffer>>,
    pub(super) asked: BTreeMap<RequestId, Asker>,
    pub(super) last: u64,
}

impl Node {
    pub(super) fn new(seed: u64) -> Self {
        let mut disk = SimDisk::new(DISK, seed);
        disk.litter();
        Self {
            disk,
            blocks: DISK,
            boot: 1,
            process: 0,
            state: State::Down,
            fenced: 0,
            is_bad: false,
            is_swapped: false,
            stalled_until: 0,
        }
    }

    pub(super) const fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    pub(super) fn replica(&mut self) -> Option<&mut Replica<Buffer>> {
        match &mut self.state {
            State::Up(up) => up.replica.as_mut(),
            _ => None,
        }
    }

    pub(super) fn up(&self) -> Option<&Up> {
        match &self.state {
            State::Up(up) => Some(up),
            _ => None,
        }
    }
}

fn frozen(found: pool::SnapshotState) -> Frozen {
    let pool::SnapshotState { snapshot, attempt, roster, blocks, name, .. } = found;
    Frozen { snapshot, attempt, roster, blocks, name }
}

impl World {
    /// Makes the pool, and its replica if it has one, before anything happens.
    pub(super) fn format(&mut self, node: usize) {
        let options = FormatOptions {
            pool: PoolId::from_u128(number(node) + 1),
            name: format!("pool-{node}"),
            blocks: self.nodes[node].blocks,
            sizes: SIZES,
            force: true,
        };
        let mut format = Format::new(options);
        let disk = &mut self.nodes[node].disk;
        loop {
            match format.poll() {
                Some(FormatStep::Io { id, io }) => disk.submit(id, io),
                Some(FormatStep::Done(result)) => {
                    if let Err(error) = *result {
                        self.breaks("7", format!("a pool cannot be made: {error}"));
                    }
                    return;
                }
                None => match disk.complete() {
                    Some((id, result)) => format.io_done(id, result),
                    None => return,
                },
            }
        }
    }

    /// A process begins to open its pool, unless another was started meanwhile.
    pub(super) fn start_process(&mut self, node: usize, after: u64) {
        let it = &mut self.nodes[node];
        if it.process != after || !matches!(it.state, State::Down) {
            return;
        }
        it.process += 1;
        let flaws = self.rules.pool.map_or_else(Flaws::default, Flaws::with);
        let options =
            ImportOptions { blocks: it.blocks, boot: Boot(it.boot), discard: true, flaws };
        it.state = State::Importing(Box::new(Import::new(options)));
        let process = it.process;
        self.note(|| format!("process {process} of node {node} starts"));
        self.poll_pool(node);
    }

    /// Gives the disk what the pool wants done, and the replica what is done.
    pub(super) fn poll_pool(&mut self, node: usize) {
        loop {
            let io = match &mut self.nodes[node].state {
                State::Down => return,
                State::Importing(import) => match import.poll() {
                    Some(ImportStep::Io { id, io }) => Some((id, io)),
                    Some(ImportStep::Done(result)) => {
                        self.imported(node, *result);
                        None
                    }
                    None => return,
                },
                State::Up(up) => match up.pool.poll() {
                    Some(Out::Io { id, io }) => Some((id, io)),
                    Some(Out::Done { request, result }) => {
                        if let Some(asker) = up.asked.remove(&request) {
                            self.pool_answers(node, asker, result);
                        }
                        None
                    }
                    None => return,
                },
            };
            let Some((id, io)) = io else { continue };
            self.nodes[node].disk.submit(id, io);
            let process = self.nodes[node].process;
            let delay = self.random.between(20, 600);
            self.after(delay, Event::Disk { node, process });
        }
    }

    pub(super) fn disk_ends(&mut self, node: usize, process: u64) {
        let it = &mut self.nodes[node];
        if it.process != process {
            return;
        }
        if let Some(left) = it.stalled_until.checked_sub(self.now).filter(|left| *left > 0) {
            self.after(left, Event::Disk { node, process });
            return;
        }
        let Some((id, result)) = it.disk.complete() else { return };
        match &mut it.state {
            State::Down => return,
            State::Importing(import) => import.io_done(id, result),
            State::Up(up) => up.pool.io_done(id, result),
        }
        self.poll_pool(node);
    }

    fn imported(&mut self, node: usize, result: Result<pool::Imported, pool::ImportError>) {
        let imported = match result {
            Ok(imported) => imported,
            Err(_) if self.nodes[node].is_bad => {
                // Its disk fails now; it is tried again.
                self.nodes[node].state = State::Down;
                let after = self.nodes[node].process;
                self.after(500_000, Event::StartProcess { node, process: after });
                return;
            }
            Err(error) => {
                self.nodes[node].state = State::Down;
                self.breaks("7", format!("the pool of node {node} cannot be opened: {error}"));
                return;
            }
        };
        let stop = imported.stop;
        self.note(|| format!("the pool of node {node} is open, left by {stop:?}"));
        let pool = imported.pool;
        let replica = self.import_replica(node, &pool);
        let (asked, last) = (BTreeMap::new(), 0);
        self.nodes[node].state = State::Up(Box::new(Up { pool, replica, asked, last }));
        self.grow_to_device(node);
        if node >= self.copies {
            return;
        }
        let has_replica = self.nodes[node].replica().is_some();
        if has_replica {
            self.judge_copy(node);
        } else {
            self.create_replica(node);
        }
    }

    pub(super) fn import_replica(&self, node: usize, pool: &Pool) -> Option<Replica<Buffer>> {
        let it = &self.nodes[node];
        let state = pool.replica(replica_id(node))?;
        let of = pool.snapshots().filter(|snapshot| snapshot.replica == replica_id(node));
        let machine = Replica::import(
            InstanceId::from_u128(number(node) * 1_000_000 + u128::from(it.process)),
            Boot(it.boot),
            GEOMETRY,
            state.header.clone(),
            of.map(frozen).collect(),
        );
        Some(match self.rules.mirror {
            Some(flaw) => machine.flawed(flaw),
            None => machine,
        })
    }

    fn create_replica(&mut self, node: usize) {
        let new = pool::NewReplica {
            replica: replica_id(node),
            volume: VOLUME,
            blocks: BLOCKS,
            thin: true,
            birth: None,
            carried: (model::Revision::ZERO, Vec::new()),
            origin: None,
        };
        self.ask_pool(node, Asker::Created, Request::Create(Box::new(new)));
    }

    /// The device is larger first; the pool follows, or does not before a crash.
    pub(super) fn grow(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        if !it.is_up() || it.blocks >= DISK + 4 * GROWTH {
            return;
        }
        it.blocks += GROWTH;
        it.disk.grow(it.blocks);
        self.grow_to_device(node);
    }

    /// Whoever opens a pool on a larger device makes it grow.
    fn grow_to_device(&mut self, node: usize) {
        let blocks = self.nodes[node].blocks;
        if self.nodes[node].up().is_some_and(|up| up.pool.geometry().blocks < blocks) {
            self.ask_pool(node, Asker::Other, Request::Grow { blocks });
        }
    }

    /// Somebody puts in another disk, and makes pool and replica anew.
    pub(super) fn swap_disk(&mut self, node: usize) {
        let seed = self.random.draw();
        let process = self.nodes[node].process;
        let boot = self.nodes[node].boot;
        self.nodes[node] = Node { process, boot, is_swapped: true, ..Node::new(seed) };
        self.format(node);
        self.note(|| format!("node {node} has a blank disk"));
    }

    /// The process is gone; its disk may or may not have lost its power.
    pub(super) fn kill(&mut self, node: usize, crash: Crash) {
        let it = &mut self.nodes[node];
        it.state = State::Down;
        it.disk.crash(crash);
        it.is_bad = false;
        if crash == Crash::Power {
            it.boot += 1;
            self.lost_power |= node < self.copies;
        }
        let process = it.process;
        self.note(|| format!("process {process} of node {node} dies: {crash:?}"));
        self.lose_targets(node);
        self.lose_wires(node);
    }

    /// What the windows of an image read as now, and where the whole has holes; nothing while that
    /// cannot be said.
    pub(super) fn peek(&self, node: usize, image: Image) -> Option<(Vec<u8>, Vec<bool>)> {
        let up = self.nodes[node].up()?;
        let mut pool = up.pool.clone();
        let whole = block::Extent::new(0, u32::try_from(BLOCKS).ok()?);
        let map = pool.alloc_map(image, whole).ok()?;
        let is_hole = |(run, state): &(block::Extent, pool::PageState)| {
            let count = usize::try_from(run.blocks).unwrap_or(0);
            std::iter::repeat_n(*state == pool::PageState::Hole, count)
        };
        let holes = map.iter().flat_map(is_hole).collect();
        let mut data = Vec::new();
        for extent in WINDOWS {
            data.extend_from_slice(self.peek_window(node, &mut pool, image, *extent)?.bytes());
        }
        Some((data, holes))
    }

    fn peek_window(
        &self,
        node: usize,
        pool: &mut Pool,
        image: Image,
        extent: block::Extent,
    ) -> Option<Buffer> {
        let mine = RequestId(u64::MAX - extent.start);
        pool.submit(mine, Request::Read { image, extent });
        let bytes = self.nodes[node].disk.bytes();
        while let Some(out) = pool.poll() {
            match out {
                Out::Io { id, io: Io::Read { offset, len } } => {
                    let start = usize::try_from(offset).ok()?;
                    let data = Buffer::copy_of(bytes.get(start..start + len)?);
                    pool.io_done(id, Ok(Some(data)));
                }
                Out::Done { request, result: Ok(pool::Reply::Data(data)) } if request == mine => {
                    return Some(data);
                }
                _ => {}
            }
        }
        None
    }

    /// What a check of the whole pool says.
    pub(super) fn fsck(&mut self, node: usize) -> Result<(), String> {
        let mut fsck = Fsck::new(self.nodes[node].blocks);
        let disk = &mut self.nodes[node].disk;
        loop {
            match fsck.poll() {
                Some(FsckStep::Io { id, io }) => disk.submit(id, io),
                Some(FsckStep::Done(result)) => {
                    let report = result.map_err(|error| error.to_string())?;
                    let is_clean = report.is_clean && report.findings.is_empty();
                    return is_clean.then_some(()).ok_or_else(|| format!("{report:?}"));
                }
                None => match disk.complete() {
                    Some((id, result)) => fsck.io_done(id, result),
                    None => return Err("fsck waits for nothing".into()),
                },
            }
        }
    }
}
