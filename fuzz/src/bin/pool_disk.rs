//! A pool's disk that somebody changed and sealed again: it is refused, or it opens and works.
//!
//! Each eight bytes of input are one change: which block of metadata, where in it, to what.
#![no_main]

use std::sync::OnceLock;

use block::{
    BLOCK, Buffer,
    Durability::{Durable, Volatile},
    Extent,
};
use libfuzzer_sys::fuzz_target;
use model::{AttemptId, PoolId, ReplicaId, Revision, SnapshotId, VolumeId};
use pool::{
    Boot, Flaws, Format, FormatOptions, FormatStep, Fsck, FsckStep, Image, Import, ImportOptions,
    ImportStep, NewReplica, Out, Pool, Request, RequestId, SimDisk, Sizes,
};

const BLOCKS: u64 = 512;
const REPLICA: ReplicaId = ReplicaId::from_u128(1);
const SNAPSHOT: SnapshotId = SnapshotId::from_u128(5);

fuzz_target!(|data: &[u8]| {
    static LIVED_IN: OnceLock<(SimDisk, Vec<usize>)> = OnceLock::new();
    let (disk, sealed) = LIVED_IN.get_or_init(lived_in);
    let mut disk = disk.clone();
    for change in data.as_chunks::<8>().0 {
        let [a, b, c, d, value @ ..] = *change;
        let block = sealed[usize::from(u16::from_le_bytes([a, b])) % sealed.len()];
        let at = 12 + usize::from(u16::from_le_bytes([c, d])) % (BLOCK - 16);
        for (offset, byte) in value.into_iter().enumerate() {
            let before = disk.bytes()[block * BLOCK + at + offset];
            disk.damage(block * BLOCK + at + offset, before ^ byte);
        }
        disk.reseal(block);
    }
    fsck(&mut disk);
    if let Some(mut pool) = open(&mut disk) {
        use_all(&mut pool, &mut disk);
    }
});

/// A pool with something in every part of it, and the blocks that have a checksum.
fn lived_in() -> (SimDisk, Vec<usize>) {
    let mut disk = SimDisk::new(BLOCKS, 1);
    format(&mut disk);
    let mut pool = open(&mut disk).expect("a new pool opens");
    let new = NewReplica {
        replica: REPLICA,
        volume: VolumeId::from_u128(1),
        blocks: 200,
        thin: true,
        birth: None,
        carried: (Revision(1), b"{}".to_vec()),
        origin: None,
    };
    let write = |start, blocks| {
        let extent = Extent::new(start, blocks);
        let data = Buffer::zeroed(BLOCK * usize::try_from(blocks).unwrap_or(0));
        Request::Write { replica: REPLICA, extent, data, durability: Volatile }
    };
    for request in [
        Request::Create(Box::new(new)),
        write(0, 70),
        Request::Snapshot {
            replica: REPLICA,
            snapshot: SNAPSHOT,
            attempt: AttemptId::from_u128(5),
            roster: model::Roster(1),
            blocks: None,
            name: "kept".into(),
        },
        write(10, 3),
        Request::Checkpoint,
        write(100, 4),
        Request::Zero { replica: REPLICA, extent: Extent::new(0, 5), durability: Durable },
        Request::Flush,
    ] {
        ask(&mut pool, &mut disk, request);
    }
    let blocks = disk.bytes().as_chunks::<BLOCK>().0.iter().enumerate();
    let sealed = blocks.filter(|(_, block)| block.starts_with(b"HoldfP"));
    let sealed = sealed.map(|(at, _)| at).collect();
    (disk, sealed)
}

fn use_all(pool: &mut Pool, disk: &mut SimDisk) {
    let replicas: Vec<_> = pool.replicas().map(|state| (state.replica, state.blocks)).collect();
    for (replica, blocks) in replicas {
        let extent = Extent::new(blocks.saturating_sub(9), 5);
        let image = Image::Replica(replica);
        for request in [
            Request::Write {
                replica,
                extent,
                data: Buffer::zeroed(5 * BLOCK),
                durability: Volatile,
            },
            Request::Read { image, extent: Extent::new(0, 100) },
            Request::Flush,
            Request::Zero { replica, extent: Extent::new(0, 90), durability: Durable },
            Request::DeleteSnapshot { replica, snapshot: SNAPSHOT },
            Request::Delete { replica },
        ] {
            ask(pool, disk, request);
        }
    }
    ask(pool, disk, Request::Export);
}

fn ask(pool: &mut Pool, disk: &mut SimDisk, request: Request) {
    pool.submit(RequestId(1), request);
    let mut is_answered = false;
    loop {
        while let Some(out) = pool.poll() {
            match out {
                Out::Io { id, io } => disk.submit(id, io),
                Out::Done { .. } => is_answered = true,
            }
        }
        let Some((id, result)) = disk.complete() else { break };
        pool.io_done(id, result);
    }
    assert!(is_answered, "every request is answered");
}

fn format(disk: &mut SimDisk) {
    let sizes = Sizes { journal: 64, catalog: 4, room_for: BLOCKS };
    let (pool, name) = (PoolId::from_u128(7), String::from("fuzz"));
    let mut format = Format::new(FormatOptions { pool, name, blocks: BLOCKS, sizes, force: false });
    loop {
        match format.poll() {
            Some(FormatStep::Io { id, io }) => disk.submit(id, io),
            Some(FormatStep::Done(result)) => return assert!(result.is_ok(), "{result:?}"),
            None => {
                let (id, result) = disk.complete().expect("something is under way");
                format.io_done(id, result);
            }
        }
    }
}

fn fsck(disk: &mut SimDisk) {
    let mut fsck = Fsck::new(BLOCKS);
    loop {
        match fsck.poll() {
            Some(FsckStep::Io { id, io }) => disk.submit(id, io),
            Some(FsckStep::Done(_)) => return disk.crash(pool::Crash::Process),
            None => {
                let (id, result) = disk.complete().expect("something is under way");
                fsck.io_done(id, result);
            }
        }
    }
}

fn open(disk: &mut SimDisk) -> Option<Pool> {
    let (boot, flaws) = (Boot(1), Flaws::default());
    let mut import = Import::new(ImportOptions { blocks: BLOCKS, boot, discard: false, flaws });
    loop {
        match import.poll() {
            Some(ImportStep::Io { id, io }) => disk.submit(id, io),
            Some(ImportStep::Done(result)) => return result.ok().map(|imported| imported.pool),
            None => {
                let (id, result) = disk.complete().expect("something is under way");
                import.io_done(id, result);
            }
        }
    }
}
