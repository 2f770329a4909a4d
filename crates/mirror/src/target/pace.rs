//! How fast copies go: a bucket of blocks, and a step back when hosts feel it.

use model::{Millis, Time};

use crate::Throttle;

/// A host's write that takes longer than this while a copy runs is felt.
const FELT: Millis = Millis(10);
/// However slow, a copy ends: 1 MiB/s.
const RATE_MIN: u64 = 256;
/// After a region that nobody could read.
const REST: Millis = Millis(1_000);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pace {
    throttle: Throttle,
    /// Blocks per second for now.
    rate: u64,
    /// Blocks that may be copied at once, in thousandths.
    tokens: u64,
    filled: Time,
    /// Hosts were slowed down since then.
    is_felt: bool,
    resting: Option<Time>,
}

impl Pace {
    pub(super) const fn new(throttle: Throttle, now: Time) -> Self {
        let rate = throttle.rate;
        // A quarter of a second's worth to begin with.
        let tokens = rate * 250;
        Self { throttle, rate, tokens, filled: now, is_felt: false, resting: None }
    }

    pub(super) const fn window(&self) -> u32 {
        if self.throttle.window == 0 { 1 } else { self.throttle.window }
    }

    pub(super) fn answered(&mut self, took: Millis) {
        self.is_felt |= took >= FELT;
    }

    /// True if so many blocks may be copied now.
    pub(super) fn take(&mut self, now: Time, blocks: u32) -> bool {
        if self.throttle.rate == 0 {
            // An explored model has no clock to pace by.
            return true;
        }
        if self.resting.is_some_and(|until| now < until) {
            return false;
        }
        self.resting = None;
        self.fill(now);
        let cost = u64::from(blocks) * 1_000;
        // A segment larger than the bucket goes when the bucket is full.
        if self.tokens < cost.min(self.rate * 250) {
            return false;
        }
        self.tokens = self.tokens.saturating_sub(cost);
        true
    }

    fn fill(&mut self, now: Time) {
        let passed = now.since(self.filled).0;
        if passed == 0 {
            return;
        }
        self.filled = now;
        self.tokens = self.tokens.saturating_add(passed.saturating_mul(self.rate));
        self.tokens = self.tokens.min(self.rate * 250);
        // Halved when felt; else a tenth more for each tenth of a second.
        if core::mem::take(&mut self.is_felt) {
            self.rate = (self.rate / 2).max(RATE_MIN);
        } else {
            let more = (self.rate / 1_000).max(1).saturating_mul(passed);
            self.rate = self.rate.saturating_add(more).min(self.throttle.rate);
        }
    }

    pub(super) fn rest(&mut self, now: Time) {
        self.resting = Some(now + REST);
    }

    /// When a copy that waits may go on.
    pub(super) fn deadline(&self, is_copying: bool) -> Option<Time> {
        let is_waiting = is_copying && self.throttle.rate > 0;
        self.resting.or_else(|| is_waiting.then(|| self.filled + Millis(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 4_000;

    fn pace() -> Pace {
        Pace::new(Throttle { rate: RATE, window: 4 }, Time(0))
    }

    /// Blocks that may be copied from now on until then, in segments, looking every millisecond.
    fn copied(pace: &mut Pace, from: u64, until: u64) -> u64 {
        let mut blocks = 0;
        for now in from..until {
            while pace.take(Time(now), 100) {
                blocks += 100;
            }
        }
        blocks
    }

    #[test]
    fn copies_keep_to_their_rate() {
        let mut pace = pace();
        // A quarter of a second's worth is there from the start.
        let blocks = copied(&mut pace, 0, 10_000);
        assert!((10 * RATE..=10 * RATE + RATE / 4 + 100).contains(&blocks), "{blocks}");
    }

    #[test]
    fn a_host_that_is_slowed_down_halves_the_rate_and_a_quiet_one_gives_it_back() {
        let mut pace = pace();
        copied(&mut pace, 0, 1_000);
        for now in 1_000..1_100 {
            pace.answered(FELT);
            pace.take(Time(now), 100);
        }
        assert_eq!(pace.rate, RATE_MIN, "halved again and again, but never to nothing");
        pace.answered(Millis(1));
        let slow = copied(&mut pace, 1_100, 1_400);
        assert!(slow < RATE * 300 / 1_000, "{slow}");
        copied(&mut pace, 1_400, 60_000);
        assert_eq!(pace.rate, RATE);
    }

    #[test]
    fn after_a_region_that_nobody_can_read_copies_rest() {
        let mut pace = pace();
        pace.rest(Time(10));
        assert_eq!(pace.deadline(true), Some(Time(10) + REST));
        assert!(!pace.take(Time(11), 1));
        assert!(pace.take(Time(10) + REST, 1));
    }
}
