//! An application: an NBD client with one request at a time, and a workload that remembers what it
//! was promised.

use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const BLOCK: usize = 4096;
/// More than one region, so that writes are spread.
const BLOCKS: u64 = 2048;

pub struct Nbd {
    stream: UnixStream,
    pub size: u64,
    cookie: u64,
}

impl Nbd {
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        assert_eq!(&greeting[..8], b"NBDMAGIC");
        stream.write_all(&3_u32.to_be_bytes())?;
        stream.write_all(b"IHAVEOPT")?;
        stream.write_all(&1_u32.to_be_bytes())?;
        stream.write_all(&0_u32.to_be_bytes())?;
        let mut export = [0; 10];
        stream.read_exact(&mut export)?;
        let size = u64::from_be_bytes(export[..8].try_into().unwrap());
        Ok(Self { stream, size, cookie: 0 })
    }

    fn ask(&mut self, kind: u16, offset: u64, len: usize, data: &[u8]) -> io::Result<()> {
        self.cookie += 1;
        let mut head = Vec::new();
        head.extend(0x2560_9513_u32.to_be_bytes());
        head.extend(0_u16.to_be_bytes());
        head.extend(kind.to_be_bytes());
        head.extend(self.cookie.to_be_bytes());
        head.extend(offset.to_be_bytes());
        head.extend(u32::try_from(len).unwrap().to_be_bytes());
        head.extend(data);
        self.stream.write_all(&head)?;
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        if error == 0 { Ok(()) } else { Err(io::Error::other(format!("NBD error {error}"))) }
    }

    pub fn write(&mut self, block: u64, data: &[u8]) -> io::Result<()> {
        self.ask(1, block * BLOCK as u64, data.len(), data)
    }

    pub fn read(&mut self, block: u64) -> io::Result<Vec<u8>> {
        let mut data = vec![0; BLOCK];
        self.ask(0, block * BLOCK as u64, BLOCK, &[])?;
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.ask(3, 0, 0, &[])
    }
}

/// What the workload has seen.
#[derive(Debug)]
pub struct Seen {
    /// The longest time between two completions.
    pub gap: Duration,
    pub writes: u64,
}

/// Writes a block each millisecond, in turn, each time with a higher count.
pub struct Work {
    stop: Arc<AtomicBool>,
    writes: Arc<AtomicU64>,
    thread: thread::JoinHandle<io::Result<(Nbd, Seen)>>,
}

pub fn pattern(block: u64, count: u64) -> Vec<u8> {
    let mut data = Vec::with_capacity(BLOCK);
    while data.len() < BLOCK {
        data.extend(block.to_le_bytes());
        data.extend(count.to_le_bytes());
    }
    data
}

impl Work {
    pub fn begin(mut nbd: Nbd) -> Self {
        let (stop, writes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, counted) = (Arc::clone(&stop), Arc::clone(&writes));
        let thread = thread::spawn(move || {
            let mut seen = Seen { gap: Duration::ZERO, writes: 0 };
            let mut last = Instant::now();
            while !ended.load(Ordering::Relaxed) {
                let (block, count) = (seen.writes % BLOCKS, seen.writes / BLOCKS);
                nbd.write(block, &pattern(block, count))?;
                if seen.writes.is_multiple_of(64) {
                    nbd.flush()?;
                }
                seen.writes += 1;
                counted.store(seen.writes, Ordering::Relaxed);
                seen.gap = seen.gap.max(last.elapsed());
                last = Instant::now();
                thread::park_timeout(Duration::from_millis(1));
            }
            Ok((nbd, seen))
        });
        Self { stop, writes, thread }
    }

    /// Returns when so many more writes were acknowledged.
    pub async fn goes_on(&self, more: u64) {
        let goal = self.writes.load(Ordering::Relaxed) + more;
        let end = Instant::now() + Duration::from_secs(40);
        while self.writes.load(Ordering::Relaxed) < goal {
            assert!(!self.thread.is_finished(), "the application got an error");
            assert!(Instant::now() < end, "the application hangs");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops, and checks every block that was ever acknowledged.
    pub async fn end(self) -> (Nbd, Seen) {
        self.stop.store(true, Ordering::Relaxed);
        let checked = tokio::task::spawn_blocking(move || {
            let (mut nbd, seen) = self.thread.join().unwrap().unwrap();
            check(&mut nbd, seen.writes);
            (nbd, seen)
        });
        checked.await.unwrap()
    }
}

pub fn check(nbd: &mut Nbd, writes: u64) {
    for block in 0..BLOCKS.min(writes) {
        let count = (writes - 1 - block) / BLOCKS;
        assert_eq!(nbd.read(block).unwrap()[..16], pattern(block, count)[..16], "block {block}");
    }
}
