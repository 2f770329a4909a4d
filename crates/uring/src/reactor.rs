//! The reactor: everything that one thread waits for, in one place.

use std::{io, marker::PhantomData, rc::Rc, sync::Arc, thread, time::Instant};

use crate::{
    Completion, IoError, Op, Outcome, Waker, flight::Flight, kernel::Kernel, pace, pace::Pace,
    ring::Ring, threads::Threads, timers::Timers, wake::Bell,
};

/// How many looks go between two readings of the clock.
const LOOKS: u32 = 8;

/// Lives on the thread that made it. Dropping it waits for what cannot be cancelled.
pub struct Reactor {
    kernel: Box<dyn Kernel>,
    running: Running,
    timers: Timers,
    /// Completed without the kernel's help.
    ready: Vec<Completion>,
    pace: Pace,
    bell: Arc<Bell>,
    /// The ring may be used only by the thread that made it.
    stays: PhantomData<Rc<()>>,
}

/// What to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `io_uring` where it can be had.
    Auto,
    Uring,
    Threads,
}

/// What it runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Running {
    Uring,
    /// With the reason, if it was not asked for.
    Threads {
        instead: Option<String>,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("io_uring cannot be had here")]
    NoUring(#[source] io::Error),
    #[error("no events or threads can be had")]
    NoThreads(#[source] io::Error),
}

impl Reactor {
    pub fn new(backend: Backend) -> Result<Self, StartError> {
        let bell = Arc::new(Bell::new().map_err(StartError::NoThreads)?);
        let threads = |instead| {
            let kernel = Threads::new(Arc::clone(&bell)).map_err(StartError::NoThreads)?;
            Ok((Box::new(kernel) as Box<dyn Kernel>, Running::Threads { instead }))
        };
        let ring = || Ring::new(Arc::clone(&bell)).map_err(StartError::NoUring);
        let (kernel, running) = match backend {
            Backend::Threads => threads(None)?,
            Backend::Uring => (Box::new(ring()?) as Box<dyn Kernel>, Running::Uring),
            Backend::Auto => match ring() {
                Ok(ring) => (Box::new(ring) as Box<dyn Kernel>, Running::Uring),
                Err(StartError::NoUring(error) | StartError::NoThreads(error)) => {
                    threads(Some(error.to_string()))?
                }
            },
        };
        Ok(Self {
            kernel,
            running,
            timers: Timers::default(),
            ready: Vec::new(),
            pace: Pace::default(),
            bell,
            stays: PhantomData,
        })
    }

    pub fn running(&self) -> &Running {
        &self.running
    }

    pub fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.bell))
    }

    /// Completes once, at a later wait, also if it is refused. Tokens need not differ.
    pub fn submit(&mut self, token: u64, op: Op) {
        if let Op::Timeout { at } = op {
            self.timers.set(at, token);
            return;
        }
        match Flight::new(token, op) {
            Ok(flight) => self.kernel.submit(flight),
            Err(completion) => self.ready.push(completion),
        }
    }

    /// Asks whatever has this token to stop. Each such operation still completes once: cancelled,
    /// or as it went if it was too late.
    pub fn cancel(&mut self, token: u64) {
        for _ in 0..self.timers.cancel(token) {
            let outcome = Outcome::Elapsed(Err(IoError::Cancelled));
            self.ready.push(Completion { token, outcome });
        }
        self.kernel.cancel(token);
    }

    /// Operations that have not completed.
    pub fn in_flight(&self) -> usize {
        self.kernel.in_flight() + self.timers.len() + self.ready.len()
    }

    /// Starts what was submitted and waits for something: completions, which are added to the list,
    /// the waker, or the time. While I/O keeps arriving it looks for it a short while, else it
    /// sleeps.
    pub fn wait(
        &mut self,
        completions: &mut Vec<Completion>,
        until: Option<Instant>,
    ) -> io::Result<()> {
        let before = completions.len();
        loop {
            let is_woken = self.bell.take();
            completions.append(&mut self.ready);
            self.kernel.poll(completions)?;
            let is_late = self.expire(completions, until);
            if is_woken || is_late || completions.len() > before {
                return Ok(());
            }
            let idle_since = Instant::now();
            if !self.look(idle_since, until) {
                self.sleep(until)?;
                self.pace.slept(idle_since.elapsed());
            }
        }
    }

    /// Completes timers that are due. True if `until` has come.
    fn expire(&mut self, completions: &mut Vec<Completion>, until: Option<Instant>) -> bool {
        if until.is_none() && self.timers.len() == 0 {
            return false;
        }
        let now = Instant::now();
        while let Some(token) = self.timers.take_due(now) {
            completions.push(Completion { token, outcome: Outcome::Elapsed(Ok(())) });
        }
        until.is_some_and(|until| until <= now)
    }

    /// Looks for work without sleeping, as long as that pays. True if there may be some.
    fn look(&mut self, start: Instant, until: Option<Instant>) -> bool {
        let budget = self.pace.look(start);
        if budget.is_zero() {
            return false;
        }
        let end = self.deadline(until).map_or(start + budget, |at| at.min(start + budget));
        let switches = switches();
        let (mut now, mut offered) = (start, start);
        while now < end {
            for _ in 0..LOOKS {
                if self.kernel.has_news() || self.bell.is_rung() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if now >= offered + pace::OFFER_EVERY {
                thread::yield_now();
                offered = now;
            }
            let before = std::mem::replace(&mut now, Instant::now());
            if now > before + pace::STANDSTILL {
                let has_news = self.kernel.has_news();
                let is_served = has_news && now < before + pace::SERVED;
                if !is_served && switches != self::switches() {
                    self.pace.disturbed(now);
                    return has_news;
                }
            }
        }
        false
    }

    fn sleep(&mut self, until: Option<Instant>) -> io::Result<()> {
        let deadline = self.deadline(until);
        let at_most = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        self.kernel.block(at_most)
    }

    fn deadline(&self, until: Option<Instant>) -> Option<Instant> {
        self.timers.first().into_iter().chain(until).min()
    }
}

/// How often this thread gave its core to another one while it had work: preempted, or by offer.
#[allow(unsafe_code, reason = "nothing else tells a switch from an interrupt")]
fn switches() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: it writes one `rusage` to where it is told, which has room for one; all zeros, as it
    // is before, are a value of it, too.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_nivcsw
    }
}

impl std::fmt::Debug for Reactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reactor")
            .field("running", &self.running)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}
