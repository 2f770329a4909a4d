//! What the machine itself costs: CPU time per 4 KiB overwrite, read and first write, with a disk
//! that answers at once.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::time::Instant;

use block::{BLOCK, Buffer, Durability::Volatile, Extent};
use model::{PoolId, ReplicaId, Revision, VolumeId};
use pool::{
    Boot, Flaws, Format, FormatOptions, FormatStep, Image, Import, ImportOptions, ImportStep, Io,
    NewReplica, Out, Pool, Request, RequestId, Sizes,
};

const BLOCKS: u64 = 1 << 18;
const REPLICA: ReplicaId = ReplicaId::from_u128(1);

/// Keeps what it was given while the pool is made and opened, then only answers.
struct Disk {
    bytes: Vec<u8>,
    page: Buffer,
    is_real: bool,
}

impl Disk {
    fn perform(&mut self, io: &Io) -> Option<Buffer> {
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        match io {
            Io::Read { offset, len } if self.is_real => {
                Some(Buffer::copy_of(&self.bytes[at(*offset)..at(*offset) + len]))
            }
            Io::Read { len, .. } if *len == BLOCK => Some(self.page.clone()),
            Io::Read { len, .. } => Some(Buffer::zeroed(*len)),
            Io::Write { offset, data, .. } if self.is_real => {
                let start = at(*offset);
                self.bytes[start..start + data.len()].copy_from_slice(data.bytes());
                None
            }
            _ => None,
        }
    }
}

fn open(disk: &mut Disk) -> Pool {
    let mut format = Format::new(FormatOptions {
        pool: PoolId::from_u128(1),
        name: "bench".into(),
        blocks: BLOCKS,
        sizes: Sizes::usual(BLOCKS),
        force: false,
    });
    while let Some(step) = format.poll() {
        match step {
            FormatStep::Io { id, io } => format.io_done(id, Ok(disk.perform(&io))),
            FormatStep::Done(result) => assert!(result.is_ok(), "{result:?}"),
        }
    }
    let options =
        ImportOptions { blocks: BLOCKS, boot: Boot(1), discard: false, flaws: Flaws::default() };
    let mut import = Import::new(options);
    loop {
        match import.poll() {
            Some(ImportStep::Io { id, io }) => import.io_done(id, Ok(disk.perform(&io))),
            Some(ImportStep::Done(result)) => return result.expect("a new pool opens").pool,
            None => panic!("the import stands still"),
        }
    }
}

/// Every I/O is answered in the next turn, as a ring would; how many requests were answered.
fn drain(pool: &mut Pool, disk: &mut Disk) -> u64 {
    let mut answered = 0;
    while let Some(out) = pool.poll() {
        match out {
            Out::Io { id, io } => {
                let data = disk.perform(&io);
                pool.io_done(id, Ok(data));
            }
            Out::Done { result, .. } => {
                assert!(result.is_ok(), "{result:?}");
                answered += 1;
            }
        }
    }
    answered
}

fn measure(
    name: &str,
    count: u64,
    mut request: impl FnMut(u64) -> Request,
    pool: &mut Pool,
    disk: &mut Disk,
) {
    const DEPTH: u64 = 32;
    let begin = Instant::now();
    let mut answered = 0;
    for batch in 0..count / DEPTH {
        for at in 0..DEPTH {
            let number = batch * DEPTH + at;
            pool.submit(RequestId(number), request(number));
        }
        answered += drain(pool, disk);
    }
    let spent = begin.elapsed().as_nanos();
    assert_eq!(answered, count / DEPTH * DEPTH);
    println!("{name:<28} {:>6} ns each", spent / u128::from(answered));
}

fn main() {
    let bytes = vec![0; usize::try_from(BLOCKS).unwrap_or(0) * BLOCK];
    let mut disk = Disk { bytes, page: Buffer::zeroed(BLOCK), is_real: true };
    let mut pool = open(&mut disk);
    disk.is_real = false;
    let blocks = 100_000;
    let new = NewReplica {
        replica: REPLICA,
        volume: VolumeId::from_u128(1),
        blocks,
        thin: true,
        birth: None,
        carried: (Revision(1), Vec::new()),
        origin: None,
    };
    pool.submit(RequestId(0), Request::Create(Box::new(new)));
    drain(&mut pool, &mut disk);
    let page = Buffer::zeroed(BLOCK);
    let spread = |number: u64| Extent::new(number.wrapping_mul(7_919) % blocks, 1);
    let write = |number| Request::Write {
        replica: REPLICA,
        extent: spread(number),
        data: page.clone(),
        durability: Volatile,
    };
    measure("first write, 4 KiB", blocks, write, &mut pool, &mut disk);
    pool.submit(RequestId(0), Request::Flush);
    drain(&mut pool, &mut disk);
    measure("overwrite, 4 KiB", 3_200_000, write, &mut pool, &mut disk);
    let read = |number| Request::Read { image: Image::Replica(REPLICA), extent: spread(number) };
    measure("read, 4 KiB", 3_200_000, read, &mut pool, &mut disk);
    let flush = |_| Request::Flush;
    measure("flush, nothing new", 320_000, flush, &mut pool, &mut disk);
}
