//! How other threads reach a reactor: a bell that ends its wait, and a bounded inbox.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
};

use rustix::event::{EventfdFlags, eventfd};

/// Ends the wait of one reactor, from any thread.
#[derive(Clone, Debug)]
pub struct Waker {
    bell: Arc<Bell>,
}

impl Waker {
    pub(crate) fn new(bell: Arc<Bell>) -> Self {
        Self { bell }
    }

    /// The reactor's next or present wait returns. What was stored before is seen after it.
    pub fn wake(&self) {
        self.bell.ring();
    }
}

/// A ring costs a system call only if the reactor sleeps: one that works or spins looks at `rung`.
///
/// The ringer sets `rung` and then looks at `asleep`; the reactor sets `asleep` and then looks at
/// `rung`. In one order for all (`SeqCst`) at least one of them sees the other, so no ring is lost.
#[derive(Debug)]
pub(crate) struct Bell {
    event: OwnedFd,
    rung: AtomicBool,
    asleep: AtomicBool,
}

impl Bell {
    pub fn new() -> std::io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { event, rung: AtomicBool::new(false), asleep: AtomicBool::new(false) })
    }

    pub fn ring(&self) {
        if !self.rung.swap(true, SeqCst) && self.asleep.load(SeqCst) {
            // It fails only if the counter is full, and then the sleeper is awake anyway.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Whether it was rung since the last look.
    pub fn take(&self) -> bool {
        self.rung.load(SeqCst) && self.rung.swap(false, SeqCst)
    }

    pub fn is_rung(&self) -> bool {
        self.rung.load(SeqCst)
    }

    /// Announces sleep. False if it was rung meanwhile: then there is none.
    pub fn try_sleep(&self) -> bool {
        self.asleep.store(true, SeqCst);
        let may = !self.rung.load(SeqCst);
        if !may {
            self.asleep.store(false, SeqCst);
        }
        may
    }

    pub fn wake_up(&self) {
        self.asleep.store(false, SeqCst);
    }

    /// Makes the event quiet again once it was seen.
    pub fn quiet(&self) {
        // Nothing to read means that another look took it.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// The reactor's end of a bounded queue.
#[derive(Debug)]
pub struct Inbox<T> {
    queue: mpsc::Receiver<T>,
}

/// The other threads' end; as many as there are threads.
#[derive(Debug)]
pub struct Outbox<T> {
    queue: mpsc::SyncSender<T>,
    waker: Waker,
}

/// Refused, and handed back: the inbox is full, or its reactor is gone.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full<T> {
    #[error("the inbox is full")]
    Full(T),
    #[error("the reactor is gone")]
    Gone(T),
}

/// A queue of at most `capacity` messages to the reactor that `waker` wakes.
pub fn inbox<T>(capacity: usize, waker: Waker) -> (Outbox<T>, Inbox<T>) {
    let (sender, receiver) = mpsc::sync_channel(capacity);
    (Outbox { queue: sender, waker }, Inbox { queue: receiver })
}

impl<T> Outbox<T> {
    pub fn send(&self, message: T) -> Result<(), Full<T>> {
        self.queue.try_send(message).map_err(|refused| match refused {
            mpsc::TrySendError::Full(message) => Full::Full(message),
            mpsc::TrySendError::Disconnected(message) => Full::Gone(message),
        })?;
        self.waker.wake();
        Ok(())
    }
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), waker: self.waker.clone() }
    }
}

impl<T> Inbox<T> {
    /// The oldest message, if there is one. To be asked until it has none after each wait.
    pub fn take(&self) -> Option<T> {
        self.queue.try_recv().ok()
    }
}
