//! Wall time that never jumps: read once, counted on by the monotonic clock.
//!
//! Leases and deadlines are judged by it. A machine whose wall clock is set back must not believe
//! that its lease is still good.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Time;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    wall: Time,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), wall: Time(millis(wall)) }
    }

    pub(crate) fn now(&self) -> Time {
        self.wall + model::Millis(millis(self.started.elapsed()))
    }

    /// When a time comes; now if it is past.
    pub(crate) fn instant(&self, at: Time) -> Instant {
        self.started + Duration::from_millis(at.since(self.wall).0)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
