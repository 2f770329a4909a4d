//! A real block device, where root and the kernel allow one to be made of a file.
//!
//! A program of its own: it starts others, and a child holds the parent's locks between fork and
//! exec, which the tests of locks would notice.
#![cfg(test)]
#![allow(missing_debug_implementations, reason = "nobody prints a test's parts")]

use std::{path::PathBuf, process::Command};

use block::{BLOCK, Buffer, Durability::Durable};
use tempfile::TempDir;
use uring::{Backend, Disk, DiskError, DiskKind, Op, Outcome, Reactor};

struct Loop {
    path: PathBuf,
    _folder: TempDir,
}

impl Loop {
    fn new(blocks: usize) -> Result<Self, String> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let file = folder.path().join("file");
        drop(Disk::create(&file, offset(blocks)).unwrap());
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        let made = made.map_err(|error| error.to_string())?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }
        let path = String::from_utf8_lossy(&made.stdout).trim().into();
        Ok(Self { path, _folder: folder })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

fn offset(block: usize) -> u64 {
    u64::try_from(block * BLOCK).unwrap()
}

fn filled(byte: u8, blocks: usize) -> Buffer {
    Buffer::copy_of(&vec![byte; blocks * BLOCK])
}

fn run(reactor: &mut Reactor, op: Op) -> Outcome {
    reactor.submit(0, op);
    let mut completions = Vec::new();
    while completions.is_empty() {
        reactor.wait(&mut completions, None).unwrap();
    }
    completions.remove(0).outcome
}

fn read(reactor: &mut Reactor, disk: &Disk, at: usize, blocks: usize) -> Buffer {
    let buffer = Buffer::zeroed(blocks * BLOCK);
    match run(reactor, Op::Read { disk: disk.clone(), offset: offset(at), buffer }) {
        Outcome::Read { buffer, result: Ok(()) } => buffer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_device_is_claimed_has_its_size_and_takes_discards() {
    let device = match Loop::new(256) {
        Ok(device) => device,
        Err(reason) => return println!("skipped: no loop device can be had: {reason}"),
    };
    for backend in [Backend::Uring, Backend::Threads] {
        let mut reactor = Reactor::new(backend).unwrap();
        let disk = Disk::open(&device.path).unwrap();
        assert_eq!((disk.kind(), disk.size()), (DiskKind::Device, offset(256)));
        assert!(matches!(Disk::open(&device.path), Err(DiskError::Busy { .. })));
        assert!(disk.grow(offset(512)).is_err());
        let data = filled(5, 256).into();
        let write = Op::Write { disk: disk.clone(), offset: 0, data, durability: Durable };
        assert!(matches!(run(&mut reactor, write), Outcome::Written { result: Ok(()), .. }));
        let discard = Op::Discard { disk: disk.clone(), offset: offset(64), len: offset(64) };
        assert!(matches!(run(&mut reactor, discard), Outcome::Discarded(Ok(()))));
        assert!(read(&mut reactor, &disk, 64, 64).is_zero());
        assert_eq!(read(&mut reactor, &disk, 128, 128), filled(5, 128));
        assert_eq!(reactor.in_flight(), 0);
    }
}
