//! Pools: from a disk's path to an open pool, and everything that is asked of it.

use alloc::{
    boxed::Box,
    string::{String, ToString},
    vec::Vec,
};
use core::time::Duration;

use block::{Buffer, Durability};
use model::{PoolId, ReplicaId, Revision};
use pool::{
    Format, FormatOptions, FormatStep, Import, ImportOptions, ImportStep, Io, IoError, IoId, Out,
    Pool, Request, RequestId, Sizes, SuperblockError,
};

use super::{
    DiskWork, Storage,
    disk_faults::{DiskFaults, EIO},
};
use crate::{
    LogEvent, OpenDisk,
    config::ConfigWork,
    context::{ShardContext, Subject},
    effect::{DiskId, DiskIoId, DiskOpenError, Effect},
    message::Message,
    metrics::Histogram,
    registry::Handle,
    slab::Slab,
};

#[derive(Debug)]
pub(crate) struct PoolEntry {
    pub(crate) state: PoolState,
    disk: Option<(DiskId, u64)>,
    /// Of opening its disk.
    pub(super) attempt: u64,
    /// What was asked of the open pool, by its number.
    requests: Slab<PoolRequester>,
    /// It is to be polled before the turn ends.
    is_poll_queued: bool,
    /// The config for which it was looked for, and when.
    looked_for: (Revision, Duration),
    /// Everything that the config wants of it was done once since it was opened.
    pub(crate) is_settled: bool,
    pub(super) faults: DiskFaults,
    pub(crate) io: Histogram,
    /// It may differ from its last report.
    pub(crate) is_touched: bool,
}

#[derive(Debug)]
pub(crate) enum PoolState {
    Opening(Opening),
    /// Another process has the disk: a predecessor may be on its way out.
    Busy(Opening),
    Formatting(Box<Format>),
    Importing {
        import: Box<Import>,
        absence: Absence,
    },
    Open(Box<Pool>),
    Faulted(String),
    Missing,
    Refused(String),
    Exported,
}

/// A disk that is being opened, and what for.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    paths: Vec<String>,
    absence: Absence,
    /// Since when another process has the disk.
    busy_since: Option<Duration>,
}

/// What to do about a pool that is not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// Once observed it is never made again.
    Report,
    Format,
}

/// Who asked a pool for something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PoolRequester {
    Replica {
        replica: Handle<ReplicaId>,
        id: u64,
    },
    /// Blocks are changed, for a session of this epoch.
    #[cfg(feature = "flaws")]
    Change {
        replica: Handle<ReplicaId>,
        id: u64,
        epoch: model::Epoch,
    },
    /// A proof, which does not wait.
    #[cfg(feature = "flaws")]
    Nobody,
    /// Something that the config wants.
    Config(ConfigWork),
}

/// A pool that is not where it should be is looked for again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// A process that was killed is gone before the kernel has let its files go: what it had under way
/// is ended later, by somebody else.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);
const BUSY_LOOK: Duration = Duration::from_millis(20);

impl PoolEntry {
    fn new(state: PoolState, attempt: u64, looked_for: (Revision, Duration)) -> Self {
        Self {
            state,
            disk: None,
            attempt,
            requests: Slab::default(),
            is_poll_queued: false,
            looked_for,
            is_settled: false,
            faults: DiskFaults::default(),
            io: Histogram::default(),
            is_touched: false,
        }
    }

    /// Whether it is not here and it may pay to look for it again.
    pub(crate) fn is_worth_a_look(&self, generation: Revision, now: Duration) -> bool {
        let is_away = matches!(self.state, PoolState::Missing | PoolState::Refused(_));
        let (looked_for, at) = self.looked_for;
        is_away && (looked_for != generation || now >= at + LOOK_AGAIN)
    }

    /// On its way from a path to a pool.
    pub(crate) const fn is_opening(&self) -> bool {
        matches!(
            self.state,
            PoolState::Opening(_) | PoolState::Busy(_) | PoolState::Importing { .. }
        )
    }

    /// Once per turn of the queue, however much was asked.
    fn poll_soon(&mut self, cx: &mut ShardContext, id: Handle<PoolId>) {
        if !core::mem::replace(&mut self.is_poll_queued, true) {
            cx.send(Message::PollPool(id));
        }
    }

    /// For what is read: memory of earlier reads, once the pool is open.
    fn read_buffer(&mut self, len: usize) -> Buffer {
        match &mut self.state {
            PoolState::Open(pool) => pool.read_buffer(len),
            _ => Buffer::zeroed(len),
        }
    }

    fn release_disk(&mut self, cx: &mut ShardContext) {
        if let Some((disk, _)) = self.disk.take() {
            cx.put(Effect::CloseDisk(disk));
        }
    }

    fn import(&mut self, cx: &ShardContext, blocks: u64, absence: Absence) {
        let (boot, flaws) = (cx.params.boot, cx.params.mutations.pool);
        let options = ImportOptions { blocks, boot, discard: true, flaws };
        self.state = PoolState::Importing { import: Box::new(Import::new(options)), absence };
    }
}

impl Storage {
    /// Opens a pool that is not here, or makes it if that is allowed.
    pub(crate) fn bring_pool(
        &mut self,
        cx: &mut ShardContext,
        id: PoolId,
        paths: &[String],
        absence: Absence,
    ) {
        let opening = Opening { paths: paths.to_vec(), absence, busy_since: None };
        self.open_disk(cx, id, opening);
    }

    fn open_disk(&mut self, cx: &mut ShardContext, id: PoolId, opening: Opening) {
        // Its disk is let go before it is opened again.
        let faults = self.pools.remove(&id).map(|mut entry| {
            entry.release_disk(cx);
            entry.faults
        });
        self.attempts += 1;
        let attempt = self.attempts;
        let paths = opening.paths.clone();
        let looked_for = (cx.desired.generation(), cx.now);
        let mut entry = PoolEntry::new(PoolState::Opening(opening), attempt, looked_for);
        entry.faults = faults.unwrap_or_default();
        cx.touch(&mut entry.is_touched, Subject::Pool(id));
        self.pools.insert(id, entry);
        cx.put(Effect::OpenDisk(OpenDisk { pool: id, attempt, paths }));
    }

    pub(crate) fn disk_opened(
        &mut self,
        cx: &mut ShardContext,
        opened: &OpenDisk,
        result: Result<(DiskId, u64), DiskOpenError>,
    ) {
        let (id, pool) = (opened.pool, self.pools.handle(opened.pool));
        let entry = self.pools.at_mut(pool).filter(|entry| entry.attempt == opened.attempt);
        let Some(entry) = entry else {
            // Nobody waits for it any more.
            if let Ok((disk, _)) = result {
                cx.put(Effect::CloseDisk(disk));
            }
            return;
        };
        let PoolState::Opening(opening) = &entry.state else { return };
        let opening = opening.clone();
        cx.touch(&mut entry.is_touched, Subject::Pool(id));
        match result {
            Ok((disk, blocks)) => {
                entry.disk = Some((disk, blocks));
                entry.import(cx, blocks, opening.absence);
                cx.send(Message::PollPool(pool));
            }
            Err(DiskOpenError::Missing { .. }) if opening.absence == Absence::Report => {
                entry.state = PoolState::Missing;
            }
            Err(DiskOpenError::Busy { reason }) => {
                let since = opening.busy_since.unwrap_or(cx.now);
                if cx.now >= since + BUSY_PATIENCE {
                    entry.state = PoolState::Refused(reason);
                } else {
                    if opening.busy_since.is_none() {
                        cx.log(LogEvent::WaitingForDisk { pool: id, reason });
                    }
                    entry.state = PoolState::Busy(Opening { busy_since: Some(since), ..opening });
                    cx.wake_by(cx.now + BUSY_LOOK);
                }
            }
            Err(DiskOpenError::Missing { reason } | DiskOpenError::Refused { reason }) => {
                entry.state = PoolState::Refused(reason);
            }
        }
        cx.needs_settling = true;
    }

    /// Tries the disks again that others had. When to look next, if some are still to be tried.
    pub(crate) fn retry_busy_disks(&mut self, cx: &mut ShardContext) -> Option<Duration> {
        let busy = |(id, entry): (&PoolId, &PoolEntry)| match &entry.state {
            PoolState::Busy(opening) => Some((*id, opening.clone())),
            _ => None,
        };
        let waiting: Vec<_> = self.pools.iter().filter_map(busy).collect();
        let is_waiting = !waiting.is_empty();
        for (id, opening) in waiting {
            self.open_disk(cx, id, opening);
        }
        is_waiting.then(|| cx.now + BUSY_LOOK)
    }

    pub(crate) fn ask_pool(
        &mut self,
        cx: &mut ShardContext,
        id: Handle<PoolId>,
        requester: PoolRequester,
        request: Request,
    ) {
        let Some(entry) = self.pools.at_mut(id) else { return };
        let PoolState::Open(pool) = &mut entry.state else {
            let result = Err(pool::Error::Exported);
            return match requester {
                PoolRequester::Config(work) => {
                    cx.send(Message::ConfigWorkDone { pool: id.id, work, result });
                }
                #[cfg(feature = "flaws")]
                PoolRequester::Nobody => {}
                #[cfg(feature = "flaws")]
                PoolRequester::Change { replica, id, .. } => {
                    cx.send(Message::ReplicaDiskDone { replica, id, result });
                }
                PoolRequester::Replica { replica, id } => {
                    cx.send(Message::ReplicaDiskDone { replica, id, result });
                }
            };
        };
        let number = RequestId(u64::from(entry.requests.insert(requester)));
        pool.submit(number, request);
        entry.poll_soon(cx, id);
    }

    /// Does what a pool, an import or a format wants done.
    pub(crate) fn poll_pool(&mut self, cx: &mut ShardContext, id: Handle<PoolId>) {
        if let Some(entry) = self.pools.at_mut(id) {
            entry.is_poll_queued = false;
            cx.touch(&mut entry.is_touched, Subject::Pool(id.id));
        }
        loop {
            let Some(entry) = self.pools.at_mut(id) else { return };
            let (io_id, io) = match &mut entry.state {
                PoolState::Open(pool) => match pool.poll() {
                    Some(Out::Io { id, io }) => (id, io),
                    Some(Out::Done { request: RequestId(number), result }) => {
                        let number = u32::try_from(number).ok();
                        if let Some(requester) = number.and_then(|at| entry.requests.remove(at)) {
                            self.pool_answers(cx, id, requester, result);
                        }
                        continue;
                    }
                    None => return entry.note_fault(cx, id.id),
                },
                PoolState::Importing { import, .. } => match import.poll() {
                    Some(ImportStep::Io { id, io }) => (id, io),
                    Some(ImportStep::Done(result)) => {
                        self.imported(cx, id, *result);
                        continue;
                    }
                    None => return,
                },
                PoolState::Formatting(format) => match format.poll() {
                    Some(FormatStep::Io { id, io }) => (id, io),
                    Some(FormatStep::Done(result)) => {
                        self.formatted(cx, id, *result);
                        continue;
                    }
                    None => return,
                },
                _ => return,
            };
            self.start_io(cx, id, io_id, io);
        }
    }

    fn imported(
        &mut self,
        cx: &mut ShardContext,
        pool: Handle<PoolId>,
        result: Result<pool::Imported, pool::ImportError>,
    ) {
        let id = pool.id;
        let Some(entry) = self.pools.at_mut(pool) else { return };
        let PoolState::Importing { absence, .. } = entry.state else { return };
        cx.needs_settling = true;
        match (result, absence) {
            (Ok(imported), _) if imported.pool.id() == id => {
                let (stop, replayed) = (imported.stop, imported.replayed);
                cx.log(LogEvent::PoolImported { pool: id, stop, replayed });
                entry.state = PoolState::Open(Box::new(imported.pool));
                self.adopt_replicas(cx, pool);
            }
            (Ok(_), Absence::Format) => {
                entry.state = PoolState::Refused("the disk carries another pool".into());
            }
            (Err(error), Absence::Format) if is_blank(&error) => {
                let blocks = entry.disk.map_or(0, |(_, blocks)| blocks);
                let options = FormatOptions {
                    pool: id,
                    name: id.to_string(),
                    blocks,
                    sizes: cx.params.pool_sizes.unwrap_or_else(|| Sizes::usual(blocks)),
                    force: false,
                };
                cx.log(LogEvent::FormattingPool { pool: id, reason: error.to_string() });
                entry.state = PoolState::Formatting(Box::new(Format::new(options)));
            }
            // It must exist, and its disk carries another pool or none: that is let go.
            (Ok(_), Absence::Report) => {
                entry.state = PoolState::Missing;
                entry.release_disk(cx);
            }
            (Err(error), Absence::Report) if is_blank(&error) => {
                entry.state = PoolState::Missing;
                entry.release_disk(cx);
            }
            (Err(error), _) => {
                let reason = error.to_string();
                cx.log(LogEvent::PoolFaulted { pool: id, reason: reason.clone() });
                entry.state = PoolState::Faulted(reason);
            }
        }
        cx.send(Message::PollPool(pool));
    }

    fn formatted(
        &mut self,
        cx: &mut ShardContext,
        id: Handle<PoolId>,
        result: Result<pool::Geometry, pool::FormatError>,
    ) {
        let Some(entry) = self.pools.at_mut(id) else { return };
        match (result, entry.disk) {
            (Ok(_), Some((_, blocks))) => entry.import(cx, blocks, Absence::Report),
            (Ok(_), None) => entry.state = PoolState::Missing,
            (Err(error), _) => {
                let reason = error.to_string();
                cx.log(LogEvent::PoolRefused { pool: id.id, reason: reason.clone() });
                entry.state = PoolState::Refused(reason);
            }
        }
        cx.needs_settling = true;
        cx.send(Message::PollPool(id));
    }

    fn start_io(&mut self, cx: &mut ShardContext, pool: Handle<PoolId>, io: IoId, op: Io) {
        let Some(entry) = self.pools.at_mut(pool) else { return };
        let failure = entry.faults.failure(&op);
        let (Some((disk, _)), None) = (entry.disk, failure) else {
            let failure = failure.unwrap_or(IoError { code: EIO });
            return entry.io_done(cx, pool, io, Err(failure));
        };
        let (attempt, delay, began) = (entry.attempt, entry.faults.slow, cx.now);
        let buffer = match op {
            Io::Read { len, .. } => Some(entry.read_buffer(len)),
            _ => None,
        };
        let io = DiskIoId(self.disk_ios.insert(DiskWork::Pool { pool, attempt, io, began }));
        cx.put(Effect::Disk { io, disk, op, buffer, delay });
    }

    fn pool_answers(
        &mut self,
        cx: &mut ShardContext,
        pool: Handle<PoolId>,
        requester: PoolRequester,
        result: Result<pool::Reply, pool::Error>,
    ) {
        #[cfg(feature = "flaws")]
        let requester = match requester {
            PoolRequester::Nobody => return,
            PoolRequester::Change { replica, id, epoch } => {
                if result.is_ok() {
                    cx.audit.push(crate::AuditEvent::Changed { replica: replica.id, epoch });
                }
                PoolRequester::Replica { replica, id }
            }
            other => other,
        };
        match requester {
            #[cfg(feature = "flaws")]
            PoolRequester::Change { .. } | PoolRequester::Nobody => {}
            PoolRequester::Config(work) => {
                cx.send(Message::ConfigWorkDone { pool: pool.id, work, result });
            }
            PoolRequester::Replica { replica, id } => {
                self.replica_disk_done(cx, replica, id, result);
            }
        }
    }

    /// Takes an empty pool off its disk, so that no scan finds it again.
    pub(crate) fn erase_pool(&mut self, cx: &mut ShardContext, id: PoolId) {
        let is_empty = self.open_pool(id).is_some_and(|pool| pool.replicas().next().is_none());
        if !is_empty {
            return;
        }
        let Some(mut entry) = self.pools.remove(&id) else { return };
        if let Some((disk, blocks)) = entry.disk {
            for io in pool::erase(blocks) {
                if let Io::Write { offset, data, .. } = io {
                    // Each durable by itself: no sync needs to wait for the others.
                    let op = Io::Write { offset, data, durability: Durability::Durable };
                    let io = DiskIoId(self.disk_ios.insert(DiskWork::Erase));
                    cx.put(Effect::Disk { io, disk, op, buffer: None, delay: None });
                }
            }
        }
        entry.release_disk(cx);
        cx.touched.push(Subject::Pool(id));
        cx.log(LogEvent::PoolErased { pool: id });
    }
}

impl PoolEntry {
    pub(super) fn io_done(
        &mut self,
        cx: &mut ShardContext,
        id: Handle<PoolId>,
        io: IoId,
        result: Result<Option<Buffer>, IoError>,
    ) {
        match &mut self.state {
            PoolState::Open(pool) => pool.io_done(io, result),
            PoolState::Importing { import, .. } => import.io_done(io, result),
            PoolState::Formatting(format) => format.io_done(io, result),
            _ => return,
        }
        self.poll_soon(cx, id);
    }

    fn note_fault(&mut self, cx: &mut ShardContext, id: PoolId) {
        let PoolState::Open(pool) = &self.state else { return };
        if let Some(fault) = pool.fault()
            && self.is_settled
        {
            // Told once; the replicas hear of it by their requests.
            cx.log(LogEvent::PoolFaulted { pool: id, reason: fault.to_string() });
            self.is_settled = false;
        }
    }
}

/// There is no pool at all; not one that is damaged or of another version.
fn is_blank(error: &pool::ImportError) -> bool {
    let absent = pool::LoadError::Superblock(SuperblockError::Absent);
    *error == pool::ImportError::Load(absent)
}
