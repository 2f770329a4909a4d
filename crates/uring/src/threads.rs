//! The kernel through plain system calls, where `io_uring` is forbidden: threads that block for
//! disks, readiness for sockets.

mod sockets;
mod workers;

use std::{io, sync::Arc, time::Duration};

use crate::{Completion, flight::Flight, kernel::Kernel, limits, wake::Bell};
use sockets::Sockets;
pub(crate) use workers::Workers;

#[derive(Debug)]
pub(crate) struct Threads {
    workers: Workers,
    sockets: Sockets,
    bell: Arc<Bell>,
}

impl Threads {
    pub fn new(bell: Arc<Bell>) -> io::Result<Self> {
        let sockets = Sockets::new(&bell)?;
        Ok(Self { workers: Workers::new(limits::DISK_THREADS, Arc::clone(&bell)), sockets, bell })
    }
}

impl Kernel for Threads {
    fn submit(&mut self, flight: Flight) {
        if flight.work.is_for_disk() {
            self.workers.submit(flight);
        } else {
            self.sockets.submit(flight);
        }
    }

    fn cancel(&mut self, token: u64) {
        self.workers.cancel(token);
        self.sockets.cancel(token);
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.workers.take_done(completions);
        self.sockets.poll(Some(Duration::ZERO), &self.bell)?;
        self.sockets.take_done(completions);
        Ok(())
    }

    fn has_news(&mut self) -> bool {
        // An error is for the poll that follows to tell. Workers ring the bell.
        let looked = self.sockets.poll(Some(Duration::ZERO), &self.bell);
        looked.is_err() || self.sockets.has_done()
    }

    fn block(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        if self.sockets.has_done() || !self.bell.try_sleep() {
            return Ok(());
        }
        let result = self.sockets.poll(at_most, &self.bell);
        self.bell.wake_up();
        result
    }

    fn in_flight(&self) -> usize {
        self.workers.in_flight() + self.sockets.in_flight()
    }
}
