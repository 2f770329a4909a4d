//! A pool on a forgetful disk, and a model of what may be read from it.

use alloc::{boxed::Box, collections::BTreeMap, format, string::String, vec::Vec};

use block::{Buffer, Durability::Volatile, Extent};
use model::{AttemptId, PoolId, ReplicaId, Revision, Roster, SnapshotId, VolumeId};

use crate::{
    Boot, Crash, Error, Flaws, Format, FormatOptions, FormatStep, Fsck, FsckStep, Image, Import,
    ImportOptions, ImportStep, Imported, LoadError, NewReplica, Origin, Out, Pool, Reply, Report,
    Request, RequestId, SimDisk, Sizes, Stop,
};

pub const SMALL: Sizes = Sizes { journal: 96, catalog: 12, room_for: 2048 };

/// The power was cut: the script ends here.
#[derive(Debug, PartialEq, Eq)]
pub struct Cut;

#[derive(Clone)]
pub struct World {
    pub disk: SimDisk,
    pub pool: Pool,
    pub flaws: Flaws,
    boot: u128,
    next: u64,
    answers: BTreeMap<RequestId, Result<Reply, Error>>,
    /// I/Os given to the disk, and at which of them it all ends.
    pub ios: u64,
    pub cut_at: u64,
    pub discard: bool,
}

pub fn replica(number: u128) -> ReplicaId {
    ReplicaId::from_u128(number)
}

pub fn snapshot(number: u128) -> SnapshotId {
    SnapshotId::from_u128(number)
}

pub fn new_replica(number: u128, blocks: u64) -> NewReplica {
    NewReplica {
        replica: replica(number),
        volume: VolumeId::from_u128(number),
        blocks,
        thin: true,
        birth: None,
        carried: (Revision(1), b"{}".to_vec()),
        origin: None,
    }
}

pub fn clone_of(number: u128, of: u128, blocks: u64) -> NewReplica {
    let origin = Some(Origin { replica: None, snapshot: snapshot(of) });
    NewReplica { origin, ..new_replica(number, blocks) }
}

pub fn take(number: u128, of: u128) -> Request {
    Request::Snapshot {
        replica: replica(of),
        snapshot: snapshot(number),
        attempt: AttemptId::from_u128(number),
        roster: Roster(1),
        blocks: None,
        name: format!("snapshot {number}"),
    }
}

pub fn format(disk: &mut SimDisk, sizes: Sizes, force: bool) -> Result<(), crate::FormatError> {
    let mut format = Format::new(FormatOptions {
        pool: PoolId::from_u128(7),
        name: String::from("test"),
        blocks: disk.blocks(),
        sizes,
        force,
    });
    loop {
        match format.poll() {
            Some(FormatStep::Io { id, io }) => disk.submit(id, io),
            Some(FormatStep::Done(result)) => return result.map(|_| ()),
            None => {
                let (id, result) = disk.complete().expect("something is under way");
                format.io_done(id, result);
            }
        }
    }
}

pub fn fsck(disk: &mut SimDisk) -> Result<Report, LoadError> {
    let mut fsck = Fsck::new(disk.blocks());
    loop {
        match fsck.poll() {
            Some(FsckStep::Io { id, io }) => disk.submit(id, io),
            Some(FsckStep::Done(result)) => return *result,
            None => {
                let (id, result) = disk.complete().expect("something is under way");
                fsck.io_done(id, result);
            }
        }
    }
}

pub fn options(disk: &SimDisk, boot: u128, discard: bool, flaws: Flaws) -> ImportOptions {
    ImportOptions { blocks: disk.blocks(), boot: Boot(boot), discard, flaws }
}

/// `Err(Cut)` if the power goes first.
pub fn import(
    disk: &mut SimDisk,
    options: ImportOptions,
    ios: &mut u64,
    cut_at: u64,
) -> Result<Result<Imported, crate::ImportError>, Cut> {
    let mut import = Import::new(options);
    loop {
        match import.poll() {
            Some(ImportStep::Io { id, io }) => {
                disk.submit(id, io);
                *ios += 1;
                if *ios >= cut_at {
                    return Err(Cut);
                }
            }
            Some(ImportStep::Done(result)) => return Ok(*result),
            None => {
                let (id, result) = disk.complete().expect("something is under way");
                import.io_done(id, result);
            }
        }
    }
}

impl World {
    pub fn new(blocks: u64, sizes: Sizes, seed: u64) -> Self {
        Self::flawed(blocks, sizes, seed, Flaws::default())
    }

    pub fn flawed(blocks: u64, sizes: Sizes, seed: u64, flaws: Flaws) -> Self {
        let mut disk = SimDisk::new(blocks, seed);
        disk.litter();
        format(&mut disk, sizes, false).expect("a blank disk takes a pool");
        let options = options(&disk, 1, false, flaws);
        let imported = import(&mut disk, options, &mut 0, u64::MAX);
        let imported = imported.expect("no cut").expect("a new pool opens");
        assert_eq!(imported.stop, Stop::Clean);
        Self {
            disk,
            pool: imported.pool,
            flaws,
            boot: 1,
            next: 0,
            answers: BTreeMap::new(),
            ios: 0,
            cut_at: u64::MAX,
            discard: false,
        }
    }

    pub fn submit(&mut self, request: Request) -> RequestId {
        self.next += 1;
        let id = RequestId(self.next);
        self.pool.submit(id, request);
        id
    }

    /// Takes what the pool gives out; then lets the disk complete one thing. False if there was
    /// nothing left to do.
    pub fn step(&mut self) -> Result<bool, Cut> {
        while let Some(out) = self.pool.poll() {
            match out {
                Out::Io { id, io } => {
                    self.disk.submit(id, io);
                    self.ios += 1;
                    if self.ios >= self.cut_at {
                        return Err(Cut);
                    }
                }
                Out::Done { request, result } => {
                    let before = self.answers.insert(request, result);
                    assert!(before.is_none(), "one answer each");
                }
            }
        }
        let Some((id, result)) = self.disk.complete() else { return Ok(false) };
        self.pool.io_done(id, result);
        Ok(true)
    }

    pub fn answer(&mut self, id: RequestId) -> Option<Result<Reply, Error>> {
        self.answers.remove(&id)
    }

    pub fn wait(&mut self, id: RequestId) -> Result<Result<Reply, Error>, Cut> {
        loop {
            if let Some(answer) = self.answer(id) {
                return Ok(answer);
            }
            let goes_on = self.step()? || self.answers.contains_key(&id);
            assert!(goes_on, "the pool stands still and owes {id:?}: {:?}", self.pool);
        }
    }

    pub fn ask(&mut self, request: Request) -> Result<Result<Reply, Error>, Cut> {
        let id = self.submit(request);
        self.wait(id)
    }

    /// It must succeed.
    pub fn done(&mut self, request: Request) -> Result<(), Cut> {
        let text = format!("{request:?}");
        let answer = self.ask(request)?;
        assert!(answer.is_ok(), "{text}: {answer:?}");
        Ok(())
    }

    /// Until nothing is left to do.
    pub fn settle(&mut self) -> Result<(), Cut> {
        while self.step()? {}
        Ok(())
    }

    pub fn write(&mut self, of: u128, extent: Extent, fill: u64) -> Result<(), Cut> {
        let data = filled(extent, fill);
        self.done(Request::Write { replica: replica(of), extent, data, durability: Volatile })
    }

    pub fn read(&mut self, image: Image, extent: Extent) -> Result<Buffer, Cut> {
        match self.ask(Request::Read { image, extent })? {
            Ok(Reply::Data(data)) => Ok(data),
            other => panic!("a read of {image:?} {extent:?} gives {other:?}"),
        }
    }

    /// The machine stops and comes back.
    pub fn crash(&mut self, crash: Crash) -> Stop {
        self.disk.crash(crash);
        self.answers.clear();
        let report = fsck(&mut self.disk);
        assert!(report.is_ok(), "fsck after a crash: {report:?}");
        if crash == Crash::Power {
            self.boot += 1;
        }
        self.cut_at = u64::MAX;
        self.open()
    }

    pub fn open(&mut self) -> Stop {
        let options = options(&self.disk, self.boot, self.discard, self.flaws);
        let imported = import(&mut self.disk, options, &mut self.ios, self.cut_at);
        let imported = imported.expect("no cut").expect("a crash leaves a pool that opens");
        self.pool = imported.pool;
        imported.stop
    }

    /// False if it cannot be opened.
    pub fn reopen(&mut self) -> bool {
        let options = options(&self.disk, self.boot, self.discard, self.flaws);
        match import(&mut self.disk, options, &mut 0, u64::MAX).expect("no cut") {
            Ok(imported) => {
                self.pool = imported.pool;
                true
            }
            Err(_) => false,
        }
    }

    /// False if the power goes first.
    pub fn try_open(&mut self) -> bool {
        let options = options(&self.disk, self.boot, self.discard, self.flaws);
        import(&mut self.disk, options, &mut self.ios, self.cut_at).is_ok()
    }

    /// Free, reserved, used and quarantined make up the whole, and used is what the maps say.
    pub fn check_accounts(&self) {
        let stats = self.pool.stats();
        let sum = stats.used.0 + stats.reserved.0 + stats.quarantined.0 + stats.free.0;
        assert_eq!(sum, stats.capacity.0, "{stats:?}");
        assert_eq!(stats.used, self.pool.walked(), "{stats:?}");
    }
}

/// Every sector says which write it is of.
pub fn filled(extent: Extent, fill: u64) -> Buffer {
    let mut bytes = Vec::with_capacity(usize::try_from(extent.bytes()).unwrap());
    for block in extent.range() {
        for sector in 0..8u64 {
            bytes.extend_from_slice(&sector_of(block, sector, fill));
        }
    }
    Buffer::copy_of(&bytes)
}

/// A write of zero is zeros.
pub fn sector_of(block: u64, sector: u64, fill: u64) -> Box<[u8]> {
    let mut bytes = alloc::vec![0; 512];
    if fill != 0 {
        for (at, word) in (0u64..).zip(bytes.as_chunks_mut::<8>().0) {
            let value = match at % 4 {
                0 => fill,
                1 => block,
                2 => sector,
                _ => at ^ fill.rotate_left(32),
            };
            *word = value.to_le_bytes();
        }
    }
    bytes.into_boxed_slice()
}
