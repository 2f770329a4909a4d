//! Reads, writes, syncs and discards on files.

use std::{fs::File, io::Read, os::unix::fs::MetadataExt, path::Path};

use block::{
    BLOCK, Buffer,
    Durability::{Durable, Volatile},
};
use tempfile::TempDir;
use uring::{Data, Disk, DiskError, DiskKind, IoError, Op, Outcome};

use crate::{Rig, on_both};

pub(crate) struct Scratch {
    pub folder: TempDir,
    pub disk: Disk,
}

/// Not in `/tmp`: a file system that takes direct I/O is more likely where we are built.
pub(crate) fn scratch(blocks: usize) -> Scratch {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let size = u64::try_from(blocks * BLOCK).unwrap();
    let disk = Disk::create(&folder.path().join("disk"), size).unwrap();
    Scratch { folder, disk }
}

pub(crate) fn filled(byte: u8, blocks: usize) -> Buffer {
    Buffer::copy_of(&vec![byte; blocks * BLOCK])
}

fn offset(block: usize) -> u64 {
    u64::try_from(block * BLOCK).unwrap()
}

fn write(rig: &mut Rig, disk: &Disk, block: usize, data: impl Into<Data>) -> Result<(), IoError> {
    let op = Op::Write {
        disk: disk.clone(),
        offset: offset(block),
        data: data.into(),
        durability: Volatile,
    };
    match rig.run(op) {
        Outcome::Written { result, .. } => result,
        other => panic!("{other:?}"),
    }
}

fn read(rig: &mut Rig, disk: &Disk, block: usize, blocks: usize) -> Result<Buffer, IoError> {
    let buffer = Buffer::zeroed(blocks * BLOCK);
    match rig.run(Op::Read { disk: disk.clone(), offset: offset(block), buffer }) {
        Outcome::Read { buffer, result } => result.map(|()| buffer),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_was_written_is_read_back() {
    on_both(|rig| {
        let Scratch { disk, folder: _folder } = scratch(16);
        write(rig, &disk, 1, filled(7, 2)).unwrap();
        write(rig, &disk, 5, vec![filled(8, 1), filled(9, 3)]).unwrap();
        assert_eq!(read(rig, &disk, 1, 2).unwrap(), filled(7, 2));
        assert_eq!(read(rig, &disk, 5, 1).unwrap(), filled(8, 1));
        assert_eq!(read(rig, &disk, 6, 3).unwrap(), filled(9, 3));
        assert!(read(rig, &disk, 9, 7).unwrap().is_zero());
    });
}

#[test]
fn durable_writes_and_syncs_succeed_and_reach_the_file() {
    on_both(|rig| {
        let Scratch { disk, folder: _folder } = scratch(4);
        let data = Data::One(filled(3, 1));
        let op = Op::Write { disk: disk.clone(), offset: offset(2), data, durability: Durable };
        assert!(matches!(rig.run(op), Outcome::Written { result: Ok(()), .. }));
        assert!(matches!(rig.run(Op::Sync { disk: disk.clone() }), Outcome::Synced(Ok(()))));
        let mut bytes = Vec::new();
        File::open(disk.path()).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes[2 * BLOCK..3 * BLOCK], [3; BLOCK]);
    });
}

#[test]
fn a_write_of_more_pieces_than_one_call_takes_is_whole() {
    on_both(|rig| {
        let count = 2500;
        let Scratch { disk, folder: _folder } = scratch(count);
        let pieces: Vec<_> = (0u8..=255).cycle().take(count).map(|n| filled(n, 1)).collect();
        write(rig, &disk, 0, pieces.clone()).unwrap();
        let all = read(rig, &disk, 0, count).unwrap();
        let found = all.bytes().chunks(BLOCK);
        assert!(found.eq(pieces.iter().map(Buffer::bytes)));
    });
}

#[test]
fn far_more_operations_than_fit_the_queues_all_complete() {
    on_both(|rig| {
        let Scratch { disk, folder: _folder } = scratch(8);
        let count = 10_000;
        for token in 0..count {
            let buffer = Buffer::zeroed(BLOCK);
            rig.reactor.submit(token, Op::Read { disk: disk.clone(), offset: 0, buffer });
        }
        let completions = rig.outcomes(usize::try_from(count).unwrap());
        assert!(
            completions.iter().all(|c| matches!(c.outcome, Outcome::Read { result: Ok(()), .. }))
        );
        let mut tokens: Vec<_> = completions.iter().map(|c| c.token).collect();
        tokens.sort_unstable();
        assert!(tokens.into_iter().eq(0..count));
        assert_eq!(rig.reactor.in_flight(), 0);
    });
}

#[test]
fn discarded_space_reads_as_zeros_and_goes_back_to_the_file_system() {
    on_both(|rig| {
        let Scratch { disk, folder: _folder } = scratch(256);
        write(rig, &disk, 0, filled(5, 256)).unwrap();
        rig.run(Op::Sync { disk: disk.clone() });
        let before = File::open(disk.path()).unwrap().metadata().unwrap().blocks();
        let op = Op::Discard { disk: disk.clone(), offset: offset(64), len: offset(128) };
        match rig.run(op) {
            Outcome::Discarded(Ok(())) => {}
            Outcome::Discarded(Err(IoError::Unsupported)) => return,
            other => panic!("{other:?}"),
        }
        assert!(read(rig, &disk, 64, 128).unwrap().is_zero());
        assert_eq!(read(rig, &disk, 192, 64).unwrap(), filled(5, 64));
        let metadata = File::open(disk.path()).unwrap().metadata().unwrap();
        assert!(metadata.blocks() < before);
        assert_eq!(metadata.len(), disk.size());
    });
}

#[test]
fn what_can_never_work_is_refused_and_buffers_come_back() {
    on_both(|rig| {
        let Scratch { disk, folder: _folder } = scratch(4);
        let buffer = Buffer::zeroed(BLOCK);
        let twin = buffer.clone();
        match rig.run(Op::Read { disk: disk.clone(), offset: 0, buffer }) {
            Outcome::Read { buffer, result: Err(IoError::Refused(_)) } => assert_eq!(buffer, twin),
            other => panic!("{other:?}"),
        }
        let refused = |result| matches!(result, Err(IoError::Refused(_)));
        assert!(refused(write(rig, &disk, 0, Buffer::zeroed(100))));
        assert!(refused(write(rig, &disk, 0, Vec::new())));
        let past_end = |result| matches!(result, Err(IoError::PastEnd));
        assert!(past_end(write(rig, &disk, 3, filled(1, 2))));
        assert!(past_end(read(rig, &disk, 4, 1).map(drop)));
        let op = Op::Discard {
            disk: disk.clone(),
            offset: u64::MAX / BLOCK as u64 * BLOCK as u64,
            len: 4096,
        };
        assert!(matches!(rig.run(op), Outcome::Discarded(Err(IoError::PastEnd))));
    });
}

#[test]
fn a_file_that_shrank_under_us_gives_an_error_and_no_made_up_bytes() {
    on_both(|rig| {
        let Scratch { disk, folder: _folder } = scratch(8);
        File::options().write(true).open(disk.path()).unwrap().set_len(offset(2)).unwrap();
        assert!(matches!(read(rig, &disk, 1, 4), Err(IoError::PastEnd)));
    });
}

#[test]
fn a_disk_is_opened_by_one_only_until_its_last_handle_goes() {
    let Scratch { disk, folder } = scratch(4);
    let path = folder.path().join("disk");
    assert!(matches!(Disk::open(&path), Err(DiskError::Busy { .. })));
    assert!(matches!(Disk::create(&path, 4096), Err(DiskError::Exists { .. })));
    let twin = disk.clone();
    drop(disk);
    assert!(matches!(Disk::open(&path), Err(DiskError::Busy { .. })));
    drop(twin);
    let again = Disk::open(&path).unwrap();
    assert_eq!((again.size(), again.kind()), (offset(4), DiskKind::File));
}

#[test]
fn what_is_no_disk_is_told_apart() {
    let Scratch { folder, .. } = scratch(1);
    let missing = folder.path().join("missing");
    assert!(matches!(Disk::open(&missing), Err(DiskError::Missing { .. })));
    assert!(matches!(Disk::open(folder.path()), Err(DiskError::NotADisk { .. })));
    assert!(matches!(Disk::open(Path::new("/dev/null")), Err(DiskError::NotADisk { .. })));
}

#[test]
fn a_file_that_does_not_fit_leaves_nothing_behind() {
    let Scratch { folder, .. } = scratch(1);
    let path = folder.path().join("huge");
    assert!(Disk::create(&path, 1 << 60).is_err());
    assert!(!path.exists());
}

#[test]
fn a_file_grows_and_never_shrinks() {
    on_both(|rig| {
        let Scratch { disk, folder: _folder } = scratch(4);
        assert!(disk.grow(offset(2)).is_err());
        disk.grow(offset(8)).unwrap();
        assert_eq!(disk.look_at_size().unwrap(), offset(8));
        write(rig, &disk, 7, filled(1, 1)).unwrap();
        assert_eq!(read(rig, &disk, 7, 1).unwrap(), filled(1, 1));
    });
}
