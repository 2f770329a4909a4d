//! What uses the volume during a drill: one command each millisecond, every answer compared.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use block::{BLOCK, Buffer, Durability::Volatile, Extent};
use disk::{Done, NbdClient};
use model::Bytes;
use nvme::{Op, Reply};

const PACE: Duration = Duration::from_millis(1);
/// Commands under way at once: as many as a pause of some seconds holds up.
const DEPTH: usize = 8192;
/// Blocks that are kept whole, to be written back.
const KEPT: usize = 256;
/// An application gives up some time; so does a drill.
const PATIENCE: Duration = Duration::from_mins(5);

pub(super) struct Probe {
    device: NbdClient,
    /// Blocks spread over the volume, and what they held.
    sample: Vec<u64>,
    digests: Vec<u64>,
    kept: Vec<Buffer>,
    is_own: bool,
    stop: StopSign,
}

#[derive(Clone, Debug, Default)]
pub(super) struct StopSign(Arc<AtomicBool>);

impl StopSign {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) gap: Duration,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) wrong: u64,
}

impl Probe {
    pub(super) fn open(uri: &str, compare: Bytes, is_own: bool) -> Result<Self> {
        let device = NbdClient::connect(&uri.parse()?).context("opening the device")?;
        let all = device.blocks();
        let count = (compare.0 / BLOCK as u64).clamp(1, all);
        // Rounded down each, so that the last one is within the volume.
        let place =
            |index: u64| u64::try_from(u128::from(index) * u128::from(all) / u128::from(count));
        let sample = (0..count).map(place).collect::<Result<_, _>>()?;
        let (digests, kept, stop) = (Vec::new(), Vec::new(), StopSign::default());
        Ok(Self { device, sample, digests, kept, is_own, stop })
    }

    pub(super) fn blocks(&self) -> u64 {
        self.sample.len() as u64
    }

    pub(super) fn stop_sign(&self) -> StopSign {
        self.stop.clone()
    }

    /// Reads the sample for the first time.
    pub(super) fn remember(mut self) -> Result<Self> {
        let mut kept = Vec::new();
        let mut digests = vec![0; self.sample.len()];
        self.read_all(|index, data| {
            digests[index] = digest(&data);
            if index < KEPT {
                kept.push((index, data));
            }
        })?;
        kept.sort_by_key(|(index, _)| *index);
        self.kept = kept.into_iter().map(|(_, data)| data).collect();
        self.digests = digests;
        Ok(self)
    }

    /// Reads the sample again; how many blocks are not what they were.
    pub(super) fn compare(mut self) -> Result<u64> {
        let digests = std::mem::take(&mut self.digests);
        let mut differing = 0;
        self.read_all(|index, data| differing += u64::from(digests[index] != digest(&data)))?;
        Ok(differing)
    }

    fn read_all(&mut self, mut take: impl FnMut(usize, Buffer)) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let (mut next, mut open) = (0, 0);
        let mut done = Vec::new();
        while next < self.sample.len() || open > 0 {
            while next < self.sample.len() && open < 64 {
                self.device.submit(next as u64, &Op::Read { extent: one(self.sample[next]) });
                (next, open) = (next + 1, open + 1);
            }
            self.device.wait(&mut done, Some(end))?;
            if done.is_empty() && Instant::now() >= end {
                bail!("the volume does not answer");
            }
            for Done { tag, result, .. } in done.drain(..) {
                open -= 1;
                take(usize::try_from(tag)?, data(result)?);
            }
        }
        Ok(())
    }

    /// Uses the volume until told to stop. What fails ends it.
    pub(super) fn work(mut self) -> Result<(Self, Seen)> {
        let mut seen = Seen::default();
        let (mut open, mut count) = (0, 0_u64);
        let began = Instant::now();
        let mut last = began;
        let mut done = Vec::new();
        while !self.stop.is_set() || open > 0 {
            let due = began + PACE * u32::try_from(count).unwrap_or(u32::MAX);
            if !self.stop.is_set() && open < DEPTH && Instant::now() >= due {
                self.submit(count);
                (count, open) = (count + 1, open + 1);
            }
            let until = if self.stop.is_set() { Instant::now() + PACE * 10 } else { due };
            self.device.wait(&mut done, Some(until))?;
            for Done { tag, result, .. } in done.drain(..) {
                open -= 1;
                let now = Instant::now();
                (seen.gap, last) = (seen.gap.max(now - last), now);
                self.judge(tag, result, &mut seen)?;
            }
            if last.elapsed() > PATIENCE {
                bail!("the volume has not answered for {PATIENCE:?}");
            }
        }
        Ok((self, seen))
    }

    /// Which block the command of this number is about, as an index.
    fn index(&self, count: u64) -> usize {
        let spread = count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        usize::try_from(spread % self.blocks()).unwrap_or(0)
    }

    fn is_write(&self, count: u64) -> bool {
        self.is_own && count % 2 == 1
    }

    fn submit(&mut self, count: u64) {
        let op = if self.is_write(count) {
            let index = self.index(count) % self.kept.len();
            let data = self.kept[index].clone();
            Op::Write { extent: one(self.sample[index]), data, durability: Volatile }
        } else {
            Op::Read { extent: one(self.sample[self.index(count)]) }
        };
        self.device.submit(count, &op);
    }

    fn judge(&self, tag: u64, result: Result<Reply, nvme::Status>, seen: &mut Seen) -> Result<()> {
        if self.is_write(tag) {
            seen.writes += 1;
            if let Err(status) = result {
                bail!("a write failed: {status:?}");
            }
            return Ok(());
        }
        seen.reads += 1;
        let found = digest(&data(result)?);
        // Somebody else may write to a volume that is not held for the drill alone.
        seen.wrong += u64::from(self.is_own && found != self.digests[self.index(tag)]);
        Ok(())
    }
}

fn one(block: u64) -> Extent {
    Extent::new(block, 1)
}

fn data(result: Result<Reply, nvme::Status>) -> Result<Buffer> {
    match result {
        Ok(Reply::Data(data)) => Ok(data),
        other => bail!("a read failed: {other:?}"),
    }
}

fn digest(data: &Buffer) -> u64 {
    let mut hasher = DefaultHasher::new();
    data.bytes().hash(&mut hasher);
    hasher.finish()
}
