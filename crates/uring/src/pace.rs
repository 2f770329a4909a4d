//! How long to look for work before sleeping.
//!
//! A wake-up of a sleeping thread costs 100–180 µs on a virtual machine, several times what a small
//! I/O takes; looking costs a core. So a reactor looks only while looking pays. It learns from the
//! gaps between work: short ones raise the budget, a long one takes it away, so that an idle
//! reactor, also one with a timer now and then, never looks at all.
//!
//! A core that others want is no place to look. Measured on two cores that builds kept busy: a
//! reactor which looked regardless answered a tenth of what a sleeping one did, because it was
//! preempted for milliseconds with work before it. So while looking it offers the core now and
//! then; if somebody took it, it rests from looking, the longer the more often that happens. An
//! interrupt is nobody: a disk whose interrupts came to this core made a reactor rest that had the
//! core to itself, and small reads from that disk took twice their time.

use std::time::{Duration, Instant};

/// The longest look. More than a wake-up costs, so that a peer which sleeps between two requests is
/// still met awake; little enough that requests which dry up waste next to nothing.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_micros(300);

/// The first budget after a short gap; doubled by each further one.
const FIRST_LOOK: Duration = Duration::from_micros(50);

/// A gap that the longest look would have met: that look, and a wake-up, which the gap includes
/// when it was slept through.
const SHORT_GAP: Duration = LONGEST_LOOK.saturating_add(Duration::from_micros(180));

/// How often the core is offered. The offer costs under a microsecond if nobody wants it, and a
/// peer on the same core waits no longer than this.
pub(crate) const OFFER_EVERY: Duration = Duration::from_micros(10);

/// A look that stood still for longer than this was not running: somebody had the core, or an
/// interrupt.
pub(crate) const STANDSTILL: Duration = Duration::from_micros(30);

/// Who had the core for less than this and left news was no disturbance: the kernel's own thread
/// that completes writes of files, or a peer on the same core that answered. Others take more.
pub(crate) const SERVED: Duration = Duration::from_micros(500);

/// The first rest; doubled each time that looking is disturbed again, up to the longest. Each try
/// may cost a time slice of about 3 ms, so the longest rest keeps that near one in a hundred.
const FIRST_REST: Duration = Duration::from_millis(2);
const LONGEST_REST: Duration = Duration::from_millis(256);

/// Undisturbed for this many rests, the next one is the first again.
const CALM_RESTS: u32 = 8;

#[derive(Debug)]
pub(crate) struct Pace {
    look: Duration,
    rest: Duration,
    disturbed: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { look: Duration::ZERO, rest: FIRST_REST, disturbed: None }
    }
}

impl Pace {
    /// How long to look from now on.
    pub fn look(&self, now: Instant) -> Duration {
        let is_resting = self.disturbed.is_some_and(|at| now < at + self.rest);
        if is_resting { Duration::ZERO } else { self.look }
    }

    /// Work came after a gap that ended in a sleep.
    pub fn slept(&mut self, gap: Duration) {
        self.look = if gap > SHORT_GAP {
            Duration::ZERO
        } else {
            (self.look * 2).clamp(FIRST_LOOK, LONGEST_LOOK)
        };
    }

    /// Somebody else wanted the core.
    pub fn disturbed(&mut self, now: Instant) {
        let was_calm = self.disturbed.is_none_or(|at| now > at + self.rest * CALM_RESTS);
        self.rest = if was_calm { FIRST_REST } else { (self.rest * 2).min(LONGEST_REST) };
        self.disturbed = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);
    const MILLI: Duration = Duration::from_millis(1);

    #[test]
    fn short_gaps_make_it_look_and_one_long_gap_ends_that() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert_eq!(pace.look(now), Duration::ZERO);
        for _ in 0..10 {
            pace.slept(100 * MICRO);
        }
        assert_eq!(pace.look(now), LONGEST_LOOK);
        pace.slept(MILLI);
        assert_eq!(pace.look(now), Duration::ZERO);
    }

    #[test]
    fn gaps_just_longer_than_any_look_are_slept_through() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        for _ in 0..10 {
            pace.slept(500 * MICRO);
        }
        assert_eq!(pace.look(now), Duration::ZERO);
    }

    #[test]
    fn it_rests_longer_while_disturbed_and_forgets_that_when_calm() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        pace.slept(100 * MICRO);
        let mut rests = Vec::new();
        for _ in 0..10 {
            pace.disturbed(now);
            let start = now;
            while pace.look(now).is_zero() {
                now += MILLI;
            }
            rests.push((now - start).as_millis());
        }
        assert_eq!(rests, [2, 4, 8, 16, 32, 64, 128, 256, 256, 256]);
        now += 9 * LONGEST_REST;
        pace.disturbed(now);
        assert!(!pace.look(now + 2 * MILLI).is_zero());
    }
}
