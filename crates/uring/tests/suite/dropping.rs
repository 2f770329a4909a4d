//! A reactor that goes with operations in flight.

use std::{io::Read, os::fd::OwnedFd, os::unix::net::UnixStream};

use block::{BLOCK, Buffer, Durability::Durable};
use uring::{Backend, Data, Disk, Op, Socket};

use crate::{
    Rig,
    disks::{Scratch, filled, scratch},
};

/// Backends one by one, as the reactor has to go inside.
fn on_each(test: impl Fn(Rig)) {
    for backend in [Backend::Uring, Backend::Threads] {
        test(Rig::new(backend));
    }
}

#[test]
fn a_dropped_reactor_lets_its_disks_go() {
    on_each(|mut rig| {
        let Scratch { disk, folder } = scratch(64);
        for token in 0..64 {
            let data = Data::One(filled(1, 1));
            let offset = token * u64::try_from(BLOCK).unwrap();
            rig.reactor
                .submit(token, Op::Write { disk: disk.clone(), offset, data, durability: Durable });
            let buffer = Buffer::zeroed(BLOCK);
            rig.reactor.submit(token, Op::Read { disk: disk.clone(), offset, buffer });
        }
        // Some are under way, some are not even handed over.
        rig.reactor.wait(&mut Vec::new(), None).unwrap();
        rig.reactor.submit(99, Op::Sync { disk: disk.clone() });
        drop((disk, rig));
        Disk::open(&folder.path().join("disk")).unwrap();
    });
}

#[test]
fn a_dropped_reactor_closes_the_sockets_that_only_it_held() {
    on_each(|mut rig| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let socket = Socket::try_from(OwnedFd::from(ours)).unwrap();
        let buffer = Buffer::zeroed(1 << 20);
        rig.reactor.submit(1, Op::Receive { socket: socket.clone(), buffer, at: 0 });
        let chunks = vec![vec![1; 8 << 20].into()];
        rig.reactor.submit(2, Op::Send { socket, chunks });
        let until = Some(std::time::Instant::now());
        rig.reactor.wait(&mut Vec::new(), until).unwrap();
        drop(rig);
        // Whatever was sent before, then the end.
        let mut got = Vec::new();
        theirs.read_to_end(&mut got).unwrap();
        assert!(got.len() < 8 << 20 && got.iter().all(|byte| *byte == 1));
    });
}
