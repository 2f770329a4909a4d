//! A verifying workload: every block says how often it was written, and a ledger says which answers
//! are right, whatever dies meanwhile.

use std::{
    collections::BTreeMap,
    ops::Range,
    time::{Duration, Instant},
};

use block::{BLOCK, Buffer, Durability::Volatile, Extent};
use nvme::{Op, Reply, Status};

use crate::{
    ClientError, Device, Done, Ledger, LedgerError, Promise, Wrong, fill as fill_block, look,
};

#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("{0}")]
    Wrong(#[from] Wrong),
    #[error("a command on {extent:?} failed: {status:?}")]
    Failed { extent: Extent, status: Status },
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Workload {
    pub duration: Duration,
    pub depth: usize,
    /// Of a hundred commands.
    pub writes: u8,
    /// Of a hundred commands that are no writes or reads: zeroing is not counted here.
    pub flush_every: u64,
    pub blocks_max: u32,
    pub promise: Promise,
    /// One command each so long, instead of as many as fit.
    pub pace: Option<Duration>,
    /// Only these blocks, if not all.
    pub within: Option<Range<u64>>,
    pub seed: u64,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(10),
            depth: 32,
            writes: 50,
            flush_every: 64,
            blocks_max: 8,
            promise: Promise::Acknowledged,
            pace: None,
            within: None,
            seed: 1,
        }
    }
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    /// Flushes that failed because acknowledged writes may be gone: told, so no lie.
    pub lost_told: u64,
    /// The longest time between two answers while commands waited.
    pub gap: Duration,
    pub switches: u64,
}

/// Writes every block once, and flushes.
pub fn fill(
    client: &mut impl Device,
    ledger: &mut Ledger,
    mut progress: impl FnMut(u64),
) -> Result<Tally, VerifyError> {
    let mut runner = Runner::new(client, ledger, Promise::Acknowledged)?;
    runner.sweep(Runner::write, &mut progress)?;
    runner.flush_now()?;
    Ok(runner.tally)
}

/// Reads every block and compares it with the ledger.
pub fn check(
    client: &mut impl Device,
    ledger: &mut Ledger,
    mut progress: impl FnMut(u64),
) -> Result<Tally, VerifyError> {
    let mut runner = Runner::new(client, ledger, Promise::Acknowledged)?;
    let read = |runner: &mut Runner<'_, _>, extent| {
        runner.read(extent);
        Ok(())
    };
    runner.sweep(read, &mut progress)?;
    Ok(runner.tally)
}

/// Reads and writes at random until the time is over; every read is judged.
pub fn run(
    client: &mut impl Device,
    ledger: &mut Ledger,
    workload: &Workload,
) -> Result<Tally, VerifyError> {
    let mut random = Random(workload.seed | 1);
    let end = Instant::now() + workload.duration;
    let all = 0..ledger.blocks();
    let within = workload
        .within
        .clone()
        .map_or(all.clone(), |within| within.start.min(all.end)..within.end.min(all.end));
    let blocks = within.end - within.start;
    let before = client.switches();
    let mut runner = Runner::new(client, ledger, workload.promise)?;
    let mut since_flush = 0;
    let mut due = workload.pace.map(|_| Instant::now());
    loop {
        let now = Instant::now();
        let is_over = now >= end;
        let mut misses = 0;
        while !is_over
            && due.is_none_or(|due| due <= now)
            && runner.open.len() < workload.depth
            && misses < 16
        {
            if since_flush >= workload.flush_every {
                since_flush = 0;
                runner.flush();
                continue;
            }
            let count =
                1 + u32::try_from(random.below(u64::from(workload.blocks_max))).unwrap_or(0);
            let count = count.min(u32::try_from(blocks).unwrap_or(u32::MAX));
            let start = within.start + random.below(blocks - u64::from(count) + 1);
            let extent = Extent::new(start, count);
            if runner.overlaps(&extent) {
                misses += 1;
                continue;
            }
            // What could not be sent in time is not made up for.
            due = workload.pace.map(|pace| now + pace);
            if random.below(100) < u64::from(workload.writes) {
                runner.write(extent)?;
                since_flush += 1;
            } else {
                runner.read(extent);
            }
        }
        if runner.open.is_empty() && is_over {
            break;
        }
        let look = end.max(now + Duration::from_millis(100));
        runner.take(Some(due.filter(|due| *due > now).map_or(look, |due| due.min(look))))?;
    }
    runner.flush_now()?;
    let mut tally = runner.tally;
    tally.switches = client.switches() - before;
    Ok(tally)
}

struct Runner<'a, D> {
    client: &'a mut D,
    ledger: &'a mut Ledger,
    promise: Promise,
    open: BTreeMap<u64, Open>,
    /// Acknowledged and not flushed.
    unflushed: Vec<(u64, Vec<u32>)>,
    next: u64,
    tally: Tally,
    last: Instant,
}

enum Open {
    Read(Extent),
    Write(Extent, Vec<u32>),
    /// What it will have made durable.
    Flush(Vec<(u64, Vec<u32>)>),
}

impl<'a, D: Device> Runner<'a, D> {
    fn new(
        client: &'a mut D,
        ledger: &'a mut Ledger,
        promise: Promise,
    ) -> Result<Self, ClientError> {
        client.settle()?;
        Ok(Self {
            client,
            ledger,
            promise,
            open: BTreeMap::new(),
            unflushed: Vec::new(),
            next: 0,
            tally: Tally::default(),
            last: Instant::now(),
        })
    }

    /// Begins something with every block, a few at a time, and waits for all of it.
    fn sweep(
        &mut self,
        mut begin: impl FnMut(&mut Self, Extent) -> Result<(), VerifyError>,
        progress: &mut impl FnMut(u64),
    ) -> Result<(), VerifyError> {
        let blocks = self.ledger.blocks();
        let step = u32::try_from((self.client.max_transfer() / BLOCK).clamp(1, 256)).unwrap_or(1);
        let mut next = 0;
        loop {
            while next < blocks && self.open.len() < 16 {
                let count = step.min(u32::try_from(blocks - next).unwrap_or(u32::MAX));
                begin(self, Extent::new(next, count))?;
                next += u64::from(count);
            }
            if self.open.is_empty() {
                return Ok(());
            }
            self.take(None)?;
            progress(next);
        }
    }

    /// Two commands on one block at a time would make two answers right.
    fn overlaps(&self, extent: &Extent) -> bool {
        self.open.values().any(|open| match open {
            Open::Read(other) | Open::Write(other, _) => other.overlaps(extent),
            Open::Flush(_) => false,
        })
    }

    fn submit(&mut self, open: Open, op: Op) {
        self.next += 1;
        if self.open.is_empty() {
            self.last = Instant::now();
        }
        self.open.insert(self.next, open);
        self.client.submit(self.next, op);
    }

    fn read(&mut self, extent: Extent) {
        self.submit(Open::Read(extent), Op::Read { extent });
    }

    fn write(&mut self, extent: Extent) -> Result<(), VerifyError> {
        let counts = self.ledger.issue(extent.start, extent.blocks)?;
        let mut data = Buffer::zeroed(counts.len() * BLOCK);
        if let Some(bytes) = data.get_mut() {
            for ((block, count), bytes) in
                extent.range().zip(&counts).zip(bytes.chunks_exact_mut(BLOCK))
            {
                fill_block(bytes, self.ledger.seed(), block, *count);
            }
        }
        self.submit(Open::Write(extent, counts), Op::Write { extent, data, durability: Volatile });
        Ok(())
    }

    fn flush(&mut self) {
        let covered = std::mem::take(&mut self.unflushed);
        self.submit(Open::Flush(covered), Op::Flush);
    }

    fn flush_now(&mut self) -> Result<(), VerifyError> {
        self.flush();
        while !self.open.is_empty() {
            self.take(None)?;
        }
        Ok(self.ledger.sync()?)
    }

    fn take(&mut self, until: Option<Instant>) -> Result<(), VerifyError> {
        let mut done = Vec::new();
        self.client.wait(&mut done, until)?;
        for Done { tag, result, .. } in done {
            let now = Instant::now();
            self.tally.gap = self.tally.gap.max(now.duration_since(self.last));
            self.last = now;
            let Some(open) = self.open.remove(&tag) else { continue };
            self.judge(open, result)?;
        }
        Ok(())
    }

    fn judge(&mut self, open: Open, result: Result<Reply, Status>) -> Result<(), VerifyError> {
        match (open, result) {
            (Open::Read(extent), Ok(Reply::Data(data))) => {
                self.tally.reads += 1;
                for (block, bytes) in extent.range().zip(data.bytes().chunks_exact(BLOCK)) {
                    let count = self.ledger.check(block, look(bytes, self.ledger.seed(), block))?;
                    // What was read once does not flip back.
                    self.ledger.keep(block, &[count])?;
                }
            }
            (Open::Write(extent, counts), Ok(_)) => {
                self.tally.writes += 1;
                if self.promise == Promise::Acknowledged {
                    self.ledger.keep(extent.start, &counts)?;
                }
                self.unflushed.push((extent.start, counts));
            }
            (Open::Flush(covered), Ok(_)) => {
                self.tally.flushes += 1;
                for (start, counts) in covered {
                    self.ledger.keep(start, &counts)?;
                }
            }
            (Open::Flush(_), Err(_)) => self.tally.lost_told += 1,
            (Open::Read(extent) | Open::Write(extent, _), Err(status)) => {
                return Err(VerifyError::Failed { extent, status });
            }
            (Open::Read(extent), Ok(_)) => {
                let status = nvme::Code::DataTransferError.into();
                return Err(VerifyError::Failed { extent, status });
            }
        }
        Ok(())
    }
}

/// A small generator: the same seed, the same workload.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}
