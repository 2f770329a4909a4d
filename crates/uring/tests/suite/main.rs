//! One suite for both backends: what a caller may rely on, wherever the reactor runs.
#![cfg(test)]
#![allow(missing_debug_implementations, reason = "nobody prints a test's parts")]

mod disks;
mod dropping;
mod model;
mod sockets;
mod waking;

use std::time::{Duration, Instant};

use uring::{Backend, Completion, Op, Outcome, Reactor};

/// Long enough for any machine; a test that waits for it fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A reactor and what has completed out of turn.
struct Rig {
    reactor: Reactor,
    early: Vec<Completion>,
}

fn on_both(test: impl Fn(&mut Rig)) {
    for backend in [Backend::Uring, Backend::Threads] {
        test(&mut Rig::new(backend));
    }
}

impl Rig {
    fn new(backend: Backend) -> Self {
        let reactor = Reactor::new(backend).expect("this machine has both backends");
        Self { reactor, early: Vec::new() }
    }

    fn run(&mut self, op: Op) -> Outcome {
        self.reactor.submit(u64::MAX, op);
        self.outcome(u64::MAX)
    }

    /// Waits for the operation with this token.
    fn outcome(&mut self, token: u64) -> Outcome {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.early.iter().position(|c| c.token == token) {
                return self.early.remove(at).outcome;
            }
            self.reactor.wait(&mut self.early, Some(end)).unwrap();
            assert!(Instant::now() < end, "operation {token} never completed");
        }
    }

    /// Waits for this many completions, in the order in which they came.
    fn outcomes(&mut self, count: usize) -> Vec<Completion> {
        let end = Instant::now() + PATIENCE;
        while self.early.len() < count {
            self.reactor.wait(&mut self.early, Some(end)).unwrap();
            assert!(Instant::now() < end, "only {} of {count} completed", self.early.len());
        }
        std::mem::take(&mut self.early)
    }
}
