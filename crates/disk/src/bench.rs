//! How fast a volume is: so many commands of one kind under way for so long.

use std::time::{Duration, Instant};

use block::{BLOCK, Buffer, Durability::Volatile, Extent};
use nvme::{Op, Status};

use crate::{Client, ClientError, Done};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Random,
    Sequential,
}

#[derive(Clone, Debug)]
pub struct Bench {
    pub duration: Duration,
    pub depth: usize,
    /// Blocks of one command.
    pub blocks: u32,
    pub is_write: bool,
    pub pattern: Pattern,
    /// A flush after so many writes; never, if zero.
    pub flush_every: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Speed {
    pub commands: u64,
    pub per_second: f64,
    pub bytes_per_second: f64,
    pub p50: Duration,
    pub p99: Duration,
    pub max: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("a command failed: {0:?}")]
    Failed(Status),
    #[error("the volume is smaller than one command")]
    TooSmall,
}

/// Writes every block once: to read what was never written costs a disk nothing, and to write it
/// costs more than to write it again.
pub fn fill(client: &mut Client) -> Result<(), BenchError> {
    let step = u32::try_from(client.attached().max_transfer / BLOCK).unwrap_or(u32::MAX);
    let data = Buffer::copy_of(&vec![0x5a; step as usize * BLOCK]);
    for start in (0..client.blocks()).step_by(step as usize) {
        let blocks = step.min(u32::try_from(client.blocks() - start).unwrap_or(step));
        let data = data.slice(0..blocks as usize * BLOCK);
        let extent = Extent::new(start, blocks);
        let write = Op::Write { extent, data, durability: Volatile };
        client.run(write)?.map_err(BenchError::Failed)?;
    }
    client.run(Op::Flush)?.map_err(BenchError::Failed)?;
    Ok(())
}

pub fn run(client: &mut Client, bench: &Bench) -> Result<Speed, BenchError> {
    client.settle()?;
    let places = client.blocks() / u64::from(bench.blocks.max(1));
    if places == 0 {
        return Err(BenchError::TooSmall);
    }
    let bytes = bench.blocks as usize * BLOCK;
    let data = noise(bytes);
    let mut took: Vec<Duration> = Vec::with_capacity(1 << 20);
    let (mut next, mut place, mut since_flush) = (0_u64, 0x9e37_79b9_7f4a_7c15_u64, 0);
    let start = Instant::now();
    let end = start + bench.duration;
    let mut done: Vec<Done> = Vec::new();
    loop {
        let is_over = Instant::now() >= end;
        while !is_over && client.in_flight() < bench.depth {
            next += 1;
            if bench.flush_every > 0 && since_flush >= bench.flush_every {
                since_flush = 0;
                client.submit(next, Op::Flush);
                continue;
            }
            let at = match bench.pattern {
                Pattern::Sequential => next % places,
                Pattern::Random => {
                    place ^= place << 13;
                    place ^= place >> 7;
                    place ^= place << 17;
                    place % places
                }
            };
            let extent = Extent::new(at * u64::from(bench.blocks), bench.blocks);
            let op = if bench.is_write {
                since_flush += 1;
                Op::Write { extent, data: data.clone(), durability: Volatile }
            } else {
                Op::Read { extent }
            };
            client.submit(next, op);
        }
        if client.in_flight() == 0 {
            break;
        }
        client.wait(&mut done, None)?;
        for Done { result, took: time, .. } in done.drain(..) {
            result.map_err(BenchError::Failed)?;
            took.push(time);
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    Ok(speed(took, elapsed, bytes))
}

fn speed(mut took: Vec<Duration>, elapsed: f64, bytes: usize) -> Speed {
    took.sort_unstable();
    let at = |part: usize| took.get((took.len() * part / 100).min(took.len().saturating_sub(1)));
    let commands = took.len();
    // Far below what a double counts exactly.
    #[allow(clippy::cast_precision_loss)]
    let per_second = commands as f64 / elapsed;
    #[allow(clippy::cast_precision_loss)]
    let bytes_per_second = per_second * bytes as f64;
    Speed {
        commands: commands as u64,
        per_second,
        bytes_per_second,
        p50: at(50).copied().unwrap_or_default(),
        p99: at(99).copied().unwrap_or_default(),
        max: took.last().copied().unwrap_or_default(),
    }
}

/// Data that no layer can make smaller.
fn noise(bytes: usize) -> Buffer {
    let mut data = Buffer::zeroed(bytes);
    if let Some(to) = data.get_mut() {
        for (block, bytes) in (0..).zip(to.chunks_exact_mut(BLOCK)) {
            crate::fill(bytes, 7, block, 1);
        }
    }
    data
}
