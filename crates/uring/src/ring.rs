//! The kernel through `io_uring`: one ring for one thread.

mod entry;
mod queue;
mod slots;

use std::{
    collections::VecDeque,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::io::Errno;

use crate::{
    Completion, IoError,
    disk::DiskKind,
    flight::{Flight, Next, Work},
    kernel::Kernel,
    limits,
    threads::Workers,
    wake::Bell,
};
use queue::{Answer, Queue};
use slots::Slots;

/// Operations in the ring, and those that wait for room in it.
#[derive(Debug)]
pub(crate) struct Ring {
    queue: Queue,
    slots: Slots,
    backlog: VecDeque<Flight>,
    /// Cancelled before the kernel heard of them.
    stopped: Vec<Completion>,
    bell: Arc<Bell>,
    /// Whether the kernel watches the bell for us.
    is_watching: bool,
    /// For the one call that no ring can make.
    aside: Option<Workers>,
    /// Kept for its memory.
    answers: Vec<Answer>,
}

impl Ring {
    pub fn new(bell: Arc<Bell>) -> io::Result<Self> {
        Ok(Self {
            queue: Queue::new()?,
            slots: Slots::default(),
            backlog: VecDeque::new(),
            stopped: Vec::new(),
            bell,
            is_watching: false,
            aside: None,
            answers: Vec::new(),
        })
    }

    /// Puts it into the ring, or in front of those that wait.
    fn launch(&mut self, flight: Flight) {
        if self.slots.taken() >= limits::IN_FLIGHT {
            self.backlog.push_front(flight);
            return;
        }
        let index = self.slots.insert(flight);
        if !self.queue.push_flight(&mut self.slots, index)
            && let Some(flight) = self.slots.remove(index)
        {
            self.backlog.push_front(flight);
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let mut answers = std::mem::take(&mut self.answers);
        self.queue.take_answers(&mut answers);
        for answer in answers.drain(..) {
            match answer {
                Answer::Bell => {
                    self.is_watching = false;
                    self.bell.quiet();
                }
                Answer::Cancelled => {}
                Answer::Flight { index, result } => {
                    let Some(flight) = self.slots.remove(index) else { continue };
                    match flight.answer(result) {
                        Next::Done(completion) => completions.push(completion),
                        Next::Again(flight) => self.launch(flight),
                    }
                }
            }
        }
        self.answers = answers;
        if let Some(aside) = &mut self.aside {
            aside.take_done(completions);
        }
    }

    fn launch_backlog(&mut self) {
        while self.slots.taken() < limits::IN_FLIGHT {
            let Some(flight) = self.backlog.pop_front() else { return };
            let waiting = self.backlog.len();
            self.launch(flight);
            if self.backlog.len() > waiting {
                return;
            }
        }
    }

    fn submit_aside(&mut self, flight: Flight) {
        let bell = &self.bell;
        let aside = self.aside.get_or_insert_with(|| Workers::new(1, Arc::clone(bell)));
        aside.submit(flight);
    }
}

impl Kernel for Ring {
    fn submit(&mut self, flight: Flight) {
        match &flight.work {
            Work::Discard { disk, .. } if disk.kind() == DiskKind::Device => {
                self.submit_aside(flight);
            }
            // In order: whoever waits already goes first.
            _ if !self.backlog.is_empty() => self.backlog.push_back(flight),
            _ => self.launch(flight),
        }
    }

    fn cancel(&mut self, token: u64) {
        for index in self.slots.cancel(token) {
            self.queue.push_cancel(index);
        }
        let (stopped, waiting): (VecDeque<_>, _) =
            std::mem::take(&mut self.backlog).into_iter().partition(|f| f.token == token);
        self.backlog = waiting;
        let stopped = stopped.into_iter().map(|flight| flight.finish(Err(IoError::Cancelled)));
        self.stopped.extend(stopped);
        if let Some(aside) = &mut self.aside {
            aside.cancel(token);
        }
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.append(&mut self.stopped);
        self.launch_backlog();
        self.queue.hand_over()?;
        self.reap(completions);
        Ok(())
    }

    fn has_news(&mut self) -> bool {
        !self.stopped.is_empty() || self.queue.has_news()
    }

    fn block(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        if !self.is_watching {
            self.is_watching = self.queue.push_watch(&*self.bell);
        }
        let may_sleep = self.is_watching && self.stopped.is_empty();
        if !may_sleep || !self.bell.try_sleep() {
            return Ok(());
        }
        let result = self.queue.block(at_most);
        self.bell.wake_up();
        result
    }

    fn in_flight(&self) -> usize {
        let aside = self.aside.as_ref().map_or(0, Workers::in_flight);
        self.slots.taken() + self.backlog.len() + self.stopped.len() + aside
    }
}

/// Nothing that the kernel may still write to is freed: whatever can be cancelled is, the rest is
/// waited for, and what a hanging disk keeps is leaked, its handle and lock included.
impl Drop for Ring {
    fn drop(&mut self) {
        self.backlog.clear();
        for index in self.slots.cancel_all() {
            self.queue.push_cancel(index);
        }
        let deadline = Instant::now() + limits::LAST_WAIT;
        let mut last = Vec::new();
        while self.slots.taken() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = self.queue.hand_over().and_then(|()| self.queue.block(Some(left)));
            self.reap(&mut last);
            self.backlog.clear();
            if waited.is_err() || left.is_zero() {
                std::mem::forget(std::mem::take(&mut self.slots));
            }
        }
    }
}

/// What a number in a completion entry means: bytes, or an error below zero.
fn outcome(result: i32) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(result.saturating_neg()))
}
