//! Sockets without `io_uring`: tried at once, and again when the kernel calls them ready.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{Timespec, epoll},
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg},
};

use crate::{
    Completion, IoError,
    flight::{Flight, Next, Work},
    limits,
    wake::Bell,
};

/// Not a descriptor.
const BELL: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Sockets {
    epoll: OwnedFd,
    /// By descriptor, which the flights keep open. No entry is empty.
    waiting: BTreeMap<u64, Vec<Flight>>,
    done: Vec<Completion>,
    /// Kept for its memory.
    ready: Vec<u64>,
}

impl Sockets {
    pub fn new(bell: &Bell) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(BELL);
        epoll::add(&epoll, bell, data, epoll::EventFlags::IN)?;
        Ok(Self { epoll, waiting: BTreeMap::new(), done: Vec::new(), ready: Vec::new() })
    }

    pub fn submit(&mut self, flight: Flight) {
        if let Some(flight) = self.attempt(flight) {
            let number = number(&flight);
            self.waiting.entry(number).or_default().push(flight);
            self.watch(number);
        }
    }

    pub fn cancel(&mut self, token: u64) {
        for flights in self.waiting.values_mut() {
            let stopped = flights.extract_if(.., |flight| flight.token == token);
            self.done.extend(stopped.map(|flight| flight.finish(Err(IoError::Cancelled))));
        }
        self.waiting.retain(|_, flights| !flights.is_empty());
    }

    /// Waits for readiness and tries again those that have it.
    pub fn poll(&mut self, at_most: Option<Duration>, bell: &Bell) -> io::Result<()> {
        let mut room = [MaybeUninit::<epoll::Event>::uninit(); limits::EVENTS];
        // A time too long to say is as good as none.
        let time = at_most.and_then(|time| Timespec::try_from(time).ok());
        let events = match epoll::wait(&self.epoll, &mut room, time.as_ref()) {
            Ok((events, _)) => &*events,
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        self.ready.extend(events.iter().map(|event| event.data.u64()));
        for number in std::mem::take(&mut self.ready) {
            if number == BELL {
                bell.quiet();
            } else {
                self.try_again(number);
            }
        }
        Ok(())
    }

    fn try_again(&mut self, number: u64) {
        let flights = self.waiting.remove(&number).unwrap_or_default();
        let left: Vec<_> = flights.into_iter().filter_map(|flight| self.attempt(flight)).collect();
        if !left.is_empty() {
            self.waiting.insert(number, left);
            self.watch(number);
        }
    }

    /// Asks to be told once when one of its flights can go on. A socket that was never watched, or
    /// whose number was another's, is unknown to the kernel and is added.
    fn watch(&mut self, number: u64) {
        let Some(flights) = self.waiting.get(&number) else { return };
        let Some(first) = flights.first() else { return };
        let events = flights.iter().map(|flight| wanted(&flight.work));
        let events = events.fold(epoll::EventFlags::ONESHOT, |all, one| all | one);
        let data = epoll::EventData::new_u64(number);
        let fd = descriptor(&first.work);
        let watched = match epoll::modify(&self.epoll, fd, data, events) {
            Err(Errno::NOENT) => epoll::add(&self.epoll, fd, data, events),
            other => other,
        };
        if let Err(errno) = watched {
            let flights = self.waiting.remove(&number).unwrap_or_default();
            self.done.extend(flights.into_iter().map(|flight| flight.finish(Err(errno.into()))));
        }
    }

    /// One or more calls that do not block; the flight if it has to wait.
    fn attempt(&mut self, mut flight: Flight) -> Option<Flight> {
        loop {
            let answer = match perform(&mut flight) {
                Err(Errno::AGAIN) => return Some(flight),
                answer => answer,
            };
            let is_waiting = matches!(flight.work, Work::Accept { .. } | Work::Connect { .. });
            match flight.answer(answer) {
                // It was not ready after all.
                Next::Again(more) if is_waiting => return Some(more),
                Next::Again(more) => flight = more,
                Next::Done(completion) => {
                    self.done.push(completion);
                    return None;
                }
            }
        }
    }

    pub fn take_done(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.done);
    }

    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    pub fn in_flight(&self) -> usize {
        self.waiting.values().map(Vec::len).sum::<usize>() + self.done.len()
    }
}

fn perform(flight: &mut Flight) -> Result<usize, Errno> {
    match &flight.work {
        Work::Receive { socket, .. } => {
            let socket = socket.clone();
            recv(&socket, flight.room_left(), RecvFlags::DONTWAIT).map(|(moved, _)| moved)
        }
        Work::Send { socket, .. } => {
            let parts = flight.parts_left().map(IoSlice::new).collect::<Vec<_>>();
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            sendmsg(socket, &parts, &mut SendAncillaryBuffer::default(), flags)
        }
        // The answer itself is what is tried.
        _ => Ok(0),
    }
}

fn wanted(work: &Work) -> epoll::EventFlags {
    match work {
        Work::Accept { .. } | Work::Receive { .. } => epoll::EventFlags::IN,
        _ => epoll::EventFlags::OUT,
    }
}

fn descriptor(work: &Work) -> BorrowedFd<'_> {
    match work {
        Work::Accept { listener } => listener.as_fd(),
        Work::Connect { socket } | Work::Receive { socket, .. } | Work::Send { socket, .. } => {
            socket.as_fd()
        }
        Work::Read { disk, .. }
        | Work::Write { disk, .. }
        | Work::Sync { disk }
        | Work::Discard { disk, .. } => disk.as_fd(),
    }
}

fn number(flight: &Flight) -> u64 {
    u64::from(descriptor(&flight.work).as_raw_fd().unsigned_abs())
}
