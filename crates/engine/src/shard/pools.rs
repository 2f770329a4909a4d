//! Pools: from a disk's path to an open pool, and everything that is asked of it.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use block::{BLOCK, Buffer, Extent};
use mirror::{DiskFault, DiskResult};
use model::{PoolId, ReplicaId, Revision};
use nvme::{Code, Reply, target::Tag};
use pool::{
    Flaws, Format, FormatOptions, FormatStep, Import, ImportOptions, ImportStep, Io, IoError, IoId,
    Out, Pool, Request, RequestId, Sizes, SuperblockError,
};
use tracing::{error, info, warn};
use uring::{Disk, Op, Outcome};

use super::{Shard, Work, replicas, settle};
use crate::{metrics::Histogram, token::Token};

/// An operation of a disk, and whom it is for.
#[derive(Debug)]
pub(super) enum DiskWork {
    /// A command on a device that is served as it is.
    Device {
        tag: Tag,
    },
    Pool {
        pool: PoolId,
        io: IoId,
        at: Instant,
    },
    /// A part of a pool that is no more.
    Erased,
    /// Held back on purpose, for tests.
    Delayed {
        work: Box<DiskWork>,
        op: Box<Op>,
    },
}

#[derive(Debug, Default)]
pub(super) struct Pools {
    pub(super) homes: BTreeMap<PoolId, Home>,
}

#[derive(Debug)]
pub(super) struct Home {
    pub(super) state: State,
    disk: Option<Disk>,
    /// What was asked of the open pool, by its number.
    asked: BTreeMap<RequestId, Asker>,
    last: u64,
    /// The config for which it was looked for, and when.
    pub(super) tried: (Revision, Instant),
    /// Everything of the config was done once since it was opened.
    pub(super) is_settled: bool,
    faults: Faults,
    pub(super) io: Histogram,
}

#[derive(Debug)]
pub(super) enum State {
    /// Another process has the disk: a predecessor may be on its way out.
    Busy {
        since: Instant,
        disks: Vec<String>,
        must: Must,
    },
    Formatting(Box<Format>),
    Importing {
        import: Box<Import>,
        else_format: bool,
    },
    Open(Box<Pool>),
    Faulted(String),
    Missing,
    Refused(String),
    Exported,
}

/// What to do about a pool that is not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Must {
    /// Once observed: it is never made again.
    Exist,
    BeMade,
}

/// Who asked a pool for something.
#[derive(Clone, Debug)]
pub(super) enum Asker {
    Replica {
        replica: ReplicaId,
        id: u64,
    },
    /// A membership, which is told when the pool has it.
    Roster {
        replica: ReplicaId,
        id: u64,
    },
    /// Data, to be cut into what is there and what is not.
    Fetch {
        replica: ReplicaId,
        id: u64,
        extent: Extent,
        runs: Vec<(Extent, bool)>,
    },
    /// Something that the config wants.
    Config(settle::Work),
}

/// Faults on purpose.
#[derive(Debug, Default)]
struct Faults {
    writes: bool,
    syncs: bool,
    reads: Option<std::ops::Range<u64>>,
    slow: Option<Duration>,
}

/// The system's number for an input/output error.
const EIO: i32 = 5;

impl Pools {
    pub(super) fn open(&self, pool: PoolId) -> Option<&Pool> {
        match &self.homes.get(&pool)?.state {
            State::Open(pool) => Some(pool),
            _ => None,
        }
    }
}

/// A pool that is not where it should be is looked for again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// A process that was killed is gone before the kernel has let its files go: what it had under way
/// is ended later, by somebody else.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);
pub(super) const BUSY_LOOK: Duration = Duration::from_millis(20);

impl Home {
    /// Lets its disk go: it carries something else, or nothing.
    fn is_not_here(&mut self) {
        self.state = State::Missing;
        self.disk = None;
    }

    /// Whether it is not here and it may pay to look for it again.
    pub(super) fn is_worth_a_look(&self, generation: Revision) -> bool {
        let is_away = matches!(self.state, State::Missing | State::Refused(_));
        let (tried, at) = self.tried;
        is_away && (tried != generation || at.elapsed() >= LOOK_AGAIN)
    }

    fn new(state: State, disk: Option<Disk>) -> Self {
        Self {
            state,
            disk,
            asked: BTreeMap::new(),
            last: 0,
            tried: (Revision::ZERO, Instant::now()),
            is_settled: false,
            faults: Faults::default(),
            io: Histogram::default(),
        }
    }
}

impl Shard {
    /// Opens a pool that is not here, or makes it if that is allowed.
    pub(super) fn bring_pool(&mut self, id: PoolId, disks: &[String], must: Must) {
        // Its disk is let go before it is opened again.
        let before = self.pools.homes.remove(&id);
        let (was_busy, busy_since) = match before.map(|home| home.state) {
            Some(State::Busy { since, .. }) => (true, since),
            _ => (false, Instant::now()),
        };
        let home = match open_disk(disks) {
            Ok(disk) => {
                let options = ImportOptions {
                    blocks: disk.size() / BLOCK as u64,
                    boot: self.identity.boot,
                    discard: true,
                    flaws: Flaws::default(),
                };
                let import = Box::new(Import::new(options));
                let else_format = must == Must::BeMade;
                Home::new(State::Importing { import, else_format }, Some(disk))
            }
            Err(uring::DiskError::Missing { .. }) if must == Must::Exist => {
                Home::new(State::Missing, None)
            }
            Err(error @ uring::DiskError::Busy { .. }) if busy_since.elapsed() < BUSY_PATIENCE => {
                if !was_busy {
                    info!(pool = %id, %error, "waiting for the disk");
                }
                let disks = disks.to_vec();
                Home::new(State::Busy { since: busy_since, disks, must }, None)
            }
            Err(error) => Home::new(State::Refused(error.to_string()), None),
        };
        let now = Instant::now();
        if matches!(home.state, State::Busy { .. }) {
            self.next_tick = self.next_tick.min(now + BUSY_LOOK);
        }
        let tried = (self.desired.generation(), now);
        self.pools.homes.insert(id, Home { tried, ..home });
        self.work.push_back(Work::Pool(id));
        self.changed();
    }

    /// Tries the disks again that others had. True if some are still to be tried.
    pub(super) fn look_at_busy(&mut self) -> bool {
        let busy = |(id, home): (&PoolId, &Home)| match &home.state {
            State::Busy { disks, must, .. } => Some((*id, disks.clone(), *must)),
            _ => None,
        };
        let waiting: Vec<_> = self.pools.homes.iter().filter_map(busy).collect();
        for (id, disks, must) in waiting {
            self.bring_pool(id, &disks, must);
        }
        self.pools.homes.values().any(|home| matches!(home.state, State::Busy { .. }))
    }

    pub(super) fn ask_pool(&mut self, id: PoolId, asker: Asker, request: Request) {
        let Some(home) = self.pools.homes.get_mut(&id) else { return };
        let State::Open(pool) = &mut home.state else {
            return self.pool_answers(id, asker, Err(pool::Error::Exported));
        };
        home.last += 1;
        let number = RequestId(home.last);
        home.asked.insert(number, asker);
        pool.submit(number, request);
        self.work.push_back(Work::Pool(id));
    }

    /// Does what a pool, an import or a format wants done.
    pub(super) fn pool_poll(&mut self, id: PoolId) {
        loop {
            let Some(home) = self.pools.homes.get_mut(&id) else { return };
            let (io_id, io) = match &mut home.state {
                State::Open(pool) => match pool.poll() {
                    Some(Out::Io { id, io }) => (id, io),
                    Some(Out::Done { request, result }) => {
                        if let Some(asker) = home.asked.remove(&request) {
                            self.pool_answers(id, asker, result);
                        }
                        continue;
                    }
                    None => return self.look_at_fault(id),
                },
                State::Importing { import, .. } => match import.poll() {
                    Some(ImportStep::Io { id, io }) => (id, io),
                    Some(ImportStep::Done(result)) => {
                        self.imported(id, *result);
                        continue;
                    }
                    None => return,
                },
                State::Formatting(format) => match format.poll() {
                    Some(FormatStep::Io { id, io }) => (id, io),
                    Some(FormatStep::Done(result)) => {
                        self.formatted(id, *result);
                        continue;
                    }
                    None => return,
                },
                _ => return,
            };
            self.start_io(id, io_id, io);
        }
    }

    fn look_at_fault(&mut self, id: PoolId) {
        let Some(home) = self.pools.homes.get_mut(&id) else { return };
        let State::Open(pool) = &home.state else { return };
        if let Some(fault) = pool.fault()
            && home.is_settled
        {
            // Told once; the replicas hear of it by their requests.
            error!(pool = %id, %fault, "pool faulted");
            home.is_settled = false;
            self.changed();
        }
    }

    fn imported(&mut self, id: PoolId, result: Result<pool::Imported, pool::ImportError>) {
        let Some(home) = self.pools.homes.get_mut(&id) else { return };
        let State::Importing { else_format, .. } = home.state else { return };
        self.is_stale = true;
        self.is_unsettled = true;
        match result {
            Ok(imported) if imported.pool.id() == id => {
                let replayed = imported.replayed;
                info!(pool = %id, stop = ?imported.stop, replayed, "pool imported");
                home.state = State::Open(Box::new(imported.pool));
                self.adopt_replicas(id);
            }
            Ok(_) if else_format => {
                home.state = State::Refused("the disk carries another pool".into());
            }
            // It must exist, and its disk carries another pool.
            Ok(_) => home.is_not_here(),
            Err(error) if else_format && is_blank(&error) => {
                let blocks = home.disk.as_ref().map_or(0, |disk| disk.size() / BLOCK as u64);
                let options = FormatOptions {
                    pool: id,
                    name: id.to_string(),
                    blocks,
                    sizes: Sizes::usual(blocks),
                    force: false,
                };
                info!(pool = %id, %error, "no pool there: making one");
                home.state = State::Formatting(Box::new(Format::new(options)));
            }
            Err(error) if is_blank(&error) => home.is_not_here(),
            Err(error) => home.state = State::Faulted(error.to_string()),
        }
        self.work.push_back(Work::Pool(id));
    }

    fn formatted(&mut self, id: PoolId, result: Result<pool::Geometry, pool::FormatError>) {
        let boot = self.identity.boot;
        let Some(home) = self.pools.homes.get_mut(&id) else { return };
        home.state = match (result, &home.disk) {
            (Ok(_), Some(disk)) => {
                let blocks = disk.size() / BLOCK as u64;
                let options =
                    ImportOptions { blocks, boot, discard: true, flaws: Flaws::default() };
                let import = Box::new(Import::new(options));
                State::Importing { import, else_format: false }
            }
            (Ok(_), None) => State::Missing,
            (Err(error), _) => {
                warn!(pool = %id, %error, "pool refused");
                State::Refused(error.to_string())
            }
        };
        self.is_unsettled = true;
        self.changed();
        self.work.push_back(Work::Pool(id));
    }

    fn start_io(&mut self, id: PoolId, io: IoId, what: Io) {
        let Some(home) = self.pools.homes.get_mut(&id) else { return };
        let work = DiskWork::Pool { pool: id, io, at: Instant::now() };
        if let Some(error) = home.faults.strike(&what) {
            self.pool_io_done(id, io, Err(error));
            return;
        }
        let slow = home.faults.slow;
        let Some(disk) = home.disk.clone() else {
            self.pool_io_done(id, io, Err(IoError { code: EIO }));
            return;
        };
        let op = match what {
            Io::Read { offset, len } => Op::Read { disk, offset, buffer: Buffer::zeroed(len) },
            Io::Write { offset, data, dsync } => {
                Op::Write { disk, offset, data: data.into(), dsync }
            }
            Io::Sync => Op::Sync { disk },
            Io::Discard { offset, len } => Op::Discard { disk, offset, len },
        };
        match slow {
            None => self.start_disk(work, op),
            Some(by) => {
                let (work, op) = (Box::new(work), Box::new(op));
                let at = Instant::now() + by;
                self.start_disk(DiskWork::Delayed { work, op }, Op::Timeout { at });
            }
        }
    }

    pub(super) fn start_disk(&mut self, work: DiskWork, op: Op) {
        let number = self.disks.insert(work);
        self.reactor.submit(Token::Disk(number).pack(), op);
    }

    pub(super) fn disk_done(&mut self, number: u32, outcome: Outcome) {
        let Some(work) = self.disks.remove(number) else { return };
        let (work, result) = match (work, outcome) {
            (DiskWork::Delayed { work, op }, _) => return self.start_disk(*work, *op),
            (work, Outcome::Read { buffer, result }) => (work, result.map(|()| Some(buffer))),
            (work, Outcome::Written { result, .. }) => (work, result.map(|()| None)),
            (work, Outcome::Synced(result) | Outcome::Discarded(result)) => {
                (work, result.map(|()| None))
            }
            _ => return,
        };
        match work {
            DiskWork::Device { tag } => {
                let result = match result {
                    Ok(Some(buffer)) => Ok(Reply::Data(buffer)),
                    Ok(None) => Ok(Reply::Done),
                    Err(error) => {
                        warn!(%error, "a device failed");
                        Err(Code::InternalError.into())
                    }
                };
                self.front.port.complete(tag, result);
            }
            DiskWork::Pool { pool, io, at } => {
                if let Some(home) = self.pools.homes.get_mut(&pool) {
                    home.io.add(at.elapsed());
                }
                self.pool_io_done(pool, io, result.map_err(|error| code(&error)));
            }
            DiskWork::Erased => {
                if let Err(error) = result {
                    warn!(%error, "a pool could not be erased");
                }
            }
            DiskWork::Delayed { .. } => {}
        }
    }

    fn pool_io_done(&mut self, id: PoolId, io: IoId, result: Result<Option<Buffer>, IoError>) {
        let Some(home) = self.pools.homes.get_mut(&id) else { return };
        match &mut home.state {
            State::Open(pool) => pool.io_done(io, result),
            State::Importing { import, .. } => import.io_done(io, result),
            State::Formatting(format) => format.io_done(io, result),
            _ => return,
        }
        self.work.push_back(Work::Pool(id));
    }

    fn pool_answers(&mut self, id: PoolId, asker: Asker, result: Result<pool::Reply, pool::Error>) {
        self.is_stale |= matches!(asker, Asker::Roster { .. });
        let (replica, number, result) = match (asker, result) {
            (Asker::Config(work), result) => return self.config_done(id, work, result),
            (Asker::Replica { replica, id }, Ok(pool::Reply::Data(data))) => {
                (replica, id, DiskResult::Data(data))
            }
            (Asker::Replica { replica, id } | Asker::Roster { replica, id }, Ok(_)) => {
                (replica, id, DiskResult::Done)
            }
            (Asker::Fetch { replica, id, extent, runs }, Ok(pool::Reply::Data(data))) => {
                let pieces = replicas::pieces(&data, extent, &runs);
                (replica, id, DiskResult::Pieces(pieces))
            }
            (Asker::Fetch { replica, id, .. }, Ok(_)) => {
                (replica, id, DiskResult::Failed(DiskFault::Media))
            }
            (
                Asker::Replica { replica, id }
                | Asker::Roster { replica, id }
                | Asker::Fetch { replica, id, .. },
                Err(error),
            ) => (replica, id, DiskResult::Failed(fault(&error))),
        };
        self.replica_disk_done(replica, number, result);
    }

    /// Takes an empty pool off its disk.
    pub(super) fn erase_pool(&mut self, id: PoolId) {
        let Some(home) = self.pools.homes.remove(&id) else { return };
        let Some(disk) = home.disk else { return };
        for io in pool::erase(disk.size() / BLOCK as u64) {
            if let Io::Write { offset, data, .. } = io {
                // Each durable by itself: no sync needs to wait for the others.
                let op = Op::Write { disk: disk.clone(), offset, data: data.into(), dsync: true };
                self.start_disk(DiskWork::Erased, op);
            }
        }
        info!(pool = %id, "pool erased");
        self.changed();
    }

    pub(super) fn inject(&mut self, fault: crate::fault::Fault) -> Result<(), String> {
        use crate::fault::Fault;
        if !self.identity.takes_faults {
            return Err("started without --allow-faults".into());
        }
        let faults = |pools: &mut Pools, pool: PoolId, strike: &dyn Fn(&mut Faults)| {
            let home = pools.homes.get_mut(&pool).ok_or("there is no such pool")?;
            strike(&mut home.faults);
            Ok(())
        };
        let pools = &mut self.pools;
        match fault {
            Fault::FailWrites { pool } => faults(pools, pool, &|faults| faults.writes = true),
            Fault::FailSyncs { pool } => faults(pools, pool, &|faults| faults.syncs = true),
            Fault::FailReads { pool, offset, len } => faults(pools, pool, &|faults| {
                faults.reads = Some(offset..offset.saturating_add(len));
            }),
            Fault::Slow { pool, by } => faults(pools, pool, &|faults| faults.slow = Some(by)),
            Fault::CutReplica { replica } => {
                self.cut_replica(replica);
                Ok(())
            }
            Fault::HideReplica { replica } => {
                self.faults.hidden.insert(replica);
                self.cut_replica(replica);
                Ok(())
            }
            Fault::FailExport { volume } => {
                self.faults.not_exported.insert(volume);
                Ok(())
            }
            Fault::Heal => {
                self.faults = crate::fault::Standing::default();
                pools.homes.values_mut().for_each(|home| home.faults = Faults::default());
                Ok(())
            }
        }
    }
}

impl Faults {
    fn strike(&self, io: &Io) -> Option<IoError> {
        let fails = match io {
            Io::Read { offset, len } => self.reads.as_ref().is_some_and(|bad| {
                *offset < bad.end && bad.start < offset.saturating_add(*len as u64)
            }),
            Io::Write { .. } => self.writes,
            Io::Sync => self.syncs,
            Io::Discard { .. } => false,
        };
        fails.then_some(IoError { code: EIO })
    }
}

/// There is no pool at all; not one that is damaged or of another version.
fn is_blank(error: &pool::ImportError) -> bool {
    let absent = pool::LoadError::Superblock(SuperblockError::Absent);
    *error == pool::ImportError::Load(absent)
}

fn open_disk(disks: &[String]) -> Result<Disk, uring::DiskError> {
    match disks {
        [one] => Disk::open(Path::new(one)),
        _ => Err(uring::DiskError::NotADisk { path: disks.join(", ").into() }),
    }
}

fn code(error: &uring::IoError) -> IoError {
    let code = match error {
        uring::IoError::Os(error) => error.raw_os_error().unwrap_or(EIO),
        uring::IoError::Unsupported => 95,
        uring::IoError::NoSpace => 28,
        _ => EIO,
    };
    IoError { code }
}

fn fault(error: &pool::Error) -> DiskFault {
    match error {
        pool::Error::NoSpace => DiskFault::NoSpace,
        pool::Error::Faulted { .. } | pool::Error::Exported => DiskFault::Faulted,
        _ => DiskFault::Media,
    }
}
