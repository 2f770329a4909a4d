//! A flight as an entry of the submission queue.
//!
//! Making one is safe: it only writes addresses down. What they must fulfil is told where an entry
//! is handed to the kernel, in `queue`.

use std::os::fd::{AsFd, AsRawFd};

use io_uring::{opcode, squeue, types};

use super::slots::Slot;
use crate::{
    disk,
    flight::{Flight, Work},
};

/// Lists that an entry points to, kept from flight to flight for their memory.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    vectors: Vec<Vector>,
    header: Box<MessageHeader>,
}

/// `struct iovec`.
#[repr(C)]
#[derive(Debug)]
struct Vector {
    base: *const u8,
    len: usize,
}

/// `struct user_msghdr`, the kernel's own view of what the C library calls `msghdr`.
#[repr(C)]
#[derive(Debug)]
struct MessageHeader {
    name: *const u8,
    name_len: i32,
    vectors: *const Vector,
    vectors_len: usize,
    control: *const u8,
    control_len: usize,
    flags: u32,
}

impl Default for MessageHeader {
    fn default() -> Self {
        Self {
            name: std::ptr::null(),
            name_len: 0,
            vectors: std::ptr::null(),
            vectors_len: 0,
            control: std::ptr::null(),
            control_len: 0,
            flags: 0,
        }
    }
}

/// The next step of the flight in the slot. A device's discard has none: no ring can do it.
pub(super) fn entry(slot: &mut Slot) -> Option<squeue::Entry> {
    let Slot { flight: Some(flight), scratch } = slot else { return None };
    Some(match &flight.work {
        Work::Read { disk, offset, .. } => {
            let (fd, at) = (number(disk), flight.at(*offset));
            let room = flight.room_left();
            opcode::Read::new(fd, room.as_mut_ptr(), len(room)).offset(at).build()
        }
        Work::Write { .. } => write(flight, scratch)?,
        Work::Sync { disk } => {
            opcode::Fsync::new(number(disk)).flags(types::FsyncFlags::DATASYNC).build()
        }
        Work::Discard { disk, offset, len } => {
            let mode = i32::try_from(disk::hole().bits()).ok()?;
            opcode::Fallocate::new(number(disk), *len).offset(*offset).mode(mode).build()
        }
        Work::Accept { listener } => ready(listener, libc::POLLIN),
        Work::Connect { socket } => ready(socket, libc::POLLOUT),
        Work::Receive { socket, .. } => {
            let fd = number(socket);
            let room = flight.room_left();
            opcode::Recv::new(fd, room.as_mut_ptr(), len(room)).build()
        }
        Work::Send { .. } => send(flight, scratch)?,
    })
}

/// Completes once the descriptor is ready.
pub(super) fn ready(fd: &impl AsFd, events: i16) -> squeue::Entry {
    opcode::PollAdd::new(number(fd), u32::from(events.unsigned_abs())).build()
}

fn write(flight: &Flight, scratch: &mut Scratch) -> Option<squeue::Entry> {
    let Work::Write { disk, offset, durability, .. } = &flight.work else { return None };
    let (fd, at) = (number(disk), flight.at(*offset));
    let flags = if durability.is_durable() { libc::RWF_DSYNC } else { 0 };
    scratch.gather(flight);
    Some(match scratch.vectors.as_slice() {
        [one] => {
            let len = u32::try_from(one.len).ok()?;
            opcode::Write::new(fd, one.base, len).offset(at).rw_flags(flags).build()
        }
        many => {
            let count = u32::try_from(many.len()).ok()?;
            let vectors = opcode::Writev::new(fd, many.as_ptr().cast(), count);
            vectors.offset(at).rw_flags(flags).build()
        }
    })
}

fn send(flight: &Flight, scratch: &mut Scratch) -> Option<squeue::Entry> {
    let Work::Send { socket, .. } = &flight.work else { return None };
    let fd = number(socket);
    // All of it before it completes, and an error instead of a signal when the peer is gone.
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
    scratch.gather(flight);
    let Scratch { vectors, header } = scratch;
    Some(match vectors.as_slice() {
        [one] => opcode::Send::new(fd, one.base, u32::try_from(one.len).ok()?).flags(flags).build(),
        many => {
            (header.vectors, header.vectors_len) = (many.as_ptr(), many.len());
            let header = std::ptr::from_ref::<MessageHeader>(header).cast();
            opcode::SendMsg::new(fd, header).flags(flags.unsigned_abs()).build()
        }
    })
}

impl Scratch {
    fn gather(&mut self, flight: &Flight) {
        self.vectors.clear();
        let parts = flight.parts_left();
        self.vectors.extend(parts.map(|part| Vector { base: part.as_ptr(), len: part.len() }));
    }
}

fn number(fd: &impl AsFd) -> types::Fd {
    types::Fd(fd.as_fd().as_raw_fd())
}

fn len(room: &[u8]) -> u32 {
    u32::try_from(room.len()).expect("a piece is shorter than that")
}
