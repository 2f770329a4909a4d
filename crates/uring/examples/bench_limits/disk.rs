//! Random 4 KiB on one file: the reactor beside fio with `io_uring`.

use std::{
    error::Error,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use block::{BLOCK, Buffer, Durability::Volatile};
use serde_json::Value;
use uring::{Backend, Completion, Disk, Op, Outcome, Reactor};

use crate::measure::{ROUND, ROUNDS, Speed, middle, row};

const SIZE: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

pub(crate) fn run(folder: &Path) -> Result<(), Box<dyn Error>> {
    let path = folder.join("bench_limits.disk");
    // Left behind by a run that was stopped.
    let _ = fs::remove_file(&path);
    let result = measure(&path);
    fs::remove_file(&path)?;
    result
}

fn measure(path: &Path) -> Result<(), Box<dyn Error>> {
    fill(&Disk::create(path, SIZE)?)?;
    for (kind, name) in [(Kind::Read, "read"), (Kind::Write, "write")] {
        for depth in [1, 32, 128] {
            let (mut ours, mut theirs, mut threads) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                ours.push(drive(path, Backend::Uring, kind, depth)?);
                theirs.push(fio(path, kind, depth)?);
                threads.push(drive(path, Backend::Threads, kind, depth)?);
            }
            let case = format!("file {name} 4 KiB depth {depth}");
            let theirs = middle(theirs);
            row(&case, middle(ours), "fio io_uring", theirs);
            row(&format!("{case}, threads"), middle(threads), "fio io_uring", theirs);
        }
    }
    Ok(())
}

/// Written once, so that neither side pays for the first touch.
fn fill(disk: &Disk) -> Result<(), Box<dyn Error>> {
    let mut reactor = Reactor::new(Backend::Auto)?;
    let piece = Buffer::copy_of(&vec![0xa5; 1 << 20]);
    let mut completions = Vec::new();
    for offset in (0..SIZE).step_by(piece.len()) {
        let data = piece.clone().into();
        reactor.submit(0, Op::Write { disk: disk.clone(), offset, data, durability: Volatile });
        while reactor.in_flight() > 16 {
            reactor.wait(&mut completions, None)?;
        }
    }
    reactor.submit(0, Op::Sync { disk: disk.clone() });
    while reactor.in_flight() > 0 {
        reactor.wait(&mut completions, None)?;
    }
    Ok(())
}

struct Driver {
    reactor: Reactor,
    disk: Disk,
    kind: Kind,
    begun: Vec<Instant>,
    random: u64,
}

fn drive(path: &Path, backend: Backend, kind: Kind, depth: usize) -> Result<Speed, Box<dyn Error>> {
    let (reactor, disk) = (Reactor::new(backend)?, Disk::open(path)?);
    let start = Instant::now();
    let begun = vec![start; depth];
    let mut driver = Driver { reactor, disk, kind, begun, random: 88_172_645_463_325_252 };
    for token in 0..depth {
        driver.submit(u64::try_from(token)?, Buffer::zeroed(BLOCK));
    }
    let (mut completions, mut nanos) = (Vec::<Completion>::new(), Vec::new());
    while start.elapsed() < ROUND {
        driver.reactor.wait(&mut completions, None)?;
        for Completion { token, outcome } in completions.drain(..) {
            let begun = driver.begun[usize::try_from(token)?];
            nanos.push(u64::try_from(begun.elapsed().as_nanos())?);
            let buffer = match outcome {
                Outcome::Read { buffer, result } => result.map(|()| buffer)?,
                Outcome::Written { data, result } => result.map(|()| data.parts()[0].clone())?,
                other => return Err(format!("{other:?}").into()),
            };
            driver.submit(token, buffer);
        }
    }
    Ok(Speed::of(nanos, start.elapsed()))
}

impl Driver {
    fn submit(&mut self, token: u64, buffer: Buffer) {
        // Marsaglia's xorshift: random enough for offsets, and free.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let block = u64::try_from(BLOCK).unwrap_or(u64::MAX);
        let offset = self.random % (SIZE / block) * block;
        let disk = self.disk.clone();
        if let Some(begun) = usize::try_from(token).ok().and_then(|at| self.begun.get_mut(at)) {
            *begun = Instant::now();
        }
        self.reactor.submit(
            token,
            match self.kind {
                Kind::Read => Op::Read { disk, offset, buffer },
                Kind::Write => {
                    Op::Write { disk, offset, data: buffer.into(), durability: Volatile }
                }
            },
        );
    }
}

fn fio(path: &Path, kind: Kind, depth: usize) -> Result<Speed, Box<dyn Error>> {
    let rw = if kind == Kind::Read { "randread" } else { "randwrite" };
    let output = Command::new("fio")
        .args(["--name=limit", "--ioengine=io_uring", "--direct=1", "--bs=4k"])
        .args(["--time_based", "--output-format=json", "--norandommap", "--randrepeat=0"])
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--rw={rw}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={}ms", ROUND.as_millis()))
        .output()
        .map_err(|error| format!("fio, which is measured beside us, does not start: {error}"))?;
    let all: Value = serde_json::from_slice(&output.stdout)?;
    let side = &all["jobs"][0][if kind == Kind::Read { "read" } else { "write" }];
    let percentile = |name: &str| {
        let nanos = side["clat_ns"]["percentile"][name].as_u64().unwrap_or_default();
        Duration::from_nanos(nanos).as_secs_f64() * 1e6
    };
    let per_second = side["iops"].as_f64().filter(|iops| *iops > 0.0);
    Ok(Speed {
        per_second: per_second.ok_or("fio measured nothing")?,
        p50_us: percentile("50.000000"),
        p99_us: percentile("99.000000"),
    })
}
