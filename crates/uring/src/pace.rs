//! How long to look for work before sleeping.
//!
//! A wake-up of a sleeping thread costs 100–180 µs on a virtual machine, several times what a small
//! I/O takes; looking costs a core. So a reactor looks only while looking pays: it learns from how
//! long its sleeps last. Sleeps that end soon raise the budget, a long one takes it away, so that
//! an idle reactor, also one with a timer now and then, never looks at all.

use std::time::Duration;

/// The longest look. More than a wake-up costs, so that a peer which sleeps between two requests is
/// still met awake; little enough that a stream of requests which dries up wastes next to nothing.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_micros(200);

/// The first budget after a short sleep; doubled by each further one.
pub(crate) const FIRST_LOOK: Duration = Duration::from_micros(50);

/// A sleep that ends within this would have been worth a look: the longest one, and the wake-up
/// that the sleep itself cost.
pub(crate) const SHORT_SLEEP: Duration = Duration::from_micros(400);

#[derive(Debug, Default)]
pub(crate) struct Pace {
    look: Duration,
}

impl Pace {
    pub fn look(&self) -> Duration {
        self.look
    }

    /// A sleep is over.
    pub fn slept(&mut self, how_long: Duration) {
        self.look = if how_long > SHORT_SLEEP {
            Duration::ZERO
        } else {
            (self.look * 2).clamp(FIRST_LOOK, LONGEST_LOOK)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_sleeps_make_it_look_and_one_long_sleep_ends_that() {
        let mut pace = Pace::default();
        assert_eq!(pace.look(), Duration::ZERO);
        for _ in 0..10 {
            pace.slept(Duration::from_micros(100));
        }
        assert_eq!(pace.look(), LONGEST_LOOK);
        pace.slept(Duration::from_millis(1));
        assert_eq!(pace.look(), Duration::ZERO);
    }
}
