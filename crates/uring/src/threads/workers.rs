//! Threads that block in calls on disks, so that the reactor need not.

use std::{
    collections::VecDeque,
    io::{IoSlice, IoSliceMut},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use crate::{
    Completion, IoError, disk,
    flight::{Flight, Next, Work},
    wake::Bell,
};

#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    is_there_work: Condvar,
    done: Mutex<Vec<Completion>>,
    bell: Arc<Bell>,
}

#[derive(Debug, Default)]
struct Waiting {
    flights: VecDeque<Flight>,
    is_over: bool,
}

impl Workers {
    pub fn new(count: usize, bell: Arc<Bell>) -> Self {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            is_there_work: Condvar::new(),
            done: Mutex::default(),
            bell,
        });
        let spawn = |_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.work())
        };
        let threads = (0..count).map(spawn).collect();
        Self { shared, threads, in_flight: 0 }
    }

    pub fn submit(&mut self, flight: Flight) {
        self.in_flight += 1;
        locked(&self.shared.waiting).flights.push_back(flight);
        self.shared.is_there_work.notify_one();
    }

    /// Takes out those that no thread has begun; the others go on as they are.
    pub fn cancel(&mut self, token: u64) {
        let mut waiting = locked(&self.shared.waiting);
        let (stopped, others): (VecDeque<_>, _) =
            std::mem::take(&mut waiting.flights).into_iter().partition(|f| f.token == token);
        waiting.flights = others;
        drop(waiting);
        let stopped = stopped.into_iter().map(|flight| flight.finish(Err(IoError::Cancelled)));
        locked(&self.shared.done).extend(stopped);
    }

    pub fn take_done(&mut self, completions: &mut Vec<Completion>) {
        if self.in_flight == 0 {
            return;
        }
        let mut done = locked(&self.shared.done);
        self.in_flight -= done.len();
        completions.append(&mut done);
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }
}

/// Ends the threads; what they are in the middle of is waited for, what they have not begun is not
/// done.
impl Drop for Workers {
    fn drop(&mut self) {
        let mut waiting = locked(&self.shared.waiting);
        waiting.flights.clear();
        waiting.is_over = true;
        drop(waiting);
        self.shared.is_there_work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(mut flight) = self.next() {
            let completion = loop {
                let answer = perform(&mut flight);
                match flight.answer(answer) {
                    Next::Again(more) => flight = more,
                    Next::Done(completion) => break completion,
                }
            };
            locked(&self.done).push(completion);
            self.bell.ring();
        }
    }

    fn next(&self) -> Option<Flight> {
        let mut waiting = locked(&self.waiting);
        loop {
            if waiting.is_over {
                return None;
            }
            if let Some(flight) = waiting.flights.pop_front() {
                return Some(flight);
            }
            waiting = self.is_there_work.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One call.
fn perform(flight: &mut Flight) -> Result<usize, Errno> {
    match &flight.work {
        Work::Read { disk, offset, .. } => {
            let (disk, at) = (disk.clone(), flight.at(*offset));
            let mut room = [IoSliceMut::new(flight.room_left())];
            preadv2(&disk, &mut room, at, ReadWriteFlags::empty())
        }
        Work::Write { disk, offset, durability, .. } => {
            let parts = flight.parts_left().map(IoSlice::new).collect::<Vec<_>>();
            let flags = if durability.is_durable() {
                ReadWriteFlags::DSYNC
            } else {
                ReadWriteFlags::empty()
            };
            pwritev2(disk, &parts, flight.at(*offset), flags)
        }
        Work::Sync { disk } => rustix::fs::fdatasync(disk).map(|()| 0),
        Work::Discard { disk, offset, len } => disk::discard(disk, *offset, *len).map(|()| 0),
        Work::Accept { .. } | Work::Connect { .. } | Work::Receive { .. } | Work::Send { .. } => {
            Err(Errno::INVAL)
        }
    }
}

/// A list of ours is whole after every step, also if a thread died holding it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
